/* SPDX-License-Identifier: Apache-2.0
 *
 * stride: the steps at which a process checks the gate: every `period` steps, where step modulo
 * period is `offset`. Two joined strides give the steps common to both, so that one save step suits
 * every rank.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define STRIDE_MAX UINT64_C(1000000000) /* a longer common period is useless */

struct stride {
    uint64_t offset, period; /* offset < period; period 1: every step */
};

/* From the first step and the stride that a process states (0 counts as 1). */
struct stride stride_make(uint64_t first_step, uint64_t period);
/* *a becomes the steps common to both. False (and *a untouched) if there are none, or too few. */
bool stride_join(struct stride *a, struct stride b);
/* The first common step at or above `step`. */
uint64_t stride_up(struct stride s, uint64_t step);
