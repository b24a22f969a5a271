/* SPDX-License-Identifier: Apache-2.0
 *
 * jobs: job control and the keyboard.
 *
 * A single command is in the foreground from its start if we are, alone; its keyboard signals do
 * not come to us. In all other cases they do, and go on to the commands' groups, as the terminal
 * would have sent them. When a command stops and a shell is above us we stop, too, so that the user
 * gets the prompt; when we go on, the commands do. Owns the terminal's descriptor. Main thread.
 */
#ifndef PCHRUN_RUN_JOBS_H
#define PCHRUN_RUN_JOBS_H

#include "os/signals.h"
#include "os/tty.h"
#include "run/children.h"

struct jobs {
    struct tty tty;
    struct children *children;
    const struct core_params *params;
    bool is_lender;    /* the terminal goes to the command as soon as it is ours */
    bool expects_cont; /* the SIGCONT that ended our stop has still to be read */
};

void jobs_init(struct jobs *jobs, struct children *children, const struct core_params *params);
/* Before each start: tells children whether the command gets the terminal. */
void jobs_will_start(struct jobs *jobs);
/* After it. */
void jobs_started(struct jobs *jobs);
/* Hands the terminal back. */
void jobs_free(struct jobs *jobs);

/* A signal came to us. True: it was one of job control, and the core need not hear of it. */
bool jobs_signal(struct jobs *jobs, const struct signals_info *info);

#endif
