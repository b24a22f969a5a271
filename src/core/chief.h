/* SPDX-License-Identifier: Apache-2.0
 *
 * chief: what node 0 decides for the job: who belongs to it, when it starts, the agreement on a
 * save step, the commit, who is lost, and how and when all leave.
 *
 * It keeps the newest STATUS of every node as a set of facts (bits) with a count for each, so that
 * one message costs the same for two nodes as for thousands; and it keeps one ORDER, which goes to
 * everybody whenever it changes, and to whoever sends a heartbeat. All decisions are taken in one
 * place, from the facts as they stand (chief_decide()), so a message that is repeated or late
 * cannot change them. Six files: chief.c (peers, time, the order), chief_join.c (who belongs),
 * chief_claim.c (two supervisors for one node), chief_loss.c (who is lost), chief_notice.c
 * (notices, checkpoints asked for), chief_round.c (the agreement). Owned by core, on node 0 alone;
 * pure; its table of peers is made at start.
 */
#ifndef PCHRUN_CORE_CHIEF_H
#define PCHRUN_CORE_CHIEF_H

#include "core/out.h"
#include "core/stride.h"

#include "base/clock.h"

/* How long the join takes in silence. */
#define CHIEF_FIRST_WORD_NS (10 * NS_PER_S)

/* What holds of a node. Those of the round hold only if its STATUS speaks of the round (or ballot)
 * that is open. */
enum fact {
    FACT_JOINED,
    FACT_LOST,
    FACT_COMPLETE, /* all its ranks have attached */
    FACT_LIVE,     /* all of them can still save */
    FACT_ATTACHED, /* some have */
    FACT_STEPPED,
    FACT_VOTED, /* on this ballot */
    FACT_NACK,
    FACT_SAVED, /* every rank has saved, and the node's record is written */
    FACT_SOME_SAVED,
    FACT_BAD,        /* a save failed, or its ranks saved at different steps */
    FACT_SOME_ENDED, /* a rank ended without having saved */
    FACT_SERVED,     /* every rank has begun the save, or ended */
    FACT_SETTLED,    /* every rank has saved, failed to, or ended */
    FACT_CLOSED,     /* has seen the end of the round */
    FACT_WAITS,      /* every saver waits for the answer */
    FACT_DONE,       /* every rank said that it has trained to the end */
    FACT_ENDED,      /* all its commands have ended, with success */
    FACT_FINISHED,   /* and nothing of them is left */
    FACT_KNOWS,      /* of the notice, and has read its steps since */
    FACT_FAULT,
    FACT_GONE,   /* nothing is left on it */
    FACT_THERE,  /* has joined, and is neither gone nor lost */
    FACT_LISTED, /* has told which ranks are its own */
    FACT_OWN,    /* its ranks have saved by themselves what is newer than the commit */
    FACT__COUNT
};

/* A supervisor, as it has said HELLO. */
struct caller {
    int conn;             /* CONN_NONE: not connected */
    uint64_t incarnation; /* 0: none has come yet */
    uint64_t commit_step;
    uint32_t pid;
    char host[64], from[64];
};

struct peer {
    struct caller at;    /* who is this node */
    struct caller claim; /* who says so, too; see chief_claim.c */
    bool has_told_claim; /* it knows of the end */
    /* Peers are found by their connections through chains. Each peer is also the anchor of one: of
     * those whose connection's number falls on its place. */
    struct peer *anchored, *next;
    unsigned facts;
    uint64_t seq;
    int64_t last_heard, down_at;
    struct peer_stamp stamp; /* of the newest STATUS */
    struct peer_status status;
    int64_t status_at, moved_at; /* moved: when its highest step changed last */
    int64_t notice_deadline;     /* CLOCK_NEVER: none */
    uint32_t notice_hurry;
    double rate; /* steps per nanosecond */
    char lost_why[128];
};

enum chief_writing { COMMIT_NOTHING, COMMIT_ROUND, COMMIT_OWN };

struct chief {
    const struct core_params *params;
    struct out *out;
    struct peer *peers; /* nnodes of them */
    int count[FACT__COUNT];
    struct peer_order order;
    uint32_t round, ballot;
    uint64_t order_seq;
    bool is_changed;     /* the order is to be sent to all */
    bool notice_changed; /* of some node */
    bool is_trained; /* all commands had ended with success before any notice: none matters now */
    int64_t started_at, next_loss_at;
    int64_t next_word_at, word_gap; /* while the join lasts: who is missing is said again */
    char refusal[160];              /* the last one, "": none */
    struct {
        bool is_live;
        int node;
        int64_t at, deadline;
        uint32_t hurry;
    } notice;
    uint32_t checkpoints;      /* requests, summed over all nodes */
    uint32_t checkpoints_told; /* of which it was said that they have to wait */
    uint32_t checkpoints_done; /* that were served */
    /* the round */
    bool wants_to_end, was_decided;
    int64_t first_saved_at; /* CLOCK_NEVER: nobody has saved yet */
    enum chief_writing writing;
    uint64_t writing_step;
    uint64_t own_failed; /* the newest own save that failed on a node */
    bool has_committed;  /* in this attempt */
    struct stride stride;
    /* the end */
    int64_t end_deadline, leave_deadline;
};

/* `peers`: room for params->nnodes of them, borrowed. */
void chief_init(struct chief *chief, const struct core_params *params, struct peer *peers,
                struct out *out);
void chief_event(struct chief *chief, const struct event *event);
/* A message of a node, over `conn`; `from`: its address, may be NULL. */
void chief_message(struct chief *chief, int conn, const struct peermsg *msg, const char *from);
/* Takes every decision that the facts allow by now, and sends the order if it has changed. */
void chief_decide(struct chief *chief);
int64_t chief_wake_at(const struct chief *chief);
void chief_forgive(struct chief *chief);

/* --- between the six files of the chief --- */

static inline bool peer_is(const struct peer *peer, enum fact fact)
{
    return peer->facts & (1U << fact);
}
static inline bool all_are(const struct chief *chief, enum fact fact)
{
    return chief->count[fact] == chief->params->nnodes;
}
static inline bool any_is(const struct chief *chief, enum fact fact)
{
    return chief->count[fact] > 0;
}
/* Its connection from now on; CONN_NONE: none. */
void chief_set_conn(struct chief *chief, struct peer *peer, int conn);
/* Forgets what its predecessor told. */
void chief_reset(struct chief *chief, struct peer *peer);
/* Sends it the order as it stands. */
void chief_send_order(struct chief *chief, int conn, uint64_t echo);
/* Works out a peer's facts from its newest STATUS, and counts them. */
void chief_note(struct chief *chief, struct peer *peer);
void chief_note_all(struct chief *chief);
void chief_set_fact(struct chief *chief, struct peer *peer, enum fact fact, bool holds);
int chief_rank_of(const struct chief *chief, const struct peer *peer);
struct peer *chief_first(const struct chief *chief, enum fact fact);

struct chief_end {
    enum outcome outcome;
    int code; /* of OUTCOME_FAILED and OUTCOME_NOT_STARTED */
    enum peer_manner manner;
    const char *why;
};
/* The job ends: an open round is closed first. */
void chief_end(struct chief *chief, const struct chief_end *end);
/* chief_notice.c */
void chief_gather_notices(struct chief *chief);
void chief_decide_notice(struct chief *chief);
void chief_decide_checkpoint(struct chief *chief);
/* Nobody has finished a step: there is nothing to save, and all leave. */
void chief_leave_unsaved(struct chief *chief);
/* No time is left for the round, only for ending what does not end by itself. */
int64_t chief_abort_at(const struct chief *chief);

/* chief_join.c */
void chief_hello(struct chief *chief, int conn, const struct peermsg *msg, const char *from);
/* It is the node from now on, and is told where the job stands. */
void chief_admit(struct chief *chief, struct peer *peer, const struct caller *caller);
void chief_welcome(struct chief *chief, int conn);
/* Before the start nobody is lost: it may come back, or another in its place. */
void chief_unjoin(struct chief *chief, struct peer *peer);
void chief_refuse(struct chief *chief, int conn, const char *fmt, ...) PRINTF_LIKE(3, 4);
void chief_decide_join(struct chief *chief);
int64_t chief_join_wake_at(const struct chief *chief);
/* False if the ranks of the nodes do not make up one world: the job was ended. */
bool chief_check_roster(struct chief *chief);

/* chief_claim.c */
/* Another supervisor says that it is this node. */
void chief_claim(struct chief *chief, struct peer *peer, const struct caller *caller);
/* Who claims a node ends with the job, as all others do: the order, once it says so. */
void chief_tell_claim(struct chief *chief, struct peer *peer);
/* The node itself was heard: whoever else says to be it is not. */
void chief_refuse_claim(struct chief *chief, struct peer *peer);
/* The node is gone, before the start: who claims it is it. */
void chief_admit_claim(struct chief *chief, struct peer *peer);
/* Its connection is closed. */
void chief_forget_claim(struct chief *chief, int conn);
/* "host, pid 7, 10.0.0.1:4711" */
char *chief_caller_text(const struct caller *caller, char *text, size_t size);

/* chief_loss.c */
void chief_lose(struct chief *chief, struct peer *peer, const char *why);
/* Looks at everybody, but only when somebody's time can have come: hearing from a node makes its
 * time later, so `next_loss_at` is never too late. */
void chief_look_for_losses(struct chief *chief);
/* A node that is lost after its ranks have saved does not undo the round. */
bool chief_losses_matter(const struct chief *chief);
void chief_end_by_loss(struct chief *chief);

/* chief_round.c */
void chief_decide_round(struct chief *chief);
void chief_close_round(struct chief *chief, enum peer_phase phase, const char *why);
void chief_committed(struct chief *chief, const struct err *bad);
bool chief_can_open(const struct chief *chief);
void chief_open_round(struct chief *chief, bool ends_run);
/* A round is open that somebody may have saved in. */
bool chief_is_deciding(const struct chief *chief);
int64_t chief_round_wake_at(const struct chief *chief);

#endif
