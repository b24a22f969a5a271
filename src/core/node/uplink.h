/* SPDX-License-Identifier: Apache-2.0
 *
 * uplink: a node's connection to the chief: HELLO, heartbeats, reconnection, and the loss of the
 * chief. On node 0 the chief is in the same process (CONN_SELF), so its messages take no time.
 *
 * A node trains only while it has a lease: heartbeat_timeout from the moment at which it sent the
 * newest message that node 0 has answered. The arrival of an answer would not do, since the answer
 * may be minutes old. Node 0 gives no answer to a node that it has given up. So a node begins to
 * stop at a time that node 0 knows, whatever the network does (tests/model/lease.pml). While the
 * machine is suspended CLOCK_MONOTONIC stands still, and the lease with it. Where another node may
 * take this node's place, its processes are killed before the lease ends, and nothing else renews
 * the lease. Else see uplink_forgive().
 *
 * Owned by node; pure.
 */
#pragma once

#include "core/common/out.h"
#include "core/common/reminder.h"
#include "core/common/twice.h"

/* The offset between node 0's clock and ours. CLOCK_MONOTONIC starts at a different moment on every
 * host. A heartbeat and its answer measure the offset: node 0 reads its clock between the two. An
 * estimate from the middle is wrong by at most half of the round trip. The samples of the last
 * heartbeats are kept, and the most exact one counts. */
enum { CLOCKOFF_SAMPLES = 8 };

struct clockoff {
    struct clockoff_sample {
        int64_t at;     /* by our clock */
        int64_t offset; /* how far node 0's clock is ahead of ours */
        int64_t error;  /* the largest error, at the time of the sample */
    } samples[CLOCKOFF_SAMPLES];
    int n, next;
};

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
    int64_t hello_at; /* on this connection */
    int64_t lease_from;
    bool stood_still;               /* given up because this machine stood still for too long */
    int64_t forgiven_at;            /* when this machine last stood still; see uplink_forgive() */
    int64_t retry_at, heartbeat_at; /* CLOCK_NEVER: not set */
    struct reminder join;           /* the log says again that node 0 is missing */
    /* A heartbeat goes out with the steps that are read for it. */
    enum { BEAT_NONE, BEAT_AWAITS_STEPS, BEAT_READY } beat;
    int64_t beat_sent_at; /* of the newest heartbeat, while it has no answer; 0: it has one */
    struct twice rtt;     /* from a heartbeat to its answer */
    struct clockoff clock;
    char why[PEERMSG_WHY_SIZE]; /* the last failure */
};

enum uplink_event {
    UPLINK_NOTHING,
    UPLINK_ORDER,   /* a newer ORDER: act upon it; it counts as seen */
    UPLINK_WELCOME, /* admitted, for the first time or again: send a STATUS */
    UPLINK_REFUSED, /* the chief refuses this node: `why` */
    UPLINK_LOST,    /* the chief is lost: `why` */
};

/* A heartbeat was sent and answered at these times of our clock; in between node 0's clock showed
 * `theirs`. If earlier samples contradict this one, a clock has stood still, for example in a
 * suspended machine. The earlier samples are then forgotten. */
void clockoff_take(struct clockoff *off, int64_t sent, int64_t answered, int64_t theirs);
/* Converts our time `ours` to node 0's clock, with the largest error at `now`. False: no sample
 * yet. */
bool clockoff_theirs(const struct clockoff *off, int64_t now, int64_t ours, int64_t *ret_theirs,
                     int64_t *ret_error);

void uplink_init(struct uplink *uplink, struct out *out);
void uplink_start(struct uplink *uplink);
void uplink_up(struct uplink *uplink);
/* `has_ended`: node 0's supervisor ended, and will not come back. */
void uplink_down(struct uplink *uplink, const char *why, bool has_ended);
enum uplink_event uplink_message(struct uplink *uplink, const struct peermsg *msg);
/* When the chief counts as lost, if it answers nothing until then: the lease ends. */
int64_t uplink_lost_at(const struct uplink *uplink);
/* The chief is lost: when the processes of this node must be killed, because another node may take
 * its place from then on. CLOCK_NEVER: none can. */
int64_t uplink_kill_by(const struct uplink *uplink);
/* False: another node may have this node's place. */
bool uplink_has_lease(const struct uplink *uplink);
/* When the chief has left two heartbeats unanswered: a node with a notice cannot wait longer. */
int64_t uplink_mute_at(const struct uplink *uplink);
/* Gives the chief up, and sets `why`. */
void uplink_lose(struct uplink *uplink);
/* Connects again if retry_at has come. If heartbeat_at has come, a welcomed node reads the steps
 * for a heartbeat. A node that waits for its join says so again. */
void uplink_call(struct uplink *uplink);
int64_t uplink_calls_at(const struct uplink *uplink);
/* The steps were read. True: a heartbeat waits for them, and goes out with the next STATUS. */
bool uplink_steps_read(struct uplink *uplink);
/* A single node sends heartbeats only while a notice is live: then the chief must know its pace. */
void uplink_beat_alone(struct uplink *uplink, bool is_noticed);
/* This machine stood still: the time since the chief's last message counts from now. So does the
 * lease, but only if no other node can take this node's place. */
void uplink_forgive(struct uplink *uplink);
/* Converts our time `ours` to node 0's clock, with its error; *ret_error -1: unknown. */
void uplink_clock(const struct uplink *uplink, int64_t ours, int64_t *ret_theirs,
                  int64_t *ret_error);
/* Sends a STATUS; fills in its stamp except round and ballot. */
void uplink_send_status(struct uplink *uplink, struct peermsg *msg);
void uplink_bye(struct uplink *uplink);
