/* SPDX-License-Identifier: Apache-2.0
 *
 * peerreport: the states of a node, a live notice, and node 0's report about one node. Plain data.
 */
#pragma once

#include "wire/notice.h"

#include <stdbool.h>
#include <stdint.h>

/* The states of a node, from its join to its end. */
enum node_state {
    NODE_WAITING,    /* for the join */
    NODE_RUNNING,    /* its processes were started; the node stays here when they have ended */
    NODE_SAVING,     /* only in reports: the node runs, and a round is open */
    NODE_RESTARTING, /* only in reports: the node stops or leaves, and another generation follows */
    NODE_STOPPING,   /* the job ends: the ladder runs */
    NODE_LEAVING,    /* no process is left here; waits for the other nodes */
    NODE_DONE,
    NODE__COUNT
};

/* "waiting", …: for the log and the reports. */
static inline const char *node_state_name(enum node_state state)
{
    static const char *const names[NODE__COUNT] = {"waiting",  "running", "saving", "restarting",
                                                   "stopping", "leaving", "done"};
    return names[state];
}

struct core_notice {
    bool is_live;
    struct notice_label label;
    int node_rank;
    int64_t at;       /* CLOCK_MONOTONIC; 0: not known here */
    int64_t deadline; /* CLOCK_MONOTONIC; CLOCK_NEVER in a node that knows no notice */
};

/* The place of a lost node, while the job waits for its replacement. */
struct core_vacancy {
    int node;
    char host[64]; /* of the lost node; "": only node 0 knows it */
    int64_t since; /* 0: the same */
};

/* The wait for the replacement of lost nodes. Times are CLOCK_MONOTONIC. */
enum { CORE_VACANCIES = 8 };
struct core_wait {
    int64_t since;    /* 0: the job does not wait */
    int nvacant;      /* places that are vacant; 0: none is any more, and the fence is left */
    int64_t until;    /* then the job ends, if a place is vacant still */
    int64_t fence_at; /* no replacement trains before */
    /* The first of them, by node. Node 0 knows all vacant places, another node one. */
    struct core_vacancy vacant[CORE_VACANCIES];
};

/* The hang that ended a generation. */
struct core_hang {
    int32_t node, rank, pid; /* what is behind; rank -1: unknown, pid 0: not known */
    char text[256];          /* "": no hang has ended it */
};

/* The last measurement of the network. A pair is a node and the next one of the ring. */
struct core_network {
    int pairs;       /* 0: none was made */
    int known;       /* with a rate */
    int failed;      /* whose nodes could not connect */
    int slowest;     /* the pair of this node and the next one; -1: no rate is known */
    uint64_t median; /* bytes per second, as the next one */
    uint64_t least;
};

/* A node, from its newest STATUS. */
struct core_peer_report {
    int node_rank;
    char host[64]; /* "": it has not joined yet */
    /* "missing", "waiting", "checking" (its health), "running", "ended", "finished", "failed",
     * "gone", "lost" */
    const char *state;
    int conn; /* the number of its connection, CONN_NONE: it has none */
    bool is_connected, has_notice;
    int ranks_expected; /* -1: not known yet */
    int ranks_attached;
    uint64_t highest, lowest; /* finished steps of its ranks */
    int64_t heard_at;         /* CLOCK_MONOTONIC, 0: never */
    int64_t moved_at;         /* since when it shows `highest`, 0: unknown */
    double steps_per_s;       /* 0: unknown */
    char why[128];            /* why it is lost; "": it is not */
};

/* A spare, as node 0 knows it. */
struct core_spare_report {
    int number; /* that it says it has: of a spare from the start, nnodes or more */
    char host[64];
    int place;        /* it is called to this node's place; -1: it stands by */
    int64_t heard_at; /* CLOCK_MONOTONIC */
};
