/* SPDX-License-Identifier: Apache-2.0
 * See ctl.h. Opens a file of a job. Its owner may have put another kind of file there.
 */
#include "ctl/ctl.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

FILE *openfile_text(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return NULL;
    bool is_regular = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    FILE *file = is_regular ? fdopen(fd, "r") : NULL;
    int fault = is_regular ? errno : EINVAL;
    if (!file)
        close(fd);
    errno = fault;
    return file;
}

bool openfile_denied(const char *what, const char *place, struct err *err)
{
    return err_set(err, ERR_SYSTEM, 0,
                   "cannot look for a %s in %s: Permission denied; run pchctl as the user of the "
                   "job, or as root",
                   what, place);
}
