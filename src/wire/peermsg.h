/* SPDX-License-Identifier: Apache-2.0
 *
 * peermsg: the messages between the supervisors of a job, in a star around the chief (node 0).
 *
 * The protocol is level-triggered: a node sends its state (STATUS), the chief sends the round's
 * state (ORDER). Both are whole snapshots with a rising number, so a lost, repeated or late message
 * does no harm: the next one repeats everything. Proposing, voting, deciding and committing are
 * fields of both. Times are durations from the moment of sending; clocks of hosts are compared only
 * to find the first of several failures. Pure; any thread. Input from a peer is untrusted until it
 * is decoded.
 */
#pragma once

#include "base/policy.h"
#include "wire/frame.h"
#include "wire/notice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PEERMSG_VERSION 15
#define PEERMSG_UNKNOWN UINT16_MAX /* expected: unknown */

enum peermsg_type {
    PEERMSG_HELLO = 1, /* node to chief, first on every connection: its identity and settings */
    PEERMSG_WELCOME,   /* chief to node: the node belongs to the job; where the job resumes */
    PEERMSG_REFUSED,   /* chief to node: the node does not belong to it, or the chief cannot start,
                          and why; then the connection closes */
    PEERMSG_STATUS,    /* node to chief: where the node stands */
    PEERMSG_ORDER,     /* chief to node: where the round and the job stand */
    PEERMSG_BYE,       /* either: the sender leaves on purpose; do not wait for it */
    PEERMSG_LOOK,      /* chief to node: a user asks for the state of the ranks */
    PEERMSG_RANKS,     /* node to chief: the state of some ranks; several messages cover all */
    PEERMSG_STANDBY,   /* chief to spare: stand by, take a place, or end */
    PEERMSG__COUNT
};

/* In every frame. A message with another attempt or generation is old (in HELLO, 0 means not known
 * yet). Exception: for a node that is gone and waits for a restart, the first ORDER of the next
 * generation begins that generation. A message of another epoch is of another node 0, and changes
 * nothing. */
struct peer_stamp {
    uint32_t attempt, generation;
    uint32_t round, ballot;
    uint64_t seq; /* rises with every STATUS of a node; with every change of the chief's ORDER */
    /* Counts the node 0s of this attempt. Always 0: no other node can take node 0's place yet.
     * REFUSED must have the same layout in all versions, so there `round`, which it does not need,
     * has the epoch on the wire. */
    uint32_t epoch;
};

struct peer_hello {
    uint64_t incarnation; /* random, one per start of a supervisor */
    uint32_t node_rank, nnodes;
    char host[64]; /* for people: which machine this is */
    char job[64];
    char settings[1024];  /* "name=value\n"…, the binding settings, compared as text */
    uint64_t commit_step; /* the last commit in this node's own state directory, 0: none */
    uint32_t pid;         /* for people: which process on that machine */
    /* It is a spare, and trains nothing. node_rank is then only its number, which may also be
     * above those of the nodes. A spare sends STATUS as a heartbeat. */
    uint8_t stands_by;
    char line[176]; /* the ends of the connection as the node sees them, its own first: "A>B"; put
                     * in by src/peers */
};

struct peer_welcome {
    uint64_t incarnation; /* the chief's */
    uint64_t resume_step; /* 0: from the start */
    uint8_t is_direct;    /* the chief sees the same ends; put in by src/peers */
};

#define PEERMSG_WHY_SIZE 640 /* the text of a cause fits */

struct peer_refused {
    char why[PEERMSG_WHY_SIZE];
};

enum peer_vote { VOTE_NONE, VOTE_ACK, VOTE_NACK };
enum peer_life {
    LIFE_WAITING,  /* joined, nothing started yet */
    LIFE_RUNNING,  /* has processes */
    LIFE_ENDED,    /* its commands have succeeded; pchrun ends what they left behind */
    LIFE_FINISHED, /* all its processes have ended, with success */
    LIFE_FAILED,   /* a process of this node failed: see fault */
    LIFE_GONE,     /* nothing of the job is left on this node */
    LIFE_DONE,     /* every rank is done, and the end is not reported yet */
};
enum peer_fault_kind {
    FAULT_NONE,
    FAULT_EXIT,
    FAULT_SIGNAL,
    FAULT_START,
    FAULT_RANKS,
    FAULT_SILENT,   /* a process exited with 0, but never called pch_done() */
    FAULT_REPLACED, /* no process failed: the node's record belongs to a later attempt */
    FAULT_LOST,     /* no process failed: the node was lost. Only in an ORDER */
    FAULT_STOPPED,  /* no process failed: a user stopped the job */
    FAULT_BROKEN,   /* no process failed: pchrun broke a promise of its design */
    FAULT_GAVE_UP,  /* a process gave up its wait for other ranks: the job has hung */
    FAULT_UNFIT,    /* no process failed: the health check says that the node is not healthy */
};

/* A failure. On the wire it takes one byte if nothing has failed. */
struct peer_cause {
    uint8_t fault; /* enum peer_fault_kind; FAULT_NONE: no failure, and the rest is empty */
    int32_t node, rank, pid; /* rank -1: unknown; pid 0: not a process */
    int32_t code;            /* exit code; with FAULT_SIGNAL 128 and its number */
    /* From when it counts, by node 0's CLOCK_MONOTONIC, as the node estimates it. A crash counts as
     * a little earlier than it was seen. */
    int64_t at_ns;
    int64_t error_ns; /* the largest error of at_ns; -1: no estimate */
    int64_t ago_ns;   /* from when it counts, before the moment of sending */
    int64_t wall_ns;  /* when, by the wall clock of its node: for people */
    char host[64], text[512];
    char tail[1024]; /* the last lines of the process's standard error, "": they are not known */
};

/* Whether the ranks of a node make progress. If not, the node names the rank that is behind. */
enum peer_motion {
    MOTION_MOVES,  /* a rank moves, or is within its time limit; or the watchdog is off */
    MOTION_RESTS,  /* each rank has ended, or waits for a round */
    MOTION_ABSENT, /* as MOTION_MOVES, but a rank has not attached in time */
    MOTION_STANDS, /* no rank moves, and one exceeds its time limit */
    MOTION_SILENT, /* no process has attached, and no output, or no step in it, for too long */
};

/* Whether the ranks of a node stand still, as its watchdog sees it. */
struct peer_watch {
    uint8_t motion;        /* enum peer_motion */
    int64_t still_ns;      /* no rank has moved for this long */
    int64_t limit_ns;      /* the longest time limit of its standing ranks */
    uint16_t absent;       /* ranks that have not attached in time */
    uint16_t behind_count; /* ranks in the step and phase of behind_rank */
    /* The rank that is furthest behind, even if it is within its limit; -1: none. With LIFE_DONE a
     * rank whose process has not ended, and behind_count is the number of such ranks. */
    int32_t behind_rank, behind_pid;
    uint64_t behind_step;
    uint8_t behind_phase;   /* enum page_phase */
    int64_t behind_ago_ns;  /* how long it has stood, or printed nothing */
    uint8_t behind_stopped; /* stopped by a signal, not by a debugger */
    uint32_t examined;      /* the newest examination that is over, the steps read once more */
    int64_t patience_ns;    /* how long a rank waits for others before it gives up, 0: unknown */
    uint16_t gave_up;       /* ranks that fail because they gave up their wait for other ranks */
};

/* How long a step's own part takes the ranks of a node: the part in which they do not wait for
 * other ranks, as they mark it. Most of it is 0 if no rank marks its waits. */
struct peer_own {
    uint64_t median_ns; /* of an even number of ranks, the lower of the two in the middle */
    uint16_t known;     /* ranks that mark their waits */
    uint16_t slow;      /* ranks that are slow */
    int32_t rank;       /* one of these, the same as long as it is slow */
    int32_t local_rank; /* its number on its node, often that of its device */
    uint64_t rank_ns;   /* that rank's own part */
};

/* Whether a node has node 0's state directory, if the nodes are to share one. */
enum peer_dir {
    DIR_SAME, /* as far as is known */
    DIR_LOOKS,
    DIR_OTHER,
};

/* Where the ranks of a node saved, in the newest save that is in its record. */
enum peer_paths {
    PATHS_NONE,   /* no rank named a path: another rank saves for it, or it needs none */
    PATHS_SHARED, /* a rank named a path below the directory that the nodes are to share */
    PATHS_OTHER,  /* or its state directory is apart, so that nothing is known */
};

#define PEERMSG_NEEDS 3 /* of enum save_needs, without NEEDS_AUTO */

/* The ranks of a node in a round that does not need every save. */
struct peer_need {
    uint16_t came;    /* ranks that have begun the save, or whose process has died */
    uint16_t hopes;   /* ranks whose save, or coming save, is enough for the round */
    uint32_t whole;   /* 1 + the rank whose save is enough, and is in the record; 0: none */
    char gone[48];    /* "3, 5": ranks whose process died without a save */
    char unsaved[48]; /* "3, 5": ranks that could not save */
    /* By enum save_needs: 1 + the lowest rank that declares this need; 0: none does. */
    uint32_t declares[PEERMSG_NEEDS];
};

/* Where a node listens while the network is measured. A connection must begin with the token. */
struct peer_listen {
    char at[80]; /* "10.0.0.4:40123"; "": nowhere */
    uint64_t token[2];
};

#define PEERMSG_RATE_MAX (UINT64_C(1) << 50) /* bytes per second */

/* A node's part in the measurement of the network: its transfer to the next node of the ring. */
struct peer_link {
    uint32_t number; /* of the measurement; 0: there was none */
    uint8_t is_over; /* the transfer has ended */
    struct peer_listen here;
    uint64_t rate; /* bytes per second; 0: unknown */
    char why[64];  /* why the next node was not reached; "": it was, or this is unknown */
};

/* Where a node stands. The counts speak of the round in the stamp. */
struct peer_status {
    uint64_t seen;       /* seq of the newest ORDER it has acted upon */
    uint8_t wants_reply; /* a heartbeat: the chief answers with its ORDER */
    int64_t sent_ns;     /* the node's CLOCK_MONOTONIC at the moment of sending a heartbeat */
    uint8_t life;        /* enum peer_life */
    uint8_t vote;        /* enum peer_vote, on the ballot in the stamp */
    uint8_t closed; /* it knows that the round in the stamp has ended, and has opened its gate */
    uint16_t expected, attached; /* ranks of this node; or PEERMSG_UNKNOWN */
    /* ranks; ended: ended without a save in this round; served: began the save, or ended */
    uint16_t saved, ended, failed, served;
    uint8_t mismatch; /* its ranks saved at different steps */
    uint8_t prepared; /* all saved, and the node's own record of it is on disk */
    uint8_t stepped;  /* a rank has finished a step in this generation */
    uint16_t live;    /* ranks that are attached and have not ended: only they can save */
    uint16_t done;    /* ranks that trained to the end; without ranks: 1 if its commands did */
    uint8_t all_wait; /* every saving rank waits in pch_saved: it can be told to leave or go on */
    uint8_t own_more; /* own saves are still to be recorded, before or after `own_step` */
    uint64_t saved_step;      /* of the ranks that saved */
    uint64_t highest, lowest; /* finished steps of its ranks */
    uint64_t own_step;   /* oldest step above own_closed that all its ranks saved by themselves */
    uint64_t own_failed; /* newest such step that this node failed to save, 0: none */
    uint64_t first_step, stride,
        last_step;             /* boundaries common to its ranks; last_step 0: unknown */
    uint32_t world_size;       /* as its ranks report, 0: unknown */
    char roster[256];          /* "0-3,8": its ranks, until the chief's ORDER says that it knows */
    uint64_t rtt_ns;           /* from a heartbeat to its answer, 0: not measured */
    uint32_t checkpoint_asked; /* counts requests to save and go on */
    uint32_t stop_asked;       /* counts requests to save, and then to end the job */
    uint8_t interrupted; /* flag: a signal or a user has told it to end, within the last minute */
    uint8_t interrupted_by; /* a signal that ends programs, such as INT, came; 0: none did */
    uint8_t left;           /* with LIFE_GONE: some processes could not be ended */
    int64_t end_ns;  /* with LIFE_GONE: how long its processes took to leave, 0: not measured */
    uint8_t end_cut; /* they would have taken longer: the deadline cut them short */
    /* the node's live terminate notice */
    uint8_t has_notice;
    int64_t notice_left_ns;    /* until its deadline */
    uint8_t notice_is_guess;   /* nothing has named that deadline */
    uint8_t notice_has_signal; /* a signal has given a notice, too, perhaps a later one */
    int64_t notice_lead_ns;    /* unattached programs get the signal this long before it */
    uint32_t notice_version;   /* rises with a new notice or a new deadline */
    uint8_t knows_notice;      /* the node knows the job's notice, and has read its steps since */
    uint32_t notice_hurry;     /* 1: train no further, save now; 2: stop */
    struct notice_label notice;
    char save_error[128]; /* why a save failed, "": no save has failed */
    struct peer_watch watch;
    struct peer_own own;
    uint8_t dir;      /* enum peer_dir */
    uint8_t checking; /* a health check of the node is under way: no generation begins */
    uint8_t paths;    /* enum peer_paths */
    struct peer_need need;
    uint64_t loading_ns; /* the longest time in which a rank has waited for data */
    struct peer_link link;
};

enum peer_phase {
    PHASE_IDLE,      /* no round yet */
    PHASE_PROPOSED,  /* hold at save_step, tentatively, and vote */
    PHASE_DECIDED,   /* save at save_step */
    PHASE_COMMITTED, /* closed: durable on every rank */
    PHASE_FAILED,    /* closed: decided and not committed */
    PHASE_ABORTED,   /* closed: called off before it was decided */
};
enum peer_end {
    END_NONE,
    END_STOP,  /* stop your processes, in the manner given, then say LIFE_GONE */
    END_LEAVE, /* every node is gone, or will not come: exit */
};
enum peer_manner {
    MANNER_LEAVE,   /* the ranks know that they leave: wait, then stop them */
    MANNER_STOP,    /* stop them */
    MANNER_FORWARD, /* hand them the notice's signal, wait until the deadline, then stop them */
    MANNER_ASK,     /* send the save signal to the ranks, wait until the deadline, then stop them */
};

/* The job waits for the replacement of a lost node. */
struct peer_wait {
    uint32_t node;    /* 1 + the first node that is to be replaced; 0: the job waits for none */
    int32_t left_ms;  /* until the job waits no longer */
    int32_t fence_ms; /* until a replacement may train; at most 0: it may now */
};

/* Before a generation all nodes measure the network at once: each sends to the next node of the
 * ring of node numbers, and reports the rate. */
struct peer_measure {
    uint32_t number; /* each has its own; 0: none goes on */
    uint8_t begins;  /* send now; before that a node only listens */
    /* With `begins`: of the receiver of this message. Before that: of node 0, without its token. */
    struct peer_listen next;
};

/* Where the chief stands. The stamp names the round, the ballot and this order's number. */
struct peer_order {
    uint8_t start;    /* all have joined: start your processes */
    uint8_t roster;   /* the rosters of all nodes are known and fit together */
    uint8_t phase;    /* enum peer_phase */
    uint8_t ends_run; /* the round's save is the last; valid from PHASE_DECIDED on */
    uint8_t leave;    /* at a close: ranks that wait in pch_saved leave (1) or go on (0) */
    uint64_t save_step;
    uint64_t commit_step; /* last committed, 0: none */
    uint64_t own_closed;  /* own saves up to this step are answered, committed or not */
    uint64_t bell;        /* report when a rank has finished this step, 0: none */
    int64_t echo_ns;      /* sent_ns of the heartbeat that it answers, 0: none */
    int64_t clock_ns;     /* node 0's CLOCK_MONOTONIC at the moment of sending */
    uint8_t end;          /* enum peer_end */
    uint8_t restart;      /* with END_STOP: the next generation starts when all are gone */
    uint8_t manner;       /* enum peer_manner */
    uint8_t outcome;      /* enum outcome, with END_STOP */
    int32_t exit_code;
    int32_t end_left_ms; /* until the deadline of the stop */
    uint8_t has_notice;  /* the job's live notice, for pch_notice() */
    uint8_t is_near;     /* the notice is near: a failure is part of the preemption */
    int32_t notice_node;
    int64_t notice_left_ns;
    struct notice_label notice;
    char why[PEERMSG_WHY_SIZE]; /* why the round or the job ended */
    uint32_t examine;       /* number of the last examination of all processes, 0: there was none */
    uint16_t port;          /* on node 0, for the commands of this generation to meet, 0: none */
    int64_t save_ns;        /* how long a save takes, 0: not known */
    uint64_t own_ns;        /* the median of the ranks' own part of a step, 0: unknown */
    uint32_t stop_answered; /* how many of this node's `stop_asked` were given up: see `why` */
    uint8_t needs;          /* enum save_needs, of the round; valid from PHASE_DECIDED on */
    uint8_t is_late;        /* with PHASE_FAILED: the time for the save was over */
    uint32_t commit_whole;  /* 1 + the rank whose save is all of commit_step; 0: every rank's is */
    struct peer_wait waits;
    struct peer_measure measure;
};

/* Question and answer are only for people: they decide nothing, and are sent only on request. */
struct peer_look {
    uint32_t number; /* which question it is */
};

#define PEERMSG_RANKS_MAX 20 /* per message: no type may be larger than HELLO */

/* The state of a rank whose process is not attached. */
enum peer_rank_life {
    RANK_GONE,       /* the process has ended */
    RANK_STARTING,   /* it runs, and has time left to attach */
    RANK_UNATTACHED, /* it runs */
};

/* A rank, for people. */
struct peer_rank {
    uint64_t step, saved_step;
    uint64_t pace;   /* steps in a million seconds, 0: not known */
    uint64_t own_ns; /* its own part of a step, 0: unknown */
    int64_t age_ns;  /* since its last move, before the moment of sending; -1: unknown */
    int32_t rank, local_rank, pid;
    uint8_t phase; /* enum page_phase; of an attached rank */
    uint8_t attached, done;
    uint8_t is_least; /* it has not moved since the first look: age_ns is a lower bound */
    uint8_t counts;   /* it only reports steps, and takes no part in saves */
    uint8_t life;     /* enum peer_rank_life; of a rank that is not attached */
    uint16_t slow;    /* 160: it is slow, at 1.6 times the median; 0: it is not */
};

/* The ranks from `first` on, of `total` that the node has. The ranks come in order. */
struct peer_ranks {
    uint32_t number; /* of the LOOK that is answered */
    uint32_t node_rank;
    uint16_t total, first;
    uint8_t count; /* here */
    struct peer_rank list[PEERMSG_RANKS_MAX];
};

/* To a spare: the answer to its HELLO and to each heartbeat, and at once when it is called or the
 * job ends. To a supervisor that says it is a node whose place another one has taken: it is to
 * connect again, as a spare. */
struct peer_standby {
    int32_t place;   /* the node whose place the spare takes; -1: it stands by */
    uint8_t is_over; /* the job has ended: the spare ends with this outcome, code and why */
    uint8_t outcome; /* enum outcome */
    int32_t exit_code;
    char why[PEERMSG_WHY_SIZE];
};

struct peermsg {
    uint8_t type; /* enum peermsg_type */
    struct peer_stamp stamp;
    /* STATUS: the first failure on the node; ORDER: of the job, once it ends because of it */
    struct peer_cause cause;
    union {
        struct peer_hello hello;
        struct peer_welcome welcome;
        struct peer_refused refused;
        struct peer_status status;
        struct peer_order order;
        struct peer_look look;
        struct peer_ranks ranks;
        struct peer_standby standby;
    };
};
_Static_assert(sizeof(struct peer_ranks) <= sizeof(struct peer_hello),
               "RANKS is rare, so it must not make every struct peermsg larger");

/* Header and payload into `data` (FRAME_MAX is always enough). Returns the size. */
size_t peermsg_encode(const struct peermsg *msg, uint8_t *data, size_t cap);
/* False: not a message of this version, or malformed; *ret is then undefined. A HELLO of another
 * version decodes to a message with an empty job, so that the chief can refuse it by name; REFUSED
 * has the same layout in all versions, so that its reason can be read. */
bool peermsg_decode(const struct frame *frame, struct peermsg *ret);
const char *peermsg_name(unsigned type);
/* "idle", "proposed", "decided", "committed", "failed", "aborted"; "unknown" for any other value.
 */
const char *peermsg_phase_name(unsigned phase);
/* The flaw of a frame of this version that could not be decoded: "ends too early". */
const char *peermsg_flaw(const struct frame *frame);
