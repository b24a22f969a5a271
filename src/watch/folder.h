/* SPDX-License-Identifier: Apache-2.0
 *
 * folder: one file that others write, by way of inotify on its directory: it may appear, be
 * changed, replaced, moved or removed, or be a symbolic link into a directory that is replaced as a
 * whole, as Kubernetes does it. Where inotify does not see all that happens (a file system that
 * others write to from elsewhere), and while there is no directory, it is looked at every
 * `interval`, too. Main thread.
 */
#ifndef PCHRUN_WATCH_FOLDER_H
#define PCHRUN_WATCH_FOLDER_H

#include "watch/watch.h"

#define FOLDER_FILE_MAX 65536

/* Who creates a file, or writes to it, may not have finished: it is read when it has been closed,
 * or so long after the first that was seen of it. */
#define FOLDER_SETTLE_NS (100 * NS_PER_MS)

enum folder_found {
    FOLDER_FILE,    /* `data` is what it holds */
    FOLDER_NOTHING, /* it is not there */
    FOLDER_FAILED,  /* *err: it cannot be read now */
};

struct folder {
    struct watch *watch;
    const char *path;
    void (*changed)(struct folder *folder); /* it may be otherwise now: folder_read() it */
    char dir[4096];
    const char *name; /* in path: of the file */
    bool is_all;      /* any change in the directory counts */
    bool is_far;      /* inotify does not see all */
    bool is_closed;   /* ... and what it saw last was that a writer has finished */
    struct loop_timer timer;
    char data[FOLDER_FILE_MAX + 1];
    size_t len;
    int64_t changed_ns; /* the file's own time, by the wall clock */
};

/* path, changed and is_all are set. Calls changed() when something happens from now on, not for
 * what is there already. False: there is no such directory. */
MUST_CHECK bool folder_watch(struct folder *folder, struct watch *watch, struct err *err);
enum folder_found folder_read(struct folder *folder, struct err *err);
/* Calls changed() within FOLDER_SETTLE_NS, whether anything is seen to happen or not. */
void folder_look_again(struct folder *folder);

#endif
