/* SPDX-License-Identifier: Apache-2.0
 *
 * command: one program that is run for the few bytes that it prints. It dies with us, and of itself
 * when its time is over; the kernel reaps it (loop.h), so its exit status is not known: what it has
 * printed must speak for itself. Main thread.
 */
#ifndef PCHRUN_WATCH_COMMAND_H
#define PCHRUN_WATCH_COMMAND_H

#include "base/err.h"

#include <stddef.h>

#define COMMAND_OUTPUT_MAX 4096

struct command {
    int fd; /* readable while it runs; -1: none does */
    char output[COMMAND_OUTPUT_MAX];
    size_t len;
};

/* Is there such a program in PATH? */
bool command_exists(const char *name);
/* Starts argv[0], found in PATH, with `env` (up to NULL) put over our environment. It is killed
 * after that many seconds. */
MUST_CHECK bool command_start(struct command *command, char *const *argv, char *const *env,
                              unsigned seconds, struct err *err);
/* There is something to read. True: that was the end, and `output` is a text with no newline at its
 * end; what was more than fits is not in it. */
bool command_read(struct command *command);

#endif
