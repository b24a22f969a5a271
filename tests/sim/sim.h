/* SPDX-License-Identifier: Apache-2.0
 *
 * sim: the real core of every node under virtual time, with a network, processes and a disk that
 * are made up, all from one seed. A schedule that fails fails again with the same seed.
 *
 * schedule.c draws a schedule from the seed; world.c runs it (time, the queue); shell.c performs
 * the actions of each node; net.c carries messages; proc.c is the training process with libpch's
 * rules; check.c holds the promises that must hold in every schedule. One thread; everything is
 * freed at the end of a schedule.
 */
#pragma once

#include "base/clock.h"
#include "base/str.h"
#include "core/core.h"
#include "heap.h"
#include "wire/gate.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* How long a rank may stand, and how long it may evaluate. */
#define SIM_STAND_NS (60 * NS_PER_S)
#define SIM_EVAL_NS  (90 * NS_PER_S)
/* Longer than any schedule. */
#define SIM_FOR_EVER_NS (3600 * NS_PER_S)
#define SIM_FACTOR      2
/* The only node reads the steps so often to see whether they do. */
#define SIM_LOOK_NS (SIM_STAND_NS / 8)

enum { MAX_NODES = 4, MAX_PROCS = 3, MAX_ALL = MAX_NODES * MAX_PROCS, MAX_FAULTS = 16 };
enum { NOTICE_OF_SIGNAL = 2 };      /* beside ids 0 and 1 */
enum { MAX_HOSTS = MAX_NODES + 1 }; /* the last is that of DO_RESTART and DO_TWIN */

/* --- chance --- */
struct rng {
    uint64_t state;
};
uint64_t rng_next(struct rng *rng);
uint64_t rng_below(struct rng *rng, uint64_t n); /* 0 … n - 1 */
bool rng_chance(struct rng *rng, unsigned per_mille);
int64_t rng_time(struct rng *rng, int64_t from, int64_t to);

/* --- the schedule --- */
enum fault_kind {
    DO_TERM,       /* SIGTERM to a node */
    DO_CHECKPOINT, /* SIGUSR2 to a node: save and go on */
    DO_KILL_PROC,
    DO_KILL_NODE,  /* the host: supervisor and processes */
    DO_BREAK,      /* a connection breaks; messages in flight are lost */
    DO_PARTITION,  /* nothing passes for a while */
    DO_PAUSE,      /* the supervisor does not run for a while */
    DO_FREEZE,     /* all supervisors do not: the machine was suspended */
    DO_KILL_SAVED, /* the host, as soon as the chief knows that its ranks have saved */
    DO_RESTART,    /* the supervisor is killed, and its scheduler starts it anew */
    DO_TWIN,       /* a second supervisor is started for a node that is there */
    DO_HANG,       /* a process does not go on */
    DO_STOP,       /* a process is stopped for a while, by a debugger or a signal */
    DO_LAG,        /* a process does not go on for a while, and shows no reason */
    DO_CONFESS,    /* a process says why it fails, and dies `length` later */
    DO_END,        /* a user asks a node for the end of the job */
    DO_REPEAT,     /* a notice that has ended enough attempts: save within `length`, and go on */
    DO_NOTICE,     /* a source of a node: it will be ended in `length` (0: it does not say) */
    DO_CANCEL,     /* and takes that back */
    DO_ADVICE,     /* save and go on */
    DO__COUNT
};
struct fault {
    enum fault_kind kind;
    int64_t at, length;
    int node, proc;
    int id;         /* of DO_NOTICE, DO_CANCEL, DO_ADVICE */
    bool is_traced; /* of DO_STOP: by a debugger */
};

/* Processes that the commands of a node leave running. */
enum leftover { LEFTOVER_NONE, LEFTOVER_MEEK, LEFTOVER_STUBBORN };

enum save_style { STYLE_SYNC, STYLE_ASYNC };

struct schedule {
    uint64_t seed;
    int nnodes, nprocs; /* per node */
    bool is_lockstep;   /* a training step is a collective */
    bool is_collective_save;
    bool attaches;     /* else the program knows nothing of libpch */
    bool is_forwarded; /* it does not, and its supervisor knows */
    bool dies_of_term;
    enum save_style style;
    uint64_t first_step, last_step, declared_last;
    uint64_t stride[MAX_ALL];
    uint64_t own_every; /* the program's own saves, 0: none */
    int64_t step_time[MAX_ALL], save_time[MAX_ALL], attach_at[MAX_ALL];
    uint64_t late_steps[MAX_ALL]; /* steps finished before attaching */
    uint64_t ends_early[MAX_ALL]; /* leaves the training at this step, 0: not */
    uint64_t cut_at[MAX_ALL];     /* its connection breaks at this step, 0: not */
    bool fails_to_save[MAX_ALL], reattaches[MAX_ALL], is_stubborn[MAX_ALL], is_unkillable[MAX_ALL],
        is_silent[MAX_ALL], is_mute[MAX_ALL], /* mute: ends without pch_done and pch_close */
        is_hidden[MAX_ALL], /* mute, but says that it exits with a failure; its command does not */
        stays_attached[MAX_ALL], /* mute, and its command ends with 0 before it does */
        is_terse[MAX_ALL],       /* ends by pch_close, without pch_done */
        is_bare[MAX_ALL];        /* has a handler of its own for SIGTERM */
    int64_t teardown[MAX_ALL]; /* from its death to its end; -1: nothing tells of it before that */
    bool misses_nodes;         /* a process fails when a node has gone */
    bool misses_procs;         /* and when the files of a dead process are closed */
    int64_t clock[MAX_NODES];  /* what CLOCK_MONOTONIC shows when the schedule begins */
    int64_t begins_at[MAX_NODES]; /* its supervisor is started, after node 0's */
    int64_t delay_max;            /* of a message between nodes */
    bool is_direct; /* no proxy: a death is known as such, not only as a closed line */
    unsigned drop, duplicate, reorder, slow_disk, bad_disk; /* per mille */
    bool is_replaced; /* the disk is bad because a later attempt has taken over */
    int64_t grace, least_grace, most_grace; /* that notices leave */
    bool trains_on;
    uint64_t every_steps; /* saves without a notice; 0: none */
    int64_t every_ns;
    bool is_regular;    /* nothing is in their way */
    int64_t known_save; /* from earlier attempts, right or wrong; 0: not known */
    enum leftover leftover[MAX_NODES];
    bool leaves_leftovers; /* stop.leftovers=leave */
    struct restart_policy restart;
    /* one rank evaluates after a step of its own, and says so; -1: none */
    int eval_proc;
    uint64_t eval_step;
    int64_t eval_time;
    bool is_watched; /* the watchdog is on */
    /* from this step on each step takes so many times as long; 0: the pace never drops */
    uint64_t slow_from;
    int64_t slow_by;
    int nfaults;
    struct fault faults[MAX_FAULTS];
    bool is_benign;      /* a notice must end in a commit */
    bool has_shells;     /* around the processes; SIGTERM goes to all, and the shells die of it */
    bool is_prompt;      /* or, at least, in time */
    bool is_cut;         /* nodes do not hear each other, and that is all */
    bool is_withdrawn;   /* the only notice is, long before its deadline */
    int64_t stands;      /* so much a notice leaves that stood before the first step, 0: no such */
    int64_t repeats;     /* the same of one that has ended enough attempts */
    int64_t uses;        /* so much of a long grace must be used for training, 0: not one such */
    bool has_third_term; /* a node is told to hurry */
    bool is_slowed;      /* the pace drops, and a notice leaves a save and three slow steps */
    bool is_far;         /* a process fails or hangs long before a notice's deadline */
    bool is_calm;        /* nothing but one node's death after its saves, and time to commit them */
    bool has_loss;       /* something was done that may look like a lost node */
    bool is_mended;      /* processes are killed, no more often than the job may be restarted */
    bool is_plain_restart; /* nothing but DO_RESTART was: all must end alike */
};
void schedule_draw(struct schedule *schedule, uint64_t seed);
/* The longest of the times that the processes have; at least 0. */
int64_t schedule_longest(const struct schedule *schedule, const int64_t times[MAX_ALL]);
void schedule_print(const struct schedule *schedule, FILE *out);
enum { FAULT_TEXT = 80 };
/* "node 1: line broken". Returns text. */
const char *fault_text(const struct fault *fault, char text[FAULT_TEXT]);

/* --- the world --- */
enum proc_state {
    PROC_NONE,
    PROC_BOOTING,
    PROC_ATTACHING,
    PROC_TRAINING,   /* the next step is being computed */
    PROC_COLLECTIVE, /* waits for its peers before the next step */
    PROC_LOOKING,    /* has stored its step, is about to load the gate */
    PROC_AT_GATE,
    PROC_EVALUATING,
    PROC_SAVING,
    PROC_SAVE_BARRIER, /* a collective save: waits for all to have begun */
    PROC_ANSWER,       /* in pch_saved, or held */
    PROC_ENDING,
    PROC_HUNG,
    PROC_DEAD
};

struct proc {
    int index, node, slot, rank; /* slot == index within the node */
    uint32_t generation;
    enum proc_state state;
    uint64_t epoch; /* rises with each change of plan: older happenings are void */
    bool is_attached, is_connected;
    bool is_counting; /* it has attached only to tell its steps */
    uint64_t step, page_step, first_step;
    uint64_t left_step; /* page_step when node 0 ended the job or the generation */
    uint32_t served_tag;
    int64_t served_at;
    uint32_t saving_tag; /* 0: its own save */
    uint64_t saving_step;
    bool has_reattached;
    uint32_t exempt_tag; /* the round that was over when it attached anew */
    bool held_run;       /* its background save belongs to a round that ends the run */
    bool is_writing;     /* the background save */
    uint32_t write_tag;
    uint64_t write_step;
    int64_t said_at; /* when its last message arrives: the socket keeps the order */
    int64_t told_at;
    bool has_lost_shell;
    uint64_t save_of_tag[64]; /* step at which it saved in the round with this tag */
    int64_t first_step_at;    /* attached, 0: not yet */
    bool ended_well, is_done, was_told_exit;
    int64_t finished_at; /* its last step, 0: not yet */
    bool has_left;       /* trained to its end, but will not say so */
    bool has_left_round; /* it ended while a round was open */
    bool is_cut;         /* its connection broke; it knows at its next step */
    uint8_t page_phase;
    bool has_evaluated;
    int64_t hung_at, stopped_until, lags_until; /* 0: not */
    bool is_traced;                             /* a debugger has stopped it */
    int dies_with;                              /* status of its end */
    bool has_missed;      /* a node, or a process, and fails because of that */
    int64_t confessed_at; /* its supervisor knows since then why it will fail, 0: it does not */
    bool is_going;        /* its supervisor is about to learn that it has gone */
};

/* The first failure that a node has told of. */
struct told {
    bool is_known;
    int64_t wall; /* when it was: the true time */
    int64_t error;
};

struct host {
    struct world *world;
    int number;
    struct core *core;
    int64_t clock; /* its CLOCK_MONOTONIC is ahead of the true time by so much */
    bool is_alive, has_exited;
    bool is_uncounted; /* the attempt is none of those without a commit */
    bool is_to_come;   /* begins later */
    enum outcome outcome;
    int code;
    int64_t exit_at, died_at; /* 0: not */
    bool died_heard;          /* what it had sent arrives, and behind it that it has ended */
    char why[192];
    struct told told;          /* as node 0 has heard it */
    struct core_report report; /* the last one */
    struct told failed;        /* what it has to tell: its first failure, or what was said of it */
    int64_t signalled_at;      /* all its processes, 0: never */
    int64_t killed_at;         /* the same, by SIGKILL */
    int64_t stopped_at;        /* it knows of the job's end since, 0: not yet */
    int64_t told_leave_at; /* its processes, by the gate: of the job's or the generation's end */
    uint64_t gate;
    int64_t timer_at;
    uint64_t timer_epoch;
    int64_t paused_until;
    bool is_started;
    uint32_t generation;
    bool has_leftover, dies_when_saved;
    int nended;                  /* of its processes, as its supervisor knows */
    int64_t ended_at;            /* the last of them, 0: not yet */
    bool has_failed, had_notice; /* one with a failure; a notice had been given by then */
    bool held_notice;            /* and has held ever since */
    int64_t held_notice_at;      /* at least one has held since then, 0: none does */
    int64_t deadlines[3];       /* of the notices that hold on it: by id, and of signals; 0: none */
    int64_t end_deadline;       /* the earliest of them when node 0 ended the job */
    uint64_t committed;         /* as told by ACT_COMMITTED */
    uint64_t held[2];           /* steps that its record keeps, whatever else is saved */
    int nwriting;               /* its record */
    bool knows_replaced;        /* that it was, while its processes trained */
    bool hears_replaced;        /* the same, whatever it did then */
    enum outcome first_outcome; /* when it began to stop */
    /* its line to the chief */
    int conn;   /* number at the chief, 0: none */
    bool is_up; /* as the member sees it */
    uint64_t line_epoch;
    int64_t cut_until;
    int64_t fifo_up, fifo_down;
    int64_t heard_at; /* when the last message of another node came */
};

struct happening;
struct world {
    struct schedule s;
    struct rng rng;
    int64_t now;
    struct heap queue; /* of struct happening */
    uint64_t seq;
    struct host hosts[MAX_HOSTS];
    int nhosts; /* those of the nodes, and maybe one more */
    enum fault_kind extra_is;
    int64_t extra_since;
    bool is_seen_late; /* a crash: a process that missed it may have ended first */
    int64_t end_at;    /* when node 0 ended the job, 0: not yet */
    struct proc procs[MAX_ALL];
    int nall;
    uint32_t last_tag;   /* of a round in which any process has saved */
    uint32_t generation; /* the newest that has been begun on some node */
    uint64_t base_step;  /* that it has begun from */
    uint16_t port;       /* that node 0 has picked last */
    int next_conn;
    /* the disk */
    uint64_t durable[MAX_ALL][512]; /* steps that a rank has saved, the newest of them */
    size_t ndurable[MAX_ALL];
    int64_t moved_at;   /* a process did something, or a notice was given or withdrawn */
    uint64_t record;    /* the chief's commit record */
    int64_t record_at;  /* 0: not in this attempt */
    bool record_of_run; /* written in this attempt */
    uint64_t owed_step; /* the commit of it must come, 0: of none */
    int64_t stop_at;    /* the end was asked for, and was not decided yet; 0: never */
    int stop_node;
    bool was_stopped;    /* a user asked for it, at whatever time */
    int64_t repeated_at; /* such a notice was given, 0: none */
    int64_t first_notice_at;
    int64_t saved_for_notice_at; /* the first commit since, 0: none */
    bool is_over;
    FILE *trace;
    char failure[400]; /* "": every promise held so far */
    uint64_t events;
    int64_t same_since;
    uint64_t same_count;
};

enum what {
    H_TIMER,
    H_READ_STEPS,
    H_STEPS,
    H_EXAMINED,
    H_PREPARED,
    H_COMMITTED,
    H_CONNECTED,
    H_TO_CHIEF,
    H_TO_NODE,
    H_DOWN_NODE,  /* the member learns that its connection is closed */
    H_DOWN_CHIEF, /* the chief does */
    H_CHILD_STARTED,
    H_CHILD_DYING,
    H_MISSED, /* the files of a process that has failed are closed */
    H_CHILD_EXITED,
    H_LEFTOVER_GONE,
    H_KILL_NODE,
    H_PROC,    /* the process's own next move */
    H_WRITTEN, /* its background save is on disk */
    H_FROM_PROC,
    H_TO_PROC,
    H_PROC_GONE,
    H_FAULT,
    H_BEGIN, /* the supervisor of a node is started */
    H_EXTRA, /* the supervisor of DO_RESTART or DO_TWIN is started, as node `arg` */
};
struct happening {
    int64_t at;
    uint64_t seq;
    enum what what;
    int node, proc;
    uint64_t epoch, arg, arg2;
    uint32_t generation; /* with H_WRITTEN and H_TO_PROC: of the process */
    void *data;          /* freed when it has happened */
};

void world_run(struct world *world, const struct schedule *schedule, FILE *trace);
void world_at(struct world *world, struct happening happening);
void world_event(struct world *world, int node, struct event event);
struct proc *world_proc(struct world *world, int node, int slot);
void trace(struct world *world, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void fail(struct world *world, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* shell.c */
/* `shell`: the struct host. */
void shell_perform(void *shell, const struct action *action);

/* net.c */
/* Both perform an action. */
void net_connect(struct world *world, int node, const struct action *action);
void net_send(struct world *world, int node, const struct action *action);
void net_connected(struct world *world, const struct happening *h);
void net_close(struct world *world, int node, int conn);
void net_arrive(struct world *world, const struct happening *h);
void net_down(struct world *world, const struct happening *h);
void net_break(struct world *world, int node);
void net_host_died(struct world *world, int node);
/* A partition keeps it from being heard. */
bool net_is_cut(const struct world *world, int node);

/* proc.c */
/* The processes of the host's generation. */
void proc_start(struct world *world, int node);
/* Fills in the node and the number of the process, and its generation. */
void proc_at(struct world *world, const struct proc *p, struct happening happening);
void proc_move(struct world *world, const struct happening *h);
void proc_written(struct world *world, const struct happening *h);
void proc_told(struct world *world, const struct happening *h);
void proc_signal(struct world *world, struct proc *p, int number);
/* A scheduler sends SIGTERM to all processes of a node. */
void proc_catch(struct world *world, struct proc *p);
void proc_confess(struct world *world, struct proc *p, int64_t lingers);
/* A node has gone, with which all others exchange what they have computed. */
void proc_miss(struct world *world, struct proc *p);
void proc_hang(struct world *world, struct proc *p);
void proc_die(struct world *world, struct proc *p, int status);
bool proc_is_alive(const struct proc *p);
/* It does nothing before that. */
int64_t proc_rests_until(const struct proc *p);

/* check.c */
void check_save(struct world *world, const struct proc *p, uint32_t tag, uint64_t step);
void check_step(struct world *world, const struct proc *p);
/* A process has finished a step: not too much has been trained since the last commit. */
void check_period(struct world *world, const struct proc *p);
void check_durable(struct world *world, const struct proc *p, uint64_t step);
void check_commit(struct world *world, uint64_t step);
void check_held(struct world *world, uint64_t step);
/* A node starts its processes, and tells them of this port. */
void check_port(struct world *world, int node, uint16_t port);
/* A generation is about to begin on a node. */
void check_generation(struct world *world, int node, uint32_t generation, uint64_t step);
/* A node is told of a commit. */
void check_committed(struct world *world, int node, uint64_t step);
void check_signal(struct world *world, int node, enum signal_target target);
void check_leftover(struct world *world, int node);
void check_begin(struct world *world, int node);
void check_replaced(struct world *world, int node);
/* A process looks at a gate that it has served. */
void check_gate(struct world *world, const struct proc *p, uint64_t word);
/* A command has ended with a failure, as its supervisor is about to learn. */
void check_failed(struct world *world, const struct proc *p);
/* Just after it was told that the process is dying. */
void check_dying(struct world *world, const struct proc *proc, const struct core_report *before);
/* Node 0 hears of a failure. */
void check_told(struct world *world, int node, const struct peermsg *msg);
bool check_holds_notice(const struct host *host);
/* Since when a notice that holds on the node is near; CLOCK_NEVER: none holds. `is_judged`: node 0
 * knows by now whether the notice came before the first step. */
int64_t check_near_at(const struct world *w, const struct host *host, bool is_judged);
/* The same of any node. */
int64_t check_nearest_at(const struct world *w);
/* Node 0 has just ended the job. */
void check_ending(struct world *world);
/* Questions that several files of promises ask. */
/* When a process finished the first step of all; CLOCK_NEVER: none has. */
int64_t first_stepped_at(const struct world *w);
bool had_stepped_before_notice(const struct world *w);
bool any_is_done(const struct world *w);
bool any_ended_in_silence(const struct world *w);
bool any_has_failed(const struct world *w);
/* check_standing.c */
void check_slowed(struct world *w);
void check_far(struct world *w);
void check_use(struct world *w);
void check_standing(struct world *w);
void check_unattached(struct world *w);
void check_repeated(struct world *w);
void check_count(struct world *w);
void check_exit(struct world *world, int node);
/* At the exit of the supervisor of DO_RESTART or DO_TWIN. */
void check_extra(struct world *world);
/* Called just before the nodes that still run are told to stop. */
void check_horizon(struct world *world);
void check_end(struct world *world);
