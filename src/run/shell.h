/* SPDX-License-Identifier: Apache-2.0
 *
 * shell: the supervisor around the core: connects the rooms below it, performs the core's actions,
 * and ends at ACT_EXIT. Main thread.
 */
#pragma once

#include "config/config.h"

/* Call first in main, before anything could start a thread or a process. */
void shell_begin(void);

struct shell_end {
    int code;   /* the exit code */
    int signal; /* the signal to die of instead; 0: none */
    /* The last log line, for shell_finish(); "": none. */
    int level; /* enum log_level */
    char text[900];
    bool stands_by; /* another supervisor has the place of this node: see standby.h, run again */
};

/* Runs the job. `closed`: bits of the standard descriptors that were closed when pchrun was
 * started. Failures are logged and are in the code. */
struct shell_end shell_run(struct config *config, unsigned closed);

/* The end of a run that did not begin: 125, and why. */
struct shell_end shell_end_unstarted(const struct err *err);

/* Call last in main: logs the end, dies of the signal if there is one and it is possible, else
 * returns the code. */
int shell_finish(const struct shell_end *end);
