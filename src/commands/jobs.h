/* SPDX-License-Identifier: Apache-2.0
 *
 * jobs: job control and the keyboard.
 *
 * The commands run in their own groups, so the keyboard reaches either them or pchrun. A single
 * command gets the terminal at its start if pchrun alone has it; the keyboard signals then do not
 * reach pchrun. In all other cases pchrun gets them and signals the commands' groups, as the
 * terminal would have done. If a script or a pipeline shares pchrun's group, the commands get the
 * terminal only when SIGTTIN or SIGTTOU stops them. If a command stops and a shell runs above
 * pchrun, pchrun stops too, so that the user gets the prompt. When pchrun continues, it continues
 * the commands. Owns the terminal's descriptor. Main thread, with SIGTTOU blocked. See
 * tcsetpgrp(3), credentials(7).
 */
#pragma once

#include "commands/children.h"
#include "os/signals.h"

struct jobs {
    struct children *children;
    int tty;           /* the controlling terminal; -1: none */
    pid_t lent_to;     /* the group that pchrun gave the terminal; 0: none */
    bool has_shell;    /* a shell with job control can continue pchrun after a stop */
    bool is_lender;    /* lends the terminal to the command as soon as pchrun has it */
    bool expects_cont; /* the SIGCONT that ended pchrun's stop is not read yet */
};

void jobs_init(struct jobs *jobs, struct children *children);
/* ACT_START: starts the commands; the only command may get the terminal. */
void jobs_start(struct jobs *jobs, const struct action *action);
/* Hands the terminal back. */
void jobs_free(struct jobs *jobs);

/* pchrun got a signal. True: job control has handled it; the core need not know it. */
bool jobs_signal(struct jobs *jobs, const struct signals_info *info);
