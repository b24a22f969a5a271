/* SPDX-License-Identifier: Apache-2.0
 *
 * policy: what a user may choose of how a job is led. The configuration reads it, the core obeys
 * it, and os says where a signal came from. Constant.
 */
#ifndef PCHRUN_BASE_POLICY_H
#define PCHRUN_BASE_POLICY_H

/* How pchrun treats a signal that it gets. */
enum signal_rule {
    SIGNAL_FORWARD,    /* send it on to the training commands */
    SIGNAL_PREEMPT,    /* a notice: save and leave */
    SIGNAL_CHECKPOINT, /* save and go on */
    SIGNAL_IGNORE,
};

/* The origin of a signal. */
enum signal_from {
    SIGNAL_FROM_OUTSIDE,
    SIGNAL_FROM_TERMINAL, /* a key or a change of size: the kernel signals the whole foreground
                             group, so the commands have the signal already */
    SIGNAL_FROM_JOB,      /* a process of the job: not forwarded back */
};

enum save_mode {
    SAVE_ATTACH,  /* processes attach through libpch; other programs get the notice's signal */
    SAVE_SIGNAL,  /* a signal asks the ranks to save and end */
    SAVE_FORWARD, /* the training commands get the notice's signal */
};

/* The reaction to a job that hangs. */
enum watchdog_mode { WATCHDOG_OFF, WATCHDOG_LOG, WATCHDOG_ON };

/* The processes that the commands leave behind. */
enum leftovers { LEFTOVERS_KILL, LEFTOVERS_LEAVE };

#endif
