/* SPDX-License-Identifier: Apache-2.0
 * See tty.h.
 */
#include "os/tty.h"

#include "base/fd.h"
#include "os/proc.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

/* Our group is a shell's job if a process of it has a parent in the same session but in another
 * group. Otherwise the group is orphaned, and no shell would continue a stopped process. Checks
 * only us and our ancestors. */
static bool is_job(void)
{
    enum { DEPTH_MAX = 64 };
    struct proc us, above;
    if (getpid() == 1 || getsid(0) == getpid() || !proc_read(getpid(), &us))
        return false;
    pid_t pid = us.ppid;
    for (int depth = 0; depth < DEPTH_MAX && pid > 0 && proc_read(pid, &above); depth++) {
        if (above.sid != us.sid)
            return false;
        if (above.pgid != us.pgid)
            return true;
        pid = above.ppid;
    }
    return false;
}

void tty_open(struct tty *tty)
{
    *tty = (struct tty){.fd = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC)};
    tty->has_jobs = tty->fd >= 0 && is_job();
    /* Finds other members of our group: a script leads the group; a pipeline shows in 0 or 1. */
    tty->is_ours_alone =
        tty->fd >= 0 && getpgrp() == getpid() && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
}

void tty_close(struct tty *tty)
{
    fd_close(&tty->fd);
}

bool tty_is_foreground(const struct tty *tty, pid_t group)
{
    return tty->fd >= 0 && group > 0 && tcgetpgrp(tty->fd) == group;
}

bool tty_lend(struct tty *tty, pid_t group)
{
    if (!tty_is_foreground(tty, group) &&
        (!tty_is_foreground(tty, getpgrp()) || tcsetpgrp(tty->fd, group) != 0))
        return false;
    tty->lent_to = group;
    return true;
}

void tty_take_back(struct tty *tty)
{
    if (tty->lent_to && tty_is_foreground(tty, tty->lent_to) && tcsetpgrp(tty->fd, getpgrp()) == 0)
        tty->lent_to = 0;
}

void tty_stop_us(bool with_group)
{
    /* SIGTSTP is blocked here, and SIGCONT discards a pending one. */
    if (with_group)
        kill(0, SIGTSTP);
    raise(SIGSTOP);
}
