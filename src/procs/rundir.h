/* SPDX-License-Identifier: Apache-2.0
 *
 * rundir: the supervisor's private directory, where its sockets are.
 *
 * `<base>/pchrun.XXXXXX`, mode 0700. The supervisor keeps it locked (flock) as long as it runs. So
 * a directory with a socket and without a lock belongs to a dead supervisor; a reused pid cannot
 * mislead. rundir_remove() frees a struct rundir. Main thread.
 */
#pragma once

#include "base/err.h"

#include <sys/un.h>

#define RUNDIR_PREFIX "pchrun."
/* Files of other modules in this directory; rundir_remove() removes them, too. */
#define RUNDIR_FILE_PREFIX "error."
/* The longest base for which "<base>/pchrun.XXXXXX/socket" fits into a socket address. */
#define RUNDIR_BASE_MAX \
    (sizeof(((struct sockaddr_un *)0)->sun_path) - sizeof "/" RUNDIR_PREFIX "XXXXXX/socket")

struct rundir {
    char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
    char base[sizeof(((struct sockaddr_un *)0)->sun_path)];
    struct sockaddr_un addr; /* of the socket */
    int lock;                /* the directory, -1: there is none */
};

/* Makes a directory in `wanted` and binds a Unix socket in it, listening at *ret_listen
 * (SOCK_SEQPACKET, non-blocking, mode 0600) as `<path>/socket`. `wanted` NULL: in the first usable
 * of XDG_RUNTIME_DIR, TMPDIR, /tmp and /dev/shm; the error names all that were tried. */
MUST_CHECK bool rundir_make(const char *wanted, struct rundir *ret, int *ret_listen,
                            struct err *err);
/* Makes directory and socket again if they were removed: cleaners of /tmp ignore locks.
 * *ret_listen: the new listening socket. -1: the old one is still there. */
MUST_CHECK bool rundir_mend(struct rundir *dir, int *ret_listen, struct err *err);
/* Removes the socket, the error files and the directory. False: the directory stays, because it
 * holds something else (see errno). Another file or directory in its place stays untouched, and
 * counts as removed. */
bool rundir_remove(struct rundir *dir);

/* Calls back with the name of each directory beside ours whose owner is dead, at most 64. */
void rundir_find_stale(const struct rundir *dir, void (*found)(void *ctx, const char *name),
                       void *ctx);
