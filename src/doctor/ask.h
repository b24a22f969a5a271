/* SPDX-License-Identifier: Apache-2.0
 *
 * ask: runs a program and reads what it prints. The program may be missing, hang, print without
 * end, or leave other processes behind; in each case the caller goes on by its deadline. For a
 * child of the doctor: before a signal ends the child, it ends the program and its process group.
 * Owns nothing afterwards. Main thread.
 */
#pragma once

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

/* Looks for `argv` in PATH. Stores the output in `text`, cut to `size` and ended by NUL. False: the
 * program cannot be run, has not ended in time, or has printed nothing, for example because it
 * failed. */
MUST_CHECK bool ask(char **argv, int64_t wait_ns, char *text, size_t size, struct err *err);
