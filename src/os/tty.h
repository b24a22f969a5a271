/* SPDX-License-Identifier: Apache-2.0
 *
 * tty: the controlling terminal, its foreground group, and job control.
 *
 * The commands run in their own group, so the keyboard reaches either them or us. If our group has
 * no other process, the terminal goes to the commands from the start. If a script or a pipeline
 * shares our group, the commands get it only when SIGTTIN or SIGTTOU stops them. Until then the
 * keyboard's signals come to us, and we pass them on. Owns one descriptor: tty_close(). Main
 * thread, with SIGTTOU blocked. Without a terminal, every call does nothing. See tcsetpgrp(3),
 * credentials(7).
 */
#ifndef PCHRUN_OS_TTY_H
#define PCHRUN_OS_TTY_H

#include "base/err.h"

#include <sys/types.h>

struct tty {
    int fd;             /* -1: no controlling terminal */
    pid_t lent_to;      /* the group that we gave it to, 0: none */
    bool has_jobs;      /* a shell with job control can continue us after a stop */
    bool is_ours_alone; /* no other process of our group needs it */
};

void tty_open(struct tty *tty);
void tty_close(struct tty *tty);

/* Is this group in the foreground? */
bool tty_is_foreground(const struct tty *tty, pid_t group);
/* Makes `group` the foreground group if our group (or `group` itself) is. */
bool tty_lend(struct tty *tty, pid_t group);
/* Takes it back if the group that we gave it to still has it. */
void tty_take_back(struct tty *tty);

/* Stops us. `with_group`: also the rest of our group, for a signal that did not come from the
 * keyboard. Returns after SIGCONT. */
void tty_stop_us(bool with_group);

#endif
