/* SPDX-License-Identifier: Apache-2.0
 *
 * uplink: a node's connection to the chief: HELLO, heartbeats, reconnection, and the loss of the
 * chief. On node 0 the chief is in the same process (CONN_SELF), so its messages take no time.
 * Owned by node; pure.
 */
#ifndef PCHRUN_CORE_NODE_UPLINK_H
#define PCHRUN_CORE_NODE_UPLINK_H

#include "core/common/out.h"
#include "core/node/clockoff.h"

struct uplink {
    struct out *out;
    int conn;        /* CONN_SELF, CONN_CHIEF, or CONN_NONE while there is no connection */
    bool is_member;  /* not node 0 */
    bool is_welcome; /* the chief has admitted us on this connection */
    bool was_welcome;
    bool has_ended;   /* the connection is down because node 0's supervisor ended */
    bool is_given_up; /* after UPLINK_LOST or UPLINK_REFUSED: there is no chief any more */
    uint32_t attempt, generation;
    bool may_renew; /* an order of the next generation is accepted */
    uint64_t chief; /* the chief's incarnation, 0: no WELCOME yet */
    uint64_t seq;   /* of our last STATUS */
    uint64_t seen;  /* of the newest ORDER that we acted upon */
    int64_t started_at, last_heard, down_at, backoff;
    int64_t retry_at, heartbeat_at; /* CLOCK_NEVER: not set */
    bool wants_heartbeat;           /* a heartbeat is due; it goes out with the next steps */
    uint64_t beat_seq;
    int64_t beat_sent_at;
    int64_t rtt;
    struct clockoff clock;
    char why[256]; /* the last failure */
};

enum uplink_event {
    UPLINK_NOTHING,
    UPLINK_ORDER,   /* a newer ORDER: act upon it; it counts as seen */
    UPLINK_WELCOME, /* admitted, for the first time or again: send a STATUS */
    UPLINK_REFUSED, /* the chief refuses this node: `why` */
    UPLINK_LOST,    /* the chief is lost: `why` */
};

void uplink_init(struct uplink *uplink, struct out *out);
void uplink_start(struct uplink *uplink);
void uplink_up(struct uplink *uplink);
/* `has_ended`: node 0's supervisor ended, and will not come back. */
void uplink_down(struct uplink *uplink, const char *why, bool has_ended);
enum uplink_event uplink_message(struct uplink *uplink, const struct peermsg *msg);
/* When the chief's silence has lasted too long: then uplink_lose() gives it up and sets `why`. */
int64_t uplink_lost_at(const struct uplink *uplink);
void uplink_lose(struct uplink *uplink);
/* Connects again; due at retry_at. */
void uplink_retry(struct uplink *uplink);
/* Reads the steps for a heartbeat; due at heartbeat_at. */
void uplink_beat(struct uplink *uplink);
/* A single node beats only while a notice is live: then the chief must know its pace. */
void uplink_beat_alone(struct uplink *uplink, bool is_noticed);
/* A node with a notice cannot wait until the chief counts as lost. From uplink_mute_at() on a
 * silent chief is mute; uplink_give_up_mute() gives it up and sets `why`. */
int64_t uplink_mute_at(const struct uplink *uplink);
void uplink_give_up_mute(struct uplink *uplink);
/* This machine stood still: the chief's silence counts anew from now. */
void uplink_forgive(struct uplink *uplink);
/* Converts our time `ours` to node 0's clock, with its error; *ret_error -1: unknown. */
void uplink_clock(const struct uplink *uplink, int64_t ours, int64_t *ret_theirs,
                  int64_t *ret_error);
/* Sends a STATUS; fills in its stamp except round and ballot. */
void uplink_send_status(struct uplink *uplink, struct peermsg *msg);
void uplink_bye(struct uplink *uplink);

#endif
