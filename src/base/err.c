/* SPDX-License-Identifier: Apache-2.0
 * See err.h. Owns nothing; cannot fail: a text that is too long is cut.
 */
#include "base/err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

/* Any call can reach the limit on descriptors, so the advice is added here. */
static void err_add_reason(char *text, size_t size, int sys_errno)
{
    struct rlimit limit;
    if (sys_errno == EMFILE && getrlimit(RLIMIT_NOFILE, &limit) == 0)
        snprintf(text, size, ": %s; the limit on open descriptors (ulimit -n) is %llu: raise it",
                 strerror(sys_errno), (unsigned long long)limit.rlim_cur);
    else
        snprintf(text, size, ": %s", strerror(sys_errno));
}

bool err_set(struct err *err, enum err_code code, int sys_errno, const char *fmt, ...)
{
    if (!err)
        return false;
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(err->text, sizeof err->text, fmt, ap);
    va_end(ap);
    if (sys_errno && n >= 0 && (size_t)n < sizeof err->text)
        err_add_reason(err->text + n, sizeof err->text - (size_t)n, sys_errno);
    err->code = (int)code;
    err->sys_errno = sys_errno;
    return false;
}

bool err_wrap(struct err *err, const char *fmt, ...)
{
    if (!err)
        return false;
    char inner[sizeof err->text];
    memcpy(inner, err->text, sizeof inner);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(err->text, sizeof err->text, fmt, ap);
    va_end(ap);
    size_t n = strnlen(err->text, sizeof err->text - 3);
    memcpy(err->text + n, ": ", 3);
    strncat(err->text, inner, sizeof err->text - n - 3);
    return false;
}
