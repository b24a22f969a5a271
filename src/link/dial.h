/* SPDX-License-Identifier: Apache-2.0
 *
 * dial: one outgoing TCP connection in the making: the name looked up, its addresses tried in turn,
 * all within one deadline.
 *
 * The answer comes through the loop, once, never from inside dial_start(); the dial has freed
 * itself by then. Main thread.
 */
#ifndef PCHRUN_LINK_DIAL_H
#define PCHRUN_LINK_DIAL_H

#include "link/netaddr.h"

#include <stdint.h>

struct event_base;
struct dial;

/* fd >= 0: connected to `peer`, the descriptor is the callee's. -1: *err says why not. */
typedef void dial_done_fn(void *arg, int fd, const union netaddr *peer, const struct err *err);

struct dial_options {
    struct event_base *base;
    int64_t wait_ns;    /* until it is given up */
    int64_t silence_ns; /* as of stream_tune() */
    dial_done_fn *on_done;
    void *arg;
};

/* NULL: memory is short. */
struct dial *dial_start(const struct dial_options *options, const struct address *where);
/* Gives it up; no answer follows. */
void dial_free(struct dial *dial);

#endif
