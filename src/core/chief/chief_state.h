/* SPDX-License-Identifier: Apache-2.0
 *
 * chief_state: the state of the chief: the nodes with their facts, the order, the round, the
 * notice, the end. Only chief*.c read it; core.c allocates it.
 */
#pragma once

#include "core/common/cause.h"
#include "core/common/out.h"
#include "core/common/peerreport.h"
#include "core/common/reminder.h"
#include "core/common/restart.h"
#include "core/common/stride.h"
#include "core/common/twice.h"

#include "base/clock.h"
#include "base/markkind.h"

/* Facts about a node. A fact about the round holds only if the node's STATUS names the open round
 * (or ballot). */
enum fact {
    FACT_JOINED,
    FACT_CONNECTED,
    FACT_LOST,
    FACT_COMPLETE, /* all its ranks have attached */
    FACT_LIVE,     /* all of them can still save */
    FACT_SOME_LIVE,
    FACT_ATTACHED, /* some of its ranks have attached */
    FACT_STEPPED,
    FACT_VOTED, /* on this ballot */
    FACT_NACK,
    FACT_SAVED, /* every rank has saved, and the node's record is written */
    FACT_SOME_SAVED,
    FACT_BAD,        /* a save failed, or its ranks saved at different steps */
    FACT_SOME_ENDED, /* a rank ended without having saved */
    FACT_SERVED,     /* every rank has begun the save, or ended */
    FACT_SETTLED,    /* every rank has saved, failed to save, or ended */
    FACT_CLOSED,     /* it has seen the end of the round */
    FACT_WAITS,      /* every rank that saves waits for the commit */
    FACT_DONE,       /* every rank said that it is done, or returned by itself */
    FACT_OVER,       /* as FACT_DONE, and none of its commands can begin another program */
    FACT_RETURNED,   /* without attaching, all its commands have ended by themselves with success */
    FACT_ENDED,      /* all its commands have ended, with success */
    FACT_FINISHED,   /* as FACT_ENDED, and no process of them remains */
    FACT_KNOWS,      /* it knows the notice, and has read its steps since */
    FACT_GONE,       /* no process is left on it, and it knows how the job ends */
    FACT_THERE,      /* it has joined, and is neither gone nor lost */
    FACT_LISTED,     /* it has reported the list of its ranks */
    FACT_HEARD,      /* it has sent a STATUS */
    FACT_OWN_MORE,   /* it has, or will have, own saves that are not over */
    FACT_NO_OWN,     /* one of its ranks has ended, and it has no own save to offer */
    FACT_OWN,        /* its ranks made an own save that is newer than the commit */
    FACT_INTERRUPTED, /* a signal there told the job to end */
    FACT_LEFT,        /* processes that could not be ended are left on it */
    FACT_MOVES,       /* one of its ranks makes progress, or still has time to */
    FACT_STANDS,      /* no rank makes progress, and one has stood for too long */
    FACT_STOPS,       /* it was asked to save and end the job; that was not given up */
    FACT_SAME_DIR,    /* its state directory is node 0's, as far as is known */
    FACT_LOOKS,       /* it still looks whether it is */
    FACT_CHECKS,      /* a health check of it is under way */
    FACT_LISTENS,     /* it takes part in the measurement of the network */
    FACT_MEASURED,    /* and its transfer is over */
    FACT_GAVE_UP,     /* one of its ranks has given up its wait for other ranks */
    FACT_FAILED,      /* a save failed in the round */
    FACT_CAME,        /* each of its ranks has come to the save step, or is gone */
    FACT_WHOLE,       /* it has recorded a save that is enough for the round */
    FACT_HOPES,       /* it may still record one */
    FACT_VACANT,      /* it is lost, or did not join: any new supervisor may take its place */
    FACT__COUNT
};

/* A supervisor, as its HELLO describes it. */
struct caller {
    int conn;             /* CONN_NONE: not connected */
    uint64_t incarnation; /* 0: no supervisor has called */
    uint64_t commit_step;
    uint32_t pid;
    char host[64], from[64];
};

/* A supervisor that stands by, or that was called to a place and has said goodbye. */
struct standby {
    struct caller at; /* CONN_NONE without `place`: there is none */
    int64_t last_heard;
    uint32_t place;       /* 1 + the node whose place it is called to; 0: it is not called */
    int64_t called_until; /* with `place`: then it has not come */
    bool was_called;      /* since its HELLO */
};

/* How many paces of a node are kept. */
enum { CHIEF_PACES = 5 };

/* Where a node's ranks were. */
struct reading {
    int64_t at;             /* 0: never read */
    double lowest, highest; /* steps */
};

struct peer {
    /* These fields come first, close together: every message and every order reads them. Chains
     * find the peer of a connection. Each peer anchors one chain: the peers whose connection number
     * modulo nnodes is its index. */
    struct peer *anchored, *next;
    uint64_t facts;
    struct peer_stamp stamp;     /* of the newest STATUS; seq 0: no STATUS has come */
    struct caller at;            /* the node's supervisor */
    struct caller duplicate;     /* a second supervisor with this rank; see chief_join.c */
    bool has_told_duplicate;     /* the claim knows of the end */
    bool was_replaced;           /* its place was vacant, and `at` has taken it */
    bool is_unfit;               /* lost for its health check, before the first start */
    int64_t last_heard, down_at; /* chief_forgive() sets both later */
    /* The fence: its supervisor may keep processes for a while after the last answer that it got.
     */
    int64_t answered_at;
    bool may_run;      /* it was ordered to start processes, and has not said that they ended */
    int64_t fence_at;  /* from then on its place may train again; 0: at once */
    int64_t vacant_at; /* with FACT_VACANT: since when */
    /* When its connection was closed, or, before the start, its silence too long. */
    int64_t went_at;
    struct peer_status status;
    int64_t status_at, moved_at; /* moved: when its highest step changed last */
    int64_t interrupted_at; /* since when it says status.interrupted_by; CLOCK_NEVER: it does not */
    int64_t read_at;        /* when its steps were last read for a heartbeat */
    int64_t checks_since;   /* with FACT_CHECKS */
    bool has_failed;        /* it has reported a failure of this generation */
    uint64_t struck;        /* the last incarnation that was not healthy; 0: none was */
    uint64_t failed_step;   /* the highest step of its ranks then */
    int64_t notice_deadline; /* CLOCK_NEVER: none */
    int64_t notice_lead;
    bool notice_is_guess; /* of the deadline */
    bool notice_has_signal;
    uint32_t notice_version;
    uint32_t notice_hurry;
    uint32_t stops_given_up; /* of its `stop_asked` */
    bool is_paced;           /* since moved_at its ranks have only trained */
    bool is_warm;            /* the first pace is over; often it is slow, and does not count */
    int64_t trained_ns;      /* in which they made these steps, since the last pace */
    uint64_t trained_steps;
    uint64_t paces[CHIEF_PACES]; /* nanoseconds for a step, as measured last; 0: not yet */
    unsigned npaces;             /* that were measured */
    uint64_t step_ns;            /* the median of the paces */
    struct reading readings[3];  /* of the steps; the third is the newest */
    int64_t stretch_at;          /* the earliest end of the time between the last two */
    char lost_why[128];
    char roster[256]; /* its ranks, as it listed them last */
};

enum chief_writing { COMMIT_NOTHING, COMMIT_ROUND, COMMIT_OWN };

/* A generation of the job. All fields begin at 0; chief_begin_generation() sets the others. */
struct chief_generation {
    int64_t began_at;
    bool has_started;    /* a rank of every node has finished a step */
    uint64_t first_step; /* the commit that it resumes from; 0: none */
    uint32_t round, ballot;
    /* All commands have ended with success, before any notice or with every rank done: no notice
     * matters any more. */
    bool is_trained;
    int64_t first_read_at;    /* when the steps are read again, until there is a first one */
    bool has_told_unattached; /* the log has said that no process has attached */
    bool has_told_attached;   /* the log has said that every rank has attached */
    int64_t done_at;          /* when every rank was done, and processes stayed; 0: not so */
    bool has_told_stay;       /* the log has named such a process */
    bool has_looked_early;    /* its evidence was asked for, long before its limit */
    int64_t finished_at;      /* when all commands had ended with success; 0: not yet */
    struct stride stride;     /* common to all ranks */
    /* the round */
    bool wants_to_end;
    uint64_t least_step;           /* no lower save step is proposed, except the training's last */
    int64_t proposed_at, begun_at; /* 0: not yet */
    int64_t first_saved_at;        /* CLOCK_NEVER: no rank has saved yet */
    int64_t hurt_at;               /* when a rank or a node was lost in it; 0: none was */
    bool has_judged_needs;         /* what the ranks declare is known, and was told if need be */
    uint32_t stop_round;           /* was open while FACT_STOPS held; 0: none */
    uint64_t own_failed;           /* the newest own save that failed on a node */
    uint64_t uncommitted; /* the newest save that failed, or could not be recorded, 0: none */
    struct {
        bool is_counting; /* every rank has attached */
        uint64_t from_step;
        int64_t from_at;   /* when the last commit was made, or the last save failed */
        uint64_t rings_at; /* the step at which the period is over, 0: unknown */
    } period;              /* until the next save without a notice */
    struct {
        int64_t look_at;      /* no rank moves; a hang is declared at this time at the earliest */
        bool has_lines;       /* a command has printed a step (watchdog.log) */
        bool is_examined;     /* the nodes examine their processes */
        bool is_told;         /* this hang was reported */
        int64_t until;        /* the end of the wait for the examination */
        bool is_one;          /* only one rank was behind when the hang was found */
        bool gave_up;         /* a rank has given up its wait: the limits no longer matter */
        int ngave_up;         /* with gave_up: the most ranks that have, at one time */
        int64_t gave_up_at;   /* when the first of them had */
        int64_t others_until; /* until then other ranks may give up, too */
        char who[256]; /* with gave_up: the rank that is behind, for the message; "": unknown */
        /* the rank that was behind in the last examination, and whether that was news */
        const struct peer *whom;
        int32_t rank;
        uint64_t step;
        uint8_t phase;
        bool is_news;
        struct core_hang end; /* for the report */
    } hang;
    struct twice lag;     /* of the ranks that are behind */
    int64_t lag_at;       /* when it was seen last */
    int64_t median_at;    /* when the median for slow ranks is computed next */
    uint64_t loading_ns;  /* the longest time in which a rank has waited for data */
    struct causes causes; /* the failures */
    struct causes finals; /* why the job must not begin again: replaced, or stopped */
    /* the end */
    struct peer_cause cause;        /* the first failure, if the job ends because of it */
    const struct peer *interrupted; /* the node where a signal led to the cause; NULL: none */
    const struct peer *ended;       /* a rank of this node ended in a save that failed for it */
    bool was_preempted;             /* a notice was near when the job failed */
    int64_t stopped_at, end_deadline, leave_deadline;
    uint64_t end_seq;      /* the order that says how the job ends, 0: none yet */
    bool had_stepped;      /* with order.restart: has_stepped when it was ordered */
    int64_t restart_at;    /* with order.restart: when the next generation begins, if all nodes are
                            * gone */
    bool waits_for_notice; /* the next generation also waits until no notice is live */
    struct {
        uint64_t begins_at; /* the highest step before a rank finished one */
        bool trains;        /* a rank of every node with ranks has finished a step */
        int late;           /* a node that had not, when it was last looked at */
    } mark;
    struct {
        int64_t until;            /* the job waits no longer for a replacement; 0: it never did */
        int64_t fence_at;         /* the latest of all nodes */
        const struct peer *first; /* that is vacant; NULL: none is */
        bool has_told_saves;      /* the log has said that no spare has the saves */
    } replace;                    /* with order.restart, or before the first start */
};

struct chief {
    const struct core_params *params;
    struct out *out;
    struct peer *peers; /* nnodes of them */
    struct standby
        *spares;           /* by their number, nnodes + params->spares; NULL: cluster.spares is 0 */
    int64_t next_spare_at; /* when a spare may be silent for too long, or a call over */
    int count[FACT__COUNT];
    uint64_t highest; /* the highest step that any node has reported */
    int nhighest;     /* how many nodes have reported `highest` */
    struct peer_order order;
    uint32_t generation;
    struct chief_generation gen;
    uint64_t order_seq;
    bool is_changed;     /* the order must go to all nodes */
    bool notice_changed; /* of some node */
    int64_t started_at, next_loss_at;
    int64_t misses_at; /* when node 0 looks again for nodes that have not joined */
    /* the last time in which this supervisor did not run */
    int64_t away_since, away_until;
    int64_t rejoin_until;  /* a node that left when all had joined may come back; 0: none has */
    struct reminder join;  /* the log names the missing nodes again */
    char refusal[256];     /* the last refusal, "": none */
    uint32_t measurements; /* of the network, in all */
    int measured_again;    /* of the coming generation, that were ended since a node went */
    int64_t measure_until;
    struct core_network network; /* the last result */
    bool has_told_dirs;          /* the log has named the nodes with another directory */
    struct {
        bool is_live;
        bool is_hopeless; /* the log has said that no save can follow */
        bool stands;      /* the notice came before the first step */
        bool is_judged;   /* `stands` was derived from the steps of every node */
        int node;
        bool is_guess;              /* of the deadline */
        bool has_signal;            /* a node that has a notice got a signal */
        int64_t at, deadline, lead; /* at: when it came, or when its deadline became earlier */
        uint32_t hurry;
        bool has_saved;   /* the first save for it was made, or could not be made */
        bool goes_on;     /* the log has said that the training goes on */
        int64_t final_at; /* the last safe moment to open the round of the last save */
        int64_t least_ns; /* with less time than this before final_at another save is not worth its
                           * time */
    } notice;
    int64_t replan_at;      /* when the notice's times are computed again; 0: at once */
    bool saves_itself;      /* the program makes saves of its own, too */
    int64_t save_ns;        /* how long a slow save takes; 0: unknown */
    int64_t quick_save_ns;  /* a quick save; 0: none was seen in this attempt */
    uint32_t saves_seen;    /* saves whose time was measured; those before this attempt are one */
    int64_t start_ns;       /* how long a start takes; 0: unknown */
    int64_t end_ns;         /* how long the ranks take to leave; 0: unknown */
    struct twice agreement; /* how long the agreements take */
    int64_t kept_at;        /* the steps before this time are committed */
    int64_t every_ns;       /* the time between two saves without a notice; 0: not by time */
    bool has_chosen;        /* every_ns, by what was seen */
    int64_t began_at;       /* the first generation; 0: it has not begun */
    int failures;           /* generations of this attempt that failed after a step */
    uint32_t checkpoints;   /* requests, summed over all nodes */
    uint32_t checkpoints_told; /* requests that the log has called delayed */
    uint32_t checkpoints_done; /* requests that were served */
    enum chief_writing writing;
    uint64_t writing_step;
    uint32_t writing_whole; /* 1 + the rank whose save is all of it; 0: every rank's is */
    char without[192];      /* the ranks that the newest commit did without, "": none */
    bool has_told_needs;    /* the log has said why every save is needed */
    bool has_committed;     /* in this attempt */
    bool has_stepped;       /* a rank has finished a step in this attempt */
    bool has_resumed;       /* the ranks attached at a later step than 0 */
    bool begins_anew;       /* no rank resumes: one of the first steps was reported */
    struct restart restart; /* the restarts that remain */
    struct {
        int64_t times[REPLACES_MAX]; /* the newest losses that were waited for, in a ring */
        int n;                       /* all of them */
    } replaced;
    struct {
        enum mark_kind kind;  /* the last mark that begins a span */
        uint32_t generation;  /* of it */
        uint64_t commit_step; /* the last commit that was marked, or that the job resumes from */
    } mark;
    int64_t tell_until; /* until when node 0 tells nodes that join late of the end; 0: not so */
};
