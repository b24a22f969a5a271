/* SPDX-License-Identifier: Apache-2.0
 *
 * rundir: the supervisor's private directory, where its sockets are.
 *
 * `<base>/pchrun.XXXXXX`, mode 0700, which its owner holds locked (flock) for as long as it lives;
 * so a directory with a socket whose lock can be had is a dead one's, whatever has become of the
 * process number. A struct rundir is ended by rundir_remove(), which removes only what
 * rundir_make() made. Main thread.
 */
#ifndef PCHRUN_LINK_RUNDIR_H
#define PCHRUN_LINK_RUNDIR_H

#include "base/err.h"

#include <sys/un.h>

#define RUNDIR_PREFIX "pchrun."
/* Of files that others may put there, and that go with it. */
#define RUNDIR_FILE_PREFIX "error."
/* The longest directory in which the path of the socket, "/pchrun.XXXXXX/socket", still fits. */
#define RUNDIR_BASE_MAX \
    (sizeof(((struct sockaddr_un *)0)->sun_path) - sizeof "/" RUNDIR_PREFIX "XXXXXX/socket")

struct rundir {
    char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
    char base[sizeof(((struct sockaddr_un *)0)->sun_path)];
    int lock; /* the directory, -1: there is none */
};

/* Makes a directory in `wanted` and binds a Unix socket in it, listening at *ret_listen
 * (SOCK_SEQPACKET, non-blocking, mode 0600) as `<path>/socket`. `wanted` NULL: in the first of
 * XDG_RUNTIME_DIR, TMPDIR, /tmp and /dev/shm where that succeeds; the error then names every one
 * that was tried. */
MUST_CHECK bool rundir_make(const char *wanted, struct rundir *ret, int *ret_listen,
                            struct err *err);
/* Makes the directory again, and the socket in it, which listens at *ret_listen, where somebody has
 * removed them: who cleans /tmp does not know of locks. -1: the socket is still there. */
MUST_CHECK bool rundir_mend(struct rundir *dir, int *ret_listen, struct err *err);
/* The socket's path. Lives as long as the rundir. */
void rundir_socket(const struct rundir *dir, struct sockaddr_un *ret);
/* Removes socket, those files and the directory. False: something else is in the directory, which
 * stays (errno says why). */
bool rundir_remove(struct rundir *dir);

/* Calls back with the name of each directory beside ours whose owner is dead, at most 64. */
void rundir_find_stale(const struct rundir *dir, void (*found)(void *ctx, const char *name),
                       void *ctx);

#endif
