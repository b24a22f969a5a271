/* SPDX-License-Identifier: Apache-2.0
 * See command.h.
 */
#include "watch/command.h"

#include "base/fd.h"
#include "base/str.h"
#include "watch/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

bool command_exists(const char *name)
{
    const char *path = getenv("PATH");
    char file[512];
    while (path && *path) {
        size_t len = strcspn(path, ":");
        snprintf(file, sizeof file, "%.*s/%s", (int)(len < 400 ? len : 400), path, name);
        if (len > 0 && len < 400 && access(file, X_OK) == 0)
            return true;
        path += len + (path[len] == ':');
    }
    return false;
}

/* In the child. No other thread holds a lock, so putenv() may allocate. */
static void become(char *const *argv, char *const *env, int out, pid_t parent)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
        _exit(127);
    if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 ||
        dup2(null, STDERR_FILENO) < 0)
        _exit(127);
    for (; *env; env++)
        putenv(*env);
    loop_restore_signals();
    execvp(argv[0], argv);
    _exit(127);
}

bool command_start(struct command *command, char *const *argv, char *const *env, unsigned seconds,
                   struct err *err)
{
    int ends[2];
    pid_t self = getpid();
    command->len = 0;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return err_set(err, ERR_SYSTEM, errno, "cannot make a pipe for %s", argv[0]);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(seconds); /* survives exec; SIGALRM kills by default */
        become(argv, env, ends[1], self);
    }
    int why = errno;
    fd_close(&ends[1]);
    if (pid < 0) {
        fd_close(&ends[0]);
        return err_set(err, ERR_SYSTEM, why, "cannot start %s", argv[0]);
    }
    command->fd = ends[0];
    return true;
}

bool command_read(struct command *command)
{
    char rest[512];
    size_t room = sizeof command->output - 1 - command->len;
    ssize_t n = room > 0 ? read(command->fd, command->output + command->len, room)
                         : read(command->fd, rest, sizeof rest);
    if (n < 0 && errno == EINTR)
        return false;
    if (n > 0) {
        command->len += room > 0 ? (size_t)n : 0;
        return false;
    }
    fd_close(&command->fd);
    while (command->len > 0 && command->output[command->len - 1] == '\n')
        command->len--;
    command->output[command->len] = '\0';
    return true;
}
