/* SPDX-License-Identifier: Apache-2.0
 * See helper.h.
 */
#include "os/helper.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

bool helper_start(struct reap *reap, void (*fn)(const void *arg), const void *arg, struct err *err)
{
    pid_t pid = fork();
    if (pid == 0) {
        fd_range(0, FD_RANGE_CLOSE, NULL, 0);
        fn(arg);
        _exit(0);
    }
    if (pid < 0)
        return err_set(err, ERR_SYSTEM, errno, "cannot start a helper");
    reap_keep(reap, pid);
    return true;
}

void helper_detach(int keep)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; null >= 0 && fd <= 2; fd++)
        dup2(null, fd);
    fd_range(3, FD_RANGE_CLOSE, &keep, 1);
    if (chdir("/") != 0) /* harmless: the directory stays in use */
        return;
}
