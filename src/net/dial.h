/* SPDX-License-Identifier: Apache-2.0
 *
 * dial: makes one outgoing TCP connection: looks the name up and tries its addresses in turn, all
 * within one deadline.
 *
 * on_done is called once, from the loop, never from inside dial_start(). The dial is freed before
 * that call. Main thread.
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
    int64_t wait_ns;    /* deadline of the whole dial */
    int64_t silence_ns; /* see stream_tune() */
    dial_done_fn *on_done;
    void *arg;
};

/* NULL: memory is short. */
struct dial *dial_start(const struct dial_options *options, const struct address *where);
/* Gives up; on_done is not called. */
void dial_free(struct dial *dial);
