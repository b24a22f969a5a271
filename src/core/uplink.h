/* SPDX-License-Identifier: Apache-2.0
 *
 * uplink: a node's line to the chief: HELLO, heartbeats, reconnection, and noticing that the chief
 * is lost. On node 0 the chief is in the same process (CONN_SELF) and none of it takes time. Owned
 * by node; pure.
 */
#ifndef PCHRUN_CORE_UPLINK_H
#define PCHRUN_CORE_UPLINK_H

#include "core/clockoff.h"
#include "core/out.h"

struct uplink {
    struct out *out;
    int conn;        /* CONN_SELF, CONN_CHIEF, or CONN_NONE while there is no connection */
    bool is_member;  /* not node 0 */
    bool is_welcome; /* the chief has taken us in on this connection */
    bool was_welcome;
    bool has_ended;   /* the chief, while the connection is down */
    bool is_given_up; /* UPLINK_LOST or UPLINK_REFUSED has been said: there is no chief any more */
    uint32_t attempt, generation;
    bool may_renew; /* the next generation may begin; nobody but the chief can know when */
    uint64_t chief; /* its incarnation, 0: not met yet */
    uint64_t seq;   /* of our last STATUS */
    uint64_t seen;  /* of the newest ORDER we have acted upon */
    int64_t started_at, last_heard, down_at, retry_at, backoff;
    int64_t heartbeat_at;
    bool wants_heartbeat; /* due: goes out with the next steps */
    uint64_t beat_seq;
    int64_t beat_sent_at;
    int64_t rtt;
    struct clockoff clock;
    char why[256]; /* the last thing that went wrong */
};

enum uplink_event {
    UPLINK_NOTHING,
    UPLINK_ORDER,   /* a newer ORDER: act upon it, it counts as seen */
    UPLINK_WELCOME, /* taken in, for the first time or again: say where we stand */
    UPLINK_REFUSED, /* the job does not take us: `why` */
    UPLINK_LOST,    /* the chief is lost, or never came: `why` */
    UPLINK_STEPS,   /* a heartbeat is due: read the steps */
};

void uplink_init(struct uplink *uplink, struct out *out);
void uplink_start(struct uplink *uplink);
void uplink_up(struct uplink *uplink);
/* `has_ended`: it will not come back. */
void uplink_down(struct uplink *uplink, const char *why, bool has_ended);
enum uplink_event uplink_message(struct uplink *uplink, const struct peermsg *msg);
enum uplink_event uplink_timers(struct uplink *uplink);
int64_t uplink_wake_at(const struct uplink *uplink);
/* A node that is alone beats while a notice is live only: then node 0 has to know the pace. */
void uplink_beat_alone(struct uplink *uplink, bool is_noticed);
/* For who cannot wait until the chief counts as lost: from when on it is mute, if nothing is heard;
 * and that it is given up, with `why`. */
int64_t uplink_mute_at(const struct uplink *uplink);
void uplink_give_up_mute(struct uplink *uplink);
/* Our loop was away, nobody knows from when on: everybody's time starts anew. */
void uplink_forgive(struct uplink *uplink);
/* What time `ours` is by node 0's clock, and how exactly that is known; *ret_error -1: it is not.
 */
void uplink_clock(const struct uplink *uplink, int64_t ours, int64_t *ret_theirs,
                  int64_t *ret_error);
/* Sends a STATUS; fills in its stamp but for round and ballot. */
void uplink_send_status(struct uplink *uplink, struct peermsg *msg);
void uplink_bye(struct uplink *uplink);

#endif
