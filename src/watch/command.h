/* SPDX-License-Identifier: Apache-2.0
 *
 * command: runs one program for its short output. It dies with us, and of SIGALRM at its time
 * limit. The kernel reaps it (loop.h), so its exit status is unknown and only its output counts.
 * Main thread.
 */
#ifndef PCHRUN_WATCH_COMMAND_H
#define PCHRUN_WATCH_COMMAND_H

#include "base/err.h"

#include <stddef.h>

#define COMMAND_OUTPUT_MAX 4096

struct command {
    int fd; /* its output; -1: no program runs */
    char output[COMMAND_OUTPUT_MAX];
    size_t len;
};

/* Is there such a program in PATH? */
bool command_exists(const char *name);
/* Starts argv[0] from PATH, with `env` (up to NULL) added to our environment. It is killed after so
 * many seconds. */
MUST_CHECK bool command_start(struct command *command, char *const *argv, char *const *env,
                              unsigned seconds, struct err *err);
/* Call when fd is readable. True: the output has ended; `output` is a text without a final newline,
 * cut to its size. */
bool command_read(struct command *command);

#endif
