/* SPDX-License-Identifier: Apache-2.0
 *
 * gaveup: does a text say that a process gave up its wait for other ranks? Libraries of collectives
 * end such a wait after a time-out: PyTorch's process groups, with gloo and with NCCL. The process
 * then fails, but the job has hung: another rank did not come. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Of an exception, an error file or standard error. */
bool gaveup_is_told(const char *text);
/* The line of `text` that tells it, cut to `size`. False: no line does. */
bool gaveup_line(const char *text, char *ret, size_t size);
