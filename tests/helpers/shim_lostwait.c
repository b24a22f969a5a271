/* SPDX-License-Identifier: Apache-2.0
 *
 * shim_lostwait: the launcher's children look as if a library had reaped them. A wait that would
 * report the end of a child reaps the child, but fails with ECHILD.
 */
#include "shim.h"

#include <sys/wait.h>

SHIM_API pid_t waitpid(pid_t pid, int *status, int options)
{
    pid_t result = SHIM_NEXT(waitpid)(pid, status, options);
    if (result <= 0 || !shim_is_on() || WIFSTOPPED(*status) || WIFCONTINUED(*status))
        return result;
    errno = ECHILD;
    return -1;
}

SHIM_API int waitid(idtype_t type, id_t id, siginfo_t *info, int options)
{
    int result = SHIM_NEXT(waitid)(type, id, info, options & ~WNOWAIT);
    bool is_end =
        info->si_code == CLD_EXITED || info->si_code == CLD_KILLED || info->si_code == CLD_DUMPED;
    if (result < 0 || info->si_pid == 0 || !is_end || !shim_is_on())
        return result;
    memset(info, 0, sizeof *info);
    errno = ECHILD;
    return -1;
}
