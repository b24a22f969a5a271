/* SPDX-License-Identifier: Apache-2.0
 *
 * healthdisk: the built-in health check of the checkpoint directory (health.disk). For a helper,
 * since a dead file system blocks.
 */
#pragma once

#include "health/healthline.h"

/* helper_fn: `arg` is the directory. Writes one struct health_answer. */
void healthdisk_check(const void *arg, int answer);
