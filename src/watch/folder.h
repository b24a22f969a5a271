/* SPDX-License-Identifier: Apache-2.0
 *
 * folder: watches one file that other programs write, by inotify on its directory. The file may
 * appear, change, be replaced, moved or removed. It may also be a symbolic link into a directory
 * that is replaced as a whole, as in Kubernetes. On a shared file system, where inotify misses
 * changes of other machines, and while the directory is missing, the file is also read every
 * `interval`. Main thread.
 */
#pragma once

#include "watch/watch.h"

#define FOLDER_FILE_MAX 65536

/* A writer may not have finished. So the file is read when it is closed, or this time after its
 * first change. */
#define FOLDER_SETTLE_NS (100 * NS_PER_MS)

enum folder_found {
    FOLDER_FILE,    /* `data` is its content */
    FOLDER_NOTHING, /* it is missing */
    FOLDER_FAILED,  /* *err: it cannot be read now */
};

struct folder {
    const char *path;
    void (*changed)(struct folder *folder); /* it may have changed: call folder_read() */
    char dir[4096];
    const char *name; /* the file's name in path */
    bool is_all;      /* any change in the directory counts */
    bool is_far;      /* inotify misses changes */
    bool is_closed;   /* the last event: a writer has closed the file */
    struct watch_timer timer;
    char data[FOLDER_FILE_MAX + 1];
    size_t len;
    int64_t changed_ns; /* the file's own time, by the wall clock */
};

/* Set path, changed and is_all first. Calls changed() on changes from now on, not for an existing
 * file. False: no such directory. */
MUST_CHECK bool folder_watch(struct folder *folder, struct err *err);
enum folder_found folder_read(struct folder *folder, struct err *err);
/* Calls changed() within FOLDER_SETTLE_NS, even without a change. */
void folder_look_again(struct folder *folder);
