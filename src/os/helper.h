/* SPDX-License-Identifier: Apache-2.0
 *
 * helper: a forked child for one task that may block for ever, for example in a dead file system,
 * so that the supervisor never blocks.
 *
 * The child closes our descriptors: a stuck helper would hold our sockets and locks. It answers
 * through a socket. Its owner waits for the answer with a deadline, here or in the event loop, and
 * kills a late helper. reap collects it when it ends. Main thread.
 */
#pragma once

#include "os/reap.h"

#include <stdint.h>

/* Calls fn(arg) in a child that needs no answer and may outlive us. fn may allocate memory: fork(3)
 * of the C library sees to the locks of its allocator. Our threads hold no other one
 * (procs/deathwatch.h). */
MUST_CHECK bool helper_start(struct reap *reap, void (*fn)(const void *arg), const void *arg,
                             struct err *err);

/* Set reap first, and fn and ctx of `watch` if they are needed. Zeroed: no helper was started. */
struct helper {
    struct reap *reap;
    struct reap_watch watch; /* pid 0: no helper runs */
    int answer; /* to read the answer from, non-blocking; at end of file when the helper has ended
                 */
    bool keeps_dir; /* stays in our working directory; set first */
};

/* Runs in the child, as helper_start()'s fn. Writes to `answer`. The child ends when it returns. */
typedef void helper_fn(const void *arg, int answer);

/* The child has only `answer` and /dev/null open, and dies with us. False: *err says "cannot start
 * a process for it"; no helper runs. */
MUST_CHECK bool helper_ask(struct helper *helper, helper_fn *fn, const void *arg, struct err *err);

enum helper_news { HELPER_ANSWER, HELPER_LATE, HELPER_ENDED, HELPER_SIGNAL };
/* Waits until an answer of `size` bytes has come, the helper has ended, or `signals` can be read
 * (-1: none), at the latest until `until` (CLOCK_MONOTONIC). */
enum helper_news helper_read(const struct helper *helper, int signals, int64_t until, void *ret,
                             size_t size);
/* Ends the helper. With is_killed it is killed at once. Otherwise the helper sees the end of its
 * input and should end; it is killed at `until`. Waits for its end until then. reap collects a
 * helper that hangs longer. Does nothing if none was started. */
void helper_end(struct helper *helper, bool is_killed, int64_t until);
