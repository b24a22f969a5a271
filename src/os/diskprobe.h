/* SPDX-License-Identifier: Apache-2.0
 *
 * diskprobe: whether a directory can be written to, and how fast its disk answers. Leaves nothing
 * behind.
 */
#pragma once

#include "base/err.h"

#include <stdint.h>

/* Writes a file of 64 KiB that has no name, or only for a moment; waits until it is on the disk,
 * and reads it back. *ret_ns: how long that took. False: *err says what cannot be done. May block,
 * in a dead file system for ever: call it in a helper. */
MUST_CHECK bool diskprobe(const char *dir, int64_t *ret_ns, struct err *err);
