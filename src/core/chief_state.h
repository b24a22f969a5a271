/* SPDX-License-Identifier: Apache-2.0
 *
 * chief_state: what the chief keeps: the nodes with their facts, the order, the round, the notice,
 * the end. Only chief*.c look into it; core.c gives it its room.
 */
#ifndef PCHRUN_CORE_CHIEF_STATE_H
#define PCHRUN_CORE_CHIEF_STATE_H

#include "core/cause.h"
#include "core/out.h"
#include "core/restart.h"
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
    FACT_SOME_BEGUN, /* a rank has begun the save */
    FACT_SERVED,     /* every rank has begun the save, or ended */
    FACT_SETTLED,    /* every rank has saved, failed to, or ended */
    FACT_CLOSED,     /* has seen the end of the round */
    FACT_WAITS,      /* every saver waits for the answer */
    FACT_DONE,       /* every rank has trained to the end, as it said or as it returned by itself */
    FACT_RETURNED,   /* without attaching, all its commands have ended by themselves with success */
    FACT_ENDED,      /* all its commands have ended, with success */
    FACT_FINISHED,   /* and nothing of them is left */
    FACT_KNOWS,      /* of the notice, and has read its steps since */
    FACT_GONE,       /* nothing is left on it, and it has heard how the job ends */
    FACT_THERE,      /* has joined, and is neither gone nor lost */
    FACT_LISTED,     /* has told which ranks are its own */
    FACT_HEARD,      /* has told how it stands */
    FACT_OWN_MORE,   /* has own saves that are not over: offered, or still to be */
    FACT_NO_OWN,     /* a rank has left it, and it has none to offer */
    FACT_OWN,        /* its ranks have saved by themselves what is newer than the commit */
    FACT_INTERRUPTED, /* somebody there wants it to end */
    FACT_LEFT,        /* what could not be ended is left on it */
    FACT_MOVES,       /* a rank of it makes progress, or may yet */
    FACT_STANDS,      /* none does, and one has stood for too long */
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
    /* First what every message and every order looks at, so that it lies together. Peers are found
     * by their connections through chains. Each peer is also the anchor of one: of those whose
     * connection's number falls on its place. */
    struct peer *anchored, *next;
    uint64_t facts;
    uint64_t seq;
    struct caller at;            /* who is this node */
    struct caller claim;         /* who says so, too; see chief_claim.c */
    bool has_told_claim;         /* it knows of the end */
    int64_t last_heard, down_at; /* both later for who was away itself */
    int64_t went_at;             /* when its connection was closed */
    struct peer_stamp stamp;     /* of the newest STATUS */
    struct peer_status status;
    int64_t status_at, moved_at; /* moved: when its highest step changed last */
    int64_t read_at;             /* when its steps were read last for a heartbeat */
    int64_t notice_deadline;     /* CLOCK_NEVER: none */
    int64_t notice_lead;
    uint32_t notice_version;
    uint32_t notice_hurry;
    double rate; /* steps per nanosecond */
    /* its pace is being taken, from this step and time on */
    bool is_paced;
    uint64_t paced_step;
    int64_t paced_at;
    char lost_why[128];
};

enum chief_writing { COMMIT_NOTHING, COMMIT_ROUND, COMMIT_OWN };

struct chief {
    const struct core_params *params;
    struct out *out;
    struct peer *peers; /* nnodes of them */
    int count[FACT__COUNT];
    uint64_t highest; /* step that any of them has told */
    int nhighest;     /* so many have told it */
    struct peer_order order;
    uint32_t generation, round, ballot;
    uint64_t order_seq;
    bool is_changed;     /* the order is to be sent to all */
    bool notice_changed; /* of some node */
    /* All commands have ended with success, before any notice or with every rank done: no notice
     * matters any more. */
    bool is_trained;
    int64_t started_at, next_loss_at;
    int64_t next_word_at, word_gap; /* while the join lasts: who is missing is said again */
    char refusal[256];              /* the last one, "": none */
    struct {
        bool is_live;
        bool is_hopeless; /* it was said that no save can follow */
        bool stands;      /* it came before the first step */
        bool is_judged;   /* `stands` was worked out with the steps of every node */
        int node;
        int64_t at, deadline, lead; /* at: since when it leaves no more time than that */
        uint32_t hurry;
        bool has_saved;   /* the first save for it was made, or could not be made */
        bool goes_on;     /* it was said that the training goes on */
        int64_t final_at; /* the last safe moment to open the round of the last save */
        int64_t least_ns; /* with less than that before it, training on is not worth a save */
    } notice;
    int64_t replan_at;             /* then its times are worked out anew */
    bool is_plan_old;              /* at once */
    bool saves_itself;             /* the program makes saves of its own, too */
    int64_t save_ns;               /* how long a slow save takes; 0: not known */
    int64_t quick_save_ns;         /* a quick save; 0: none was seen in this attempt */
    uint32_t saves_seen;           /* saves whose time was measured in this attempt */
    int64_t agreement_ns;          /* the last agreement; 0: none yet */
    int64_t proposed_at, begun_at; /* of this round; 0: not yet */
    int64_t kept_at;               /* nothing that was trained before is lost with the nodes */
    uint32_t checkpoints;          /* requests, summed over all nodes */
    uint32_t checkpoints_told;     /* of which it was said that they have to wait */
    uint32_t checkpoints_done;     /* that were served */
    struct {
        bool is_counting; /* every rank has attached */
        uint64_t from_step;
        int64_t from_at;   /* the last commit, or save that failed */
        uint64_t rings_at; /* the step at which it is over, 0: not known yet */
    } period;              /* until the next save without a notice */
    /* the round */
    bool wants_to_end, was_decided;
    uint64_t least_step;    /* it saves no sooner, if it can */
    int64_t first_saved_at; /* CLOCK_NEVER: nobody has saved yet */
    enum chief_writing writing;
    uint64_t writing_step;
    uint64_t own_failed;  /* the newest own save that failed on a node */
    uint64_t uncommitted; /* the newest save that failed, or could not be recorded, 0: none */
    bool has_committed;   /* in this attempt */
    bool has_stepped;     /* a rank has finished a step in this attempt */
    int64_t finished_at;  /* all commands, with success; 0: not yet */
    struct stride stride;
    struct causes causes;   /* what has failed */
    struct causes finals;   /* why the job must not begin again: it is another's, or was stopped */
    struct restart restart; /* what it may still be granted */
    int64_t generation_at;  /* this one was begun */
    uint64_t generation_step;
    int64_t restart_at;    /* with order.restart: the next one begins then, if all are gone */
    bool waits_for_notice; /* and when the notices are over */
    struct {
        int64_t look_at;  /* the nodes stand still; it is none before that */
        bool is_examined; /* the examination of the order goes on */
        bool is_told;     /* this hang was */
        int64_t until;    /* it is waited for so long */
        /* who was examined last, and whether that was news */
        const struct peer *whom;
        int32_t rank;
        uint64_t step;
        uint8_t phase;
        bool is_news;
    } hang;
    /* the end */
    struct peer_cause cause; /* the first of them, if the job ends because of it */
    bool was_preempted;      /* by then there was a notice */
    int64_t stopped_at, end_deadline, leave_deadline;
    uint64_t end_seq;   /* the order that told how the job ends, 0: none yet */
    int64_t tell_until; /* who comes late is told of an end before the start; 0: it is not so */
};

#endif
