/* SPDX-License-Identifier: Apache-2.0
 *
 * ask: runs a program and reads what it prints. The program may be missing, hang, print without
 * end, or leave other processes behind; none of that delays the caller beyond its deadline. For a
 * child of the doctor: before a signal ends the child, it ends the program and its process group.
 * Owns nothing afterwards. Main thread.
 */
#pragma once

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

/* Looks for `argv` in PATH. Stores the output in `text`, cut to `size` and ended by NUL. False: the
 * program cannot be run, has not ended in time, or has printed nothing, as a program that fails may
 * do. */
MUST_CHECK bool ask(char **argv, int64_t wait_ns, char *text, size_t size, struct err *err);
