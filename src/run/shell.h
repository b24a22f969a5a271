/* SPDX-License-Identifier: Apache-2.0
 *
 * shell: the supervisor around the core: it puts the parts of this room together, performs the
 * core's actions, and ends when the core says EXIT. Main thread.
 */
#ifndef PCHRUN_RUN_SHELL_H
#define PCHRUN_RUN_SHELL_H

#include "config/config.h"

/* First thing in main, before anything that could start a thread or a process. */
void shell_begin(void);

struct shell_end {
    int code;   /* to exit with */
    int signal; /* to die of instead, 0: none */
    /* The last line that is said, by shell_finish(); "": nothing more. */
    int level; /* enum log_level */
    char text[900];
};

/* Runs the job. `closed` has the bits of those standard descriptors that were closed when we were
 * started. Whatever fails is logged, and is in the code. */
struct shell_end shell_run(struct config *config, unsigned closed);

/* The end of a run that has not begun: 125, and why. */
void shell_end_unstarted(struct shell_end *end, const struct err *err);

/* Last thing in main: says how it ended, dies of the signal if there is one and it can be, else
 * returns the code. */
int shell_finish(const struct shell_end *end);

#endif
