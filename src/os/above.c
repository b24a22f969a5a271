/* SPDX-License-Identifier: Apache-2.0
 * See above.h.
 */
#include "os/above.h"

#include "base/fd.h"
#include "base/str.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Of the list of a shell's children, only this many bytes are read. */
enum { CHILDREN_TEXT = 4096 };

bool above_has_terminal(void)
{
    FD_CLEANUP int terminal = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NONBLOCK);
    return terminal >= 0;
}

bool above_is_shell(const char *name)
{
    static const char *const shells[] = {"sh",  "bash", "dash",    "ash",
                                         "ksh", "zsh",  "busybox", NULL};
    return str_is_one_of(name, shells);
}

void above_read_program(const struct proc *proc, char *ret, size_t size)
{
    if (!proc_program(proc->pid, ret, size))
        str_copy(ret, size, proc->comm);
}

bool above_find_shell(pid_t parent, struct proc *ret)
{
    char program[32];
    if (!proc_read(parent, ret) || above_has_terminal() || proc_handles(parent, SIGTERM))
        return false;
    above_read_program(ret, program, sizeof program);
    return above_is_shell(program);
}

/* "pipe:[4711]" is the same text for both ends. */
static bool read_link_of_fd(pid_t pid, int fd, char ret[64])
{
    char link[48];
    snprintf(link, sizeof link, "/proc/%d/fd/%d", (int)pid, fd);
    ssize_t n = readlink(link, ret, 63);
    ret[n > 0 ? n : 0] = '\0';
    return str_starts(ret, "pipe:");
}

bool above_find_reader(pid_t self, pid_t parent, struct proc *ret)
{
    char path[64], list[CHILDREN_TEXT], ours[64], theirs[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)parent, (int)parent);
    if (!read_link_of_fd(self, STDOUT_FILENO, ours) || fd_read_text(path, list, sizeof list) <= 0)
        return false;
    for (char *at = list, *end;; at = end) {
        pid_t pid = (pid_t)strtol(at, &end, 10);
        if (end == at)
            return false;
        if (pid != self && read_link_of_fd(pid, STDIN_FILENO, theirs) && str_is(theirs, ours))
            return proc_read(pid, ret);
    }
}
