/* SPDX-License-Identifier: Apache-2.0
 *
 * shim_refuse: the common parts of the shims that refuse something. SHIM_REFUSE="fork:17" lets the
 * 17th call of that kind fail, "fork:17+" this call and all later ones. With SHIM_AFTER the calls
 * count from the moment when that file is there. Each failure adds a byte to the file SHIM_REFUSED.
 * Children between fork and exec are left alone.
 */
#pragma once

#include "shim.h"

#include <fcntl.h>
#include <sys/syscall.h>

static struct {
    bool is_begun, is_on, is_lasting;
    char kind[32];
    long first, calls;
    pid_t pid;
} the_shim;

static inline void shim_begin(void)
{
    const char *what = getenv("SHIM_REFUSE"), *colon = what ? strchr(what, ':') : NULL;
    the_shim.is_begun = true;
    the_shim.is_on = colon && (size_t)(colon - what) < sizeof the_shim.kind && shim_is_on();
    if (!the_shim.is_on)
        return;
    memcpy(the_shim.kind, what, (size_t)(colon - what));
    the_shim.first = strtol(colon + 1, NULL, 10);
    the_shim.is_lasting = strchr(colon, '+') != NULL;
    the_shim.pid = getpid();
}

static inline void shim_note(void)
{
    const char *path = getenv("SHIM_REFUSED");
    int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;
    int fd = path ? (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0600) : -1;
    if (fd < 0 || write(fd, ".", 1) != 1)
        _exit(97);
    close(fd);
}

/* False: the file SHIM_AFTER is not there yet. */
static inline bool shim_has_come(void)
{
    const char *path = getenv("SHIM_AFTER");
    return !path || syscall(SYS_faccessat, AT_FDCWD, path, F_OK) == 0;
}

/* Is this call of that kind to fail, with `error`? */
static inline bool shim_refuses(const char *kind, int error)
{
    if (!the_shim.is_begun)
        shim_begin();
    if (!the_shim.is_on || strcmp(kind, the_shim.kind) != 0 || the_shim.pid != getpid() ||
        !shim_has_come())
        return false;
    long call = ++the_shim.calls;
    if (call < the_shim.first || (call > the_shim.first && !the_shim.is_lasting))
        return false;
    shim_note();
    errno = error;
    return true;
}
