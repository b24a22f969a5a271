/* SPDX-License-Identifier: Apache-2.0
 *
 * dial: makes one outgoing TCP connection at a time: looks the name up and tries its addresses in
 * turn, all within one deadline.
 *
 * on_done is called once for each dial_start(), from the loop, never from inside it. Main thread.
 */
#pragma once

#include "net/netaddr.h"

#include <stdint.h>

struct event_base;
struct dial;

/* fd >= 0: connected to `peer`; the callee owns the descriptor. -1: *err says why not. */
typedef void dial_done_fn(void *arg, int fd, const union netaddr *peer, const struct err *err);

struct dial_options {
    struct event_base *base;
    int64_t silence_ns; /* see stream_tune() */
    dial_done_fn *on_done;
    void *arg;
};

/* NULL: memory is short. */
struct dial *dial_new(const struct dial_options *options);
void dial_free(struct dial *dial);
/* Begins; `wait_ns` bounds the whole. Call it when no other connection is under way: before the
 * first, from on_done or after dial_stop(). */
void dial_start(struct dial *dial, const struct address *where, int64_t wait_ns);
/* Gives up; on_done is not called. */
void dial_stop(struct dial *dial);
