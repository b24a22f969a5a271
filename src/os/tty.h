/* SPDX-License-Identifier: Apache-2.0
 *
 * tty: the controlling terminal, its foreground group, and job control.
 *
 * The commands run in a group of their own, so the keyboard reaches either them or us. Where we are
 * alone in the foreground the terminal is theirs from the start. Where we share the foreground with
 * others (a script that started us, a pipeline that reads the terminal) it is lent to them only
 * when they ask for it, by being stopped with SIGTTIN or SIGTTOU; until then the keyboard's signals
 * come to us, and we pass them on. Owns one descriptor: tty_close(). Main thread, with SIGTTOU
 * blocked. Without a terminal, or when it is gone, every call does nothing. See tcsetpgrp(3),
 * credentials(7).
 */
#ifndef PCHRUN_OS_TTY_H
#define PCHRUN_OS_TTY_H

#include "base/err.h"

#include <sys/types.h>

struct tty {
    int fd;             /* -1: we have no controlling terminal */
    pid_t lent_to;      /* the group that got it from us, 0: none */
    bool has_jobs;      /* a shell with job control is above us: who stops can be started again */
    bool is_ours_alone; /* nobody else of our group needs it */
};

void tty_open(struct tty *tty);
void tty_close(struct tty *tty);

/* Is this group in the foreground? */
bool tty_is_foreground(const struct tty *tty, pid_t group);
/* Makes `group` the foreground if that is us (or already is it). */
bool tty_lend(struct tty *tty, pid_t group);
/* The group got it by the child's own hand, between fork and exec. */
void tty_was_lent(struct tty *tty, pid_t group);
/* Takes it back if who got it from us still has it. */
void tty_take_back(struct tty *tty);

/* Stops us, and with us the others of our group if the keyboard's signal did not reach them.
 * Returns when we have been continued. */
void tty_stop_us(bool with_group);

#endif
