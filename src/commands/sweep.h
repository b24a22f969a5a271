/* SPDX-License-Identifier: Apache-2.0
 *
 * sweep: before the first start, kills the processes that dead pchruns have left, because they hold
 * memory, devices and ports that the commands need. cgroup.h and leftover.h find them.
 *
 * Waits at most stop.kill_wait for their end, and logs what was killed. Owns its memory and its
 * helper: sweep_free(). Main thread.
 */
#pragma once

#include "loop/inquiry.h"
#include "os/cgroup.h"
#include "os/leftover.h"

/* Zeroed: nothing was begun. Set the public fields, and search.helper.reap, first. */
struct sweep {
    struct event_base *base;
    const struct cgroup *cgroup; /* groups beside it are swept, if there is one */
    const struct leftover_marks *marks;
    int64_t kill_wait_ns;
    void (*on_swept)(void *ctx); /* the commands may start */
    void *ctx;
    /* private from here on */
    struct inquiry search; /* runs leftover_kill() */
    struct watch look;
    int64_t from;              /* since when it waits for their end; 0: it does not */
    struct cgroup_left found;  /* what was killed */
    struct leftover_list left; /* of these, those that have not ended */
};

/* Calls on_swept(), at once if nothing is left or can be looked for. */
void sweep_begin(struct sweep *sweep);
void sweep_free(struct sweep *sweep);
