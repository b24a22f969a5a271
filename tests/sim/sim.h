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
#include "core/spare/spare.h"
#include "heap.h"
#include "wire/gate.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* The watchdog's limits: for the time without a step, and for an evaluation. */
#define SIM_STAND_NS (60 * NS_PER_S)
#define SIM_EVAL_NS  (90 * NS_PER_S)
#define SIM_END_NS   (40 * NS_PER_S) /* for the end, when every rank is done */
#define SIM_BACK_NS  (2 * NS_PER_S)  /* for a closed connection to come back */
/* Longer than any schedule. */
#define SIM_FOR_EVER_NS (3600 * NS_PER_S)
#define SIM_FACTOR      2
#define SIM_REPEATS     "ImportError: no apex"
#define SIM_BUG         "; bad batch "
/* The text of a process that gives up its wait for the others. */
#define SIM_GAVE_UP "Timed out waiting 5000ms for recv operation to complete"
/* How long node 0 waits for other ranks to give up, after the newest that has. */
#define SIM_OTHERS_NS      (3 * NS_PER_S)
#define SIM_OTHERS_MOST_NS (30 * NS_PER_S) /* and after the first */
/* How much later than its death the end of a killed process may be seen. */
#define SIM_SEEN_LATE_NS (40 * NS_PER_MS)
/* How often a supervisor without other nodes reads the steps, to find a hang. */
#define SIM_LOOK_NS (SIM_STAND_NS / 8)

enum { MAX_NODES = 4, MAX_PROCS = 3, MAX_ALL = MAX_NODES * MAX_PROCS, MAX_FAULTS = 16 };
enum { NOTICE_OF_SIGNAL = 2 }; /* a notice by a signal; sources have 0 and 1 */
enum { MAX_NOTICES = 3 };
enum { MAX_GHOSTS = 6 }; /* supervisors that were replaced, see replace.c */
enum { MAX_SPARES = 2 };
/* Behind the nodes: the supervisor of DO_RESTART or DO_TWIN; or the spares, then the ghosts. */
enum { MAX_HOSTS = MAX_NODES + MAX_SPARES + MAX_GHOSTS };
enum { MAX_LIVES = 100 };

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
    DO_PARTITION,  /* no message passes for a while */
    DO_PAUSE,      /* a supervisor does not run for a while */
    DO_FREEZE,     /* no supervisor runs for a while: the machine was suspended */
    DO_KILL_SAVED, /* the host dies as soon as the chief knows that its ranks have saved */
    DO_RESTART,    /* the supervisor is killed, and its scheduler starts it again */
    DO_TWIN,       /* a second supervisor is started for a node that has one */
    DO_HANG,       /* a process hangs */
    DO_STOP,       /* a process is stopped for a while, by a debugger or a signal */
    DO_LAG,        /* a process makes no progress for a while; the system shows no reason */
    DO_CONFESS,    /* a process says why it fails, and dies `length` later; see struct bug */
    DO_END,        /* a user asks a node for the end of the job */
    DO_SAVE_END,   /* a user asks a node for a save, and then the end of the job */
    DO_REPEAT,     /* a repeated notice: save within `length`, and train on */
    DO_ONE_WAY, /* one way of a line: messages are lost, or come later and later, up to minutes */
    DO_NOTICE,  /* a source: the node will be ended in `length` (0: time unknown) */
    DO_CANCEL,  /* the source withdraws its notice */
    DO_ADVICE,  /* the source advises a save; the training goes on */
    DO__COUNT
};
struct fault {
    enum fault_kind kind;
    int64_t at, length;
    int node, proc;
    int id;         /* the notice's, of DO_NOTICE, DO_CANCEL, DO_ADVICE */
    bool is_traced; /* of DO_STOP: a debugger stops the process */
    struct one_way {
        bool is_up;          /* to node 0; else from it */
        unsigned late_tenth; /* a message is this much later than the one before; 0: all are lost */
    } way;                   /* of DO_ONE_WAY */
};

/* How the processes that a node's commands leave behind can be ended. */
enum leftover { LEFTOVER_NONE, LEFTOVER_MEEK, LEFTOVER_STUBBORN };
/* At most so long after its signal a leftover ends. */
#define LEFTOVER_ENDS_NS (300 * NS_PER_MS)

enum save_style { STYLE_SYNC, STYLE_ASYNC };

struct schedule {
    uint64_t seed;
    int nnodes, nprocs; /* per node */
    bool is_lockstep;   /* a training step is a collective */
    bool is_collective_save;
    bool attaches;     /* else the program does not use libpch */
    bool is_forwarded; /* does not attach; its supervisor passes the signal on */
    bool dies_of_term;
    bool signals_all;  /* SIGTERM goes to all processes, and to the supervisor last */
    bool answers_term; /* an attached process says why it fails when its supervisor ends it */
    enum save_style style;
    uint64_t first_step, last_step, declared_last;
    uint64_t stride[MAX_ALL];
    uint64_t own_every; /* steps between the program's own saves, 0: none */
    int64_t step_time[MAX_ALL], save_time[MAX_ALL], attach_at[MAX_ALL];
    uint64_t late_steps[MAX_ALL]; /* steps finished before attaching */
    uint64_t ends_early[MAX_ALL]; /* ends the training at this step, 0: does not */
    uint64_t cut_at[MAX_ALL];     /* its connection breaks at this step, 0: does not */
    bool fails_to_save[MAX_ALL], reattaches[MAX_ALL], is_stubborn[MAX_ALL], is_unkillable[MAX_ALL],
        is_silent[MAX_ALL], is_mute[MAX_ALL], /* mute: ends without pch_done and pch_close */
        is_hidden[MAX_ALL], /* mute, but says that it exits with a failure; its command does not */
        stays_attached[MAX_ALL], /* mute, and its command ends with 0 before the process */
        is_terse[MAX_ALL],       /* ends by pch_close, without pch_done */
        is_bare[MAX_ALL];        /* has a handler of its own for SIGTERM */
    int64_t teardown[MAX_ALL]; /* from its death to its end; -1: its supervisor sees only the end */
    int64_t lingers[MAX_ALL];  /* from its pch_done to its end; 0: it ends soon */
    int64_t exit_time[MAX_ALL];   /* the same from the order to leave */
    int64_t known_end;            /* the longest of these, from an earlier attempt; 0: not known */
    bool misses_nodes;            /* a process fails when a node is lost */
    bool misses_procs;            /* a process fails when the files of a dead process are closed */
    int64_t clock[MAX_NODES];     /* what CLOCK_MONOTONIC shows when the schedule begins */
    int64_t begins_at[MAX_NODES]; /* when its supervisor is started, after node 0's; -1: never */
    int64_t delay_max;            /* the longest, of a message between nodes */
    bool marks_waits;             /* the pages show the time for a step */
    bool is_direct; /* no proxy: a node's death is seen, not only a closed connection */
    unsigned drop, duplicate, reorder, slow_disk, bad_disk; /* per mille */
    bool is_replaced; /* the disk is bad because a later attempt has taken over */
    int64_t grace, least_grace, most_grace; /* that notices leave */
    bool trains_on;
    bool is_auto;            /* it trains on only if the deadline is known */
    bool guesses[MAX_NODES]; /* nothing tells this node how long its grace is */
    uint64_t every_steps;    /* saves without a notice; 0: none */
    int64_t every_ns;
    int64_t every_most; /* the core chooses the time, from every_ns to this; 0: it does not */
    int failures;       /* of earlier attempts, in the record */
    bool is_regular;    /* nothing disturbs these saves */
    int64_t known_save, known_start; /* from earlier attempts, right or wrong; 0: not known */
    enum leftover leftover[MAX_NODES];
    bool leaves_leftovers; /* stop.leftovers=leave */
    struct restart_policy restart;
    /* One rank evaluates after this step, and reports the phase; -1: none. */
    int eval_proc;
    uint64_t eval_step;
    int64_t eval_time;
    bool is_watched; /* the watchdog is on */
    /* How long a process waits for the others of a step before it fails; 0: for ever. */
    int64_t patience;
    bool says_so; /* it says why; else it only dies of SIGABRT */
    /* The process that hangs waits, too, for longer than its patience. Some that give up stay. */
    bool hung_gives_up;
    /* From this step on each step takes `slow_by` times as long; 0: the pace never drops. It rises
     * again at `slow_until`, if that is not 0. */
    uint64_t slow_from, slow_until;
    int64_t slow_by;
    int nfaults;
    struct fault faults[MAX_FAULTS];
    bool is_benign;      /* a notice must end in a commit */
    bool has_shells;     /* each process below a shell; SIGTERM goes to all and ends the shells */
    bool is_prompt;      /* a notice must end the job in time, saved or not */
    bool is_cut;         /* only the connections between nodes fail */
    bool is_withdrawn;   /* the only notice is withdrawn long before its deadline */
    int64_t stands;      /* time left by a notice that held before the first step, 0: none */
    bool repeats;        /* a notice that has ended enough attempts leaves time for a save */
    int64_t uses;        /* how much of a long notice must be trained through, 0: no long notice */
    bool is_lone;        /* one notice without a deadline, and nothing else */
    bool has_third_term; /* a node gets a third SIGTERM */
    bool is_slowed;      /* the pace drops, and a notice leaves a save and three slow steps */
    bool is_far;         /* a process fails or hangs long before a notice's deadline */
    bool is_long_saved;  /* nothing but a notice, of which a save takes a third or more */
    bool is_stalled;     /* nothing is lost, but what moves stands still for seconds now and then */
    bool is_calm;        /* only one node dies, after its saves, with time to commit them */
    bool has_loss;       /* some fault may look like a lost node */
    bool is_mended;      /* processes are killed, no more often than the job may be restarted */
    bool is_saved_end;   /* only a request to save and end the job: no step is lost */
    bool is_plain_restart; /* nothing but DO_RESTART happened: all nodes must end alike */
    /* needs.c */
    bool draws_needs; /* else every save is needed */
    enum save_needs needs;
    enum save_needs declares[MAX_ALL], declares_again[MAX_ALL]; /* again: when it attaches anew */
    bool shares_saves;                /* the nodes are to have one directory */
    bool has_other_dir[MAX_NODES];    /* this node has another one */
    bool sees_dirs_late;              /* nodes see it only when a round is decided */
    enum peer_paths paths[MAX_NODES]; /* where the ranks of a node save */
    int kill_round;                   /* in this round a process or a node is killed; 0: in none */
    bool kills_node, kills_begun;     /* begun: when every process has begun its save */
    int kill_who;
    int64_t kill_after;
    /* health.c */
    bool checks_health;
    bool has_unfit;          /* a check may say that its node must not train */
    bool is_unfit_alone;     /* and nothing else goes wrong */
    int unfit_at[MAX_NODES]; /* before this generation the check says so; -1: never */
    int64_t check_time[MAX_NODES];
    /* network.c */
    bool checks_net;
    bool stays_mute[MAX_NODES]; /* it does not answer */
    int64_t listen_time[MAX_NODES], transfer_time[MAX_NODES];
    /* replace.c */
    int64_t replace_wait; /* how long the job waits for a replacement, 0: it does not */
    int replace_max;
    int64_t comes_after[MAX_GHOSTS]; /* from a loss to the start of another supervisor; -1: none */
    int bad_one; /* the commands of this supervisor cannot be executed, from 1 on; 0: of none */
    /* spares.c */
    int spares;
    int64_t spare_begins[MAX_SPARES];
    int64_t dies_called[MAX_SPARES]; /* it dies this long after it took its call; -1: it does not */
};

/* A rule tells how the whole schedule must end. */
static inline bool schedule_has_rule(const struct schedule *s)
{
    return s->is_benign || s->is_prompt || s->is_cut || s->is_withdrawn || s->is_lone ||
           s->is_slowed || s->is_far || s->is_long_saved || s->is_stalled || s->is_calm ||
           s->is_mended || s->is_saved_end || s->is_plain_restart || s->uses || s->stands ||
           s->repeats;
}

void schedule_draw(struct schedule *schedule, uint64_t seed);
/* The longest of the times of all processes; at least 0. */
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
    PROC_ANSWER,       /* in pch_saved, or at a gate */
    PROC_ENDING,
    PROC_HUNG,
    PROC_DEAD
};

struct proc {
    int index, node, slot, rank; /* slot == index within the node */
    uint32_t generation;
    enum proc_state state;
    uint64_t epoch; /* rises with each change of plan: events of an older plan are dropped */
    bool is_attached, is_connected;
    bool is_counting; /* attached only to report its steps */
    uint64_t step, page_step, first_step;
    uint64_t left_step; /* page_step when node 0 ended the job or the generation */
    uint32_t served_tag;
    int64_t served_at;
    uint32_t saving_tag; /* 0: a save of its own */
    uint64_t saving_step;
    int64_t reattached_at; /* when it closed its first connection; 0: it did not */
    uint32_t exempt_tag;   /* the round that was over when it attached anew */
    bool held_run;         /* its background save belongs to a round that ends the run */
    bool is_writing;       /* the background save */
    uint32_t write_tag;
    uint64_t write_step;
    int64_t said_at; /* when its last message arrives; later messages arrive after it */
    int64_t told_at;
    bool has_lost_shell;
    uint64_t save_of_tag[64]; /* step at which it saved in the round with this tag */
    int64_t first_step_at;    /* since when it is attached and has finished a step, 0: not yet */
    bool ended_well, is_done, was_told_exit;
    int64_t finished_at; /* when it finished its last step, 0: not yet */
    bool has_left;       /* trained to its end, but will not call pch_done */
    bool has_left_round; /* it ended while a round was open */
    bool is_cut;         /* its connection broke; it learns of it at its next step */
    uint8_t page_phase;
    int times_read;      /* how often its supervisor has read its own part of a step */
    int64_t loads_since; /* it waits for data since its supervisor knows that it attached */
    bool has_evaluated;
    int64_t hung_at, stopped_until, lags_until; /* 0: not */
    bool is_traced;                             /* a debugger has stopped it */
    bool had_given_up;     /* node 0 knew it when it ended the job or the generation */
    int64_t gave_up_at;    /* it has waited for longer than its patience */
    int dies_with;         /* the status it will end with */
    bool has_missed;       /* misses a lost node or process, and fails because of that */
    bool has_bad_line;     /* it printed a line that is a failure, before any other reason */
    int64_t confessed_at;  /* since when its supervisor knows why it will fail, 0: does not know */
    bool is_going;         /* its supervisor is about to learn that it has ended */
    bool has_said_goodbye; /* it left by itself, and said so, without a failure */
    enum save_needs declared, declared_before; /* as its supervisor knows */
    int64_t declared_at;
    uint64_t begun_step; /* of its newest save in a round */
    bool has_exited;     /* as its supervisor knows */
};

/* A process of a supervisor that was replaced. */
struct ghost_proc {
    bool is_alive, is_unkillable;
    bool is_awaited; /* its supervisor does not know of its end */
    bool is_connected;
};

/* The shell of a core: it stays where it is when its host moves. */
struct seat {
    struct world *world;
    int number;
};

/* The first failure that a node has reported. */
struct told {
    bool is_known;
    bool is_guess; /* it was told without an error */
    bool is_crash;
    int64_t wall; /* when it happened, in true time */
    int64_t error;
};

struct host {
    struct seat *seat;
    int number;
    int node;      /* whose supervisor it is */
    uint32_t life; /* its number among all supervisors: what was on its way to another is dropped */
    bool is_to_be_replaced;
    bool is_bad;                        /* its commands cannot be executed */
    struct ghost_proc procs[MAX_PROCS]; /* of a ghost */
    struct core *core;
    /* spares.c */
    struct spare *spare; /* it stands by, and has no core */
    int own_number;      /* by which it stands by */
    int takes;           /* the place that the spare has just taken; 0: none */
    bool is_claimant;    /* it says that it is a node, and node 0 has not admitted it */
    int called_to;       /* the place that node 0 has told it last; 0: none */
    int64_t answered_at; /* when node 0 told it first that it stands by */
    bool owes_code;      /* it must end with the code of node 0 */
    int64_t clock;       /* how far its CLOCK_MONOTONIC is ahead of the true time */
    bool is_alive, has_exited;
    uint64_t loading_ns; /* as it last said, in that generation */
    uint32_t loading_generation;
    bool is_uncounted; /* the attempt does not count as one without a commit */
    bool is_to_come;   /* begins later */
    enum outcome outcome;
    int code;
    int64_t exit_at, died_at; /* 0: not */
    bool died_heard;          /* node 0 learns of its death behind its last messages */
    char why[192];
    struct told told;           /* as node 0 knows it */
    struct core_report report;  /* the last report */
    struct told failed;         /* its first failure, or the time at which that was announced */
    int64_t signalled_at;       /* when all its processes got a signal, 0: never */
    int64_t killed_at;          /* when all its processes got SIGKILL, 0: never */
    enum node_state seen_state; /* its state, as people see it */
    bool tells_state;           /* it was told in this event */
    int64_t stopped_at;         /* since when it knows that the job ends, 0: not yet */
    int64_t told_leave_at;      /* when the gate told its processes to leave */
    uint64_t gate;
    int64_t timer_at;
    uint64_t timer_epoch;
    int64_t paused_until;
    bool is_started;
    uint32_t generation;
    bool has_leftover, dies_when_saved;
    bool has_died_of_term; /* a command did, and its leftover may be saving until the deadline */
    int nended;            /* how many of its processes have ended, as its supervisor knows */
    int64_t ended_at;      /* when the last of them ended, 0: not yet */
    bool has_failed, had_notice;  /* a process failed; a notice was given before that end */
    bool held_notice, had_signal; /* a notice has held, a signal had come, since before that end */
    int64_t held_notice_at;       /* since when at least one notice holds, 0: none does */
    /* Of the notices that hold here; 0: none. A repeated one leaves just a save. */
    int64_t deadlines[MAX_NOTICES], repeated[MAX_NOTICES];
    int64_t end_deadline;       /* the earliest deadline when node 0 ended the job */
    uint64_t committed;         /* the step in the last ACT_COMMITTED */
    uint64_t held[2];           /* the steps that its record keeps, whatever else is saved */
    bool is_checking;           /* its health is being checked */
    uint32_t measure;           /* the measurement of the network that it takes part in; 0: none */
    bool is_unfit;              /* a check has said that it must not train */
    int nwriting;               /* how many writes of its record are under way */
    bool knows_replaced;        /* learned that it was replaced, while its processes trained */
    bool has_other_dir;         /* it has seen that its directory is not node 0's */
    bool seeks_dir;             /* it looks, and sees it when a round is decided */
    int64_t dir_seen_at;        /* 0: not yet */
    bool hears_replaced;        /* learned that it was replaced, at any time */
    enum outcome first_outcome; /* as decided when it began to stop */
    char first_why[192];
    uint32_t saved_generation; /* 1 + the last one that had saved for a notice, and ended for it */
    /* its connection to the chief */
    int conn;   /* the connection's number at the chief, 0: none */
    int closed; /* the last one that the chief closed, which gets nothing more */
    bool is_up; /* as the member sees it */
    uint64_t line_epoch;
    int64_t cut_until;
    int64_t fifo_up, fifo_down;
    struct one_way way; /* of its line, from `way_since` to `way_until` */
    int64_t way_since, way_until;
    int64_t hello_at, lease_from; /* see src/core/node/uplink.h, in true time */
    bool was_welcome;
    int64_t heard_at; /* when the last message from another node came */
};

/* A process that has failed at a step fails there again in each generation. */
struct bug {
    int proc; /* -1: in none */
    uint64_t step;
    bool ends_job;        /* node 0 ends the generation because of it */
    bool has_come;        /* it has ended the last generation, which had trained up to this step */
    bool is_second;       /* another one of its node has ended before it, in this generation */
    uint64_t record;      /* the commit at that time */
    int codes[64];        /* the code of each generation's failure, by its number; 0: none */
    uint64_t commits[64]; /* the commit when that generation was over */
};

struct happening;
struct world {
    struct schedule s;
    struct rng rng;
    int64_t now;
    struct heap queue; /* of struct happening */
    uint64_t seq;
    struct host hosts[MAX_HOSTS];
    int nhosts; /* the nodes, and perhaps more supervisors */
    struct seat seats[MAX_LIVES];
    uint32_t lives;      /* supervisors so far */
    int ncome;           /* replacements that have come, or will */
    int64_t waits_since; /* when the job began to wait for a replacement, 0: it does not */
    bool has_waited;     /* in this generation */
    int nreplaced;       /* places that were taken */
    int nvacated;        /* places that became vacant; each counts for replace_max */
    uint32_t start_generation, start_lives; /* of node 0's newest start; 0: none so far */
    int nstrikes;                           /* hosts that node 0 has recorded as not healthy */
    int nunfit_lost;                        /* nodes that were lost because they must not train */
    int64_t vacant_since[MAX_NODES], called_at[MAX_NODES]; /* of a place; 0: not so */
    int64_t out_since[MAX_NODES]; /* before the start: since when node 0 lacks it; 0: it does not */
    enum fault_kind extra_is;
    int64_t extra_since;
    bool is_seen_late; /* a crash was seen late: a process that missed it may have ended first */
    int64_t end_at;    /* when node 0 ended the job, 0: not yet */
    struct proc procs[MAX_ALL];
    int nall;
    uint32_t last_tag;   /* of the newest round in which a process has saved */
    uint32_t generation; /* the newest generation that has begun on some node */
    uint64_t base_step;  /* the step from which that generation began */
    uint16_t port;       /* the last port that node 0 has picked */
    struct {
        enum mark_kind kind; /* the last mark that begins a span */
        uint32_t generation;
        int64_t at; /* of node 0's clock */
        uint64_t commit;
    } mark; /* of node 0 */
    int next_conn;
    /* the disk */
    uint64_t durable[MAX_ALL][512]; /* the newest steps that each rank has saved */
    size_t ndurable[MAX_ALL];
    int64_t moved_at;   /* when a process last did something, or a notice was given or withdrawn */
    int64_t went_on_at; /* when a process that tells its steps did more than give up, or fail */
    int64_t seen_at;    /* the same, but for coming to a collective: no step shows that */
    int64_t excused_at; /* when a notice last came or went, a process got an answer, or a debugger
                           was found: the core may count a standstill from then on */
    uint64_t record;    /* the chief's commit record */
    int64_t record_at;  /* 0: not in this attempt */
    bool record_of_run; /* written in this attempt */
    int64_t written_at; /* when the newest write of it was over, CLOCK_NEVER: it is not */
    uint64_t owed_step; /* this step must be committed, 0: none */
    int64_t stop_at;    /* when the end was requested, before it was decided; 0: never */
    int stop_node;
    bool was_stopped;        /* a user requested the end, at any time */
    bool is_to_save_and_end; /* node 0 was asked to save and end the job, and has not given up */
    bool has_stepped;        /* an attached process has finished a step, in any generation */
    bool repeats;            /* the start has failed for a reason that repeats at each start */
    struct bug bug;
    int64_t repeated_at; /* when a repeated notice was given, 0: none */
    int64_t first_notice_at;
    int64_t noted_end;           /* how long node 0 says that the ends took; 0: it does not */
    int64_t saved_for_notice_at; /* when the first commit after it was made, 0: none */
    int64_t proposed_at;         /* when the newest round was opened */
    int64_t begun_at;            /* when the last process began its save */
    bool ends_run;               /* that round ends the job */
    uint64_t decided_step;       /* of the newest round that was decided */
    int64_t decided_at;
    int ndecided;
    bool may_need[PEERMSG_NEEDS]; /* what that round may need, by enum save_needs */
    bool has_killed;              /* the process or the node of kill_round */
    uint64_t owed_needs;          /* this step must be committed, though some did not outlive it */
    struct {
        uint64_t step;
        uint32_t whole; /* 1 + the rank whose save is the whole checkpoint; 0: each has a part */
    } wholes[64];       /* the newest commits */
    size_t nwholes;
    bool has_told_dirs;   /* node 0 has named the nodes with another directory */
    int64_t slowest_save; /* of all rounds: from then on until the commit */
    int64_t first_save;   /* as node 0 sees it, until the record is written; 0: none */
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
    H_DIR_SEEN,
    H_CHECKED,
    H_MEASURED,
    H_MEASURED_LATE,
    H_PREPARED,
    H_COMMITTED,
    H_CONNECTED,
    H_TO_CHIEF,
    H_TO_NODE,
    H_DOWN_NODE,  /* the member learns that its connection is closed */
    H_DOWN_CHIEF, /* the chief learns that the connection is closed */
    H_CHILD_STARTED,
    H_CHILD_DYING,
    H_CHILD_BAD,
    H_MISSED, /* the files of a process that has failed are closed */
    H_CHILD_EXITED,
    H_LEFTOVER_GONE,
    H_KILL_NODE,
    H_KILL_PROC,
    H_PROC,    /* the process's own next move */
    H_WRITTEN, /* its background save is on disk */
    H_FROM_PROC,
    H_TO_PROC,
    H_PROC_GONE,
    H_FAULT,
    H_BEGIN,   /* the supervisor of a node is started */
    H_EXTRA,   /* the supervisor of DO_RESTART or DO_TWIN is started, as node `arg` */
    H_LOOK,    /* the scheduler looks for nodes that need another supervisor */
    H_REPLACE, /* another supervisor is started for node `arg` */
    H_GHOST_START,
    H_GHOST_END,
};
#define LIFE_OVER UINT32_MAX /* of no supervisor */
struct happening {
    int64_t at;
    uint64_t seq;
    enum what what;
    int node, proc;
    uint64_t epoch, arg, arg2;
    uint32_t generation; /* of the process, with H_WRITTEN and H_TO_PROC */
    uint32_t life;       /* of the host `node` */
    void *data;          /* freed after the event */
};

void world_run(struct world *world, const struct schedule *schedule, FILE *trace);
void world_at(struct world *world, struct happening happening);
void world_event(struct world *world, int node, struct event event);
/* Puts a new supervisor into this host, which says that it is this node. */
void world_make_replacement(struct world *world, int host, int node);
/* Puts a new supervisor into this host, which stands by under this number. */
void world_make_spare(struct world *world, int host, int number);
/* The host dies, with its supervisor and processes. */
void world_kill(struct world *world, int host);
struct proc *world_proc(struct world *world, int node, int slot);
void trace(struct world *world, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void fail(struct world *world, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* shell.c */
/* `shell` is a struct seat. */
void shell_perform(void *shell, const struct action *action);

/* net.c */
/* These two perform an action. */
void net_connect(struct world *world, int node, const struct action *action);
void net_send(struct world *world, int node, const struct action *action);
void net_connected(struct world *world, const struct happening *h);
void net_close(struct world *world, int node, int conn);
void net_arrive(struct world *world, const struct happening *h);
void net_down(struct world *world, const struct happening *h);
void net_break(struct world *world, int node);
void net_host_died(struct world *world, int node);
/* The node's line fails for a while: both ways with DO_PARTITION, else one. */
void net_fail(struct world *world, const struct fault *fault);
/* True if a partition cuts the node off. */
bool net_is_cut(const struct world *world, int node);
/* Until then a message may arrive that a slow line of this node has kept, also one of a supervisor
 * that was replaced. 0: it had no slow line. */
int64_t net_late_until(const struct world *world, int node);

/* proc.c */
/* Starts the processes of the node's generation. */
void proc_start(struct world *world, int node);
/* Adds the event, with the node, number and generation of the process. */
void proc_at(struct world *world, const struct proc *p, struct happening happening);
void proc_move(struct world *world, const struct happening *h);
void proc_written(struct world *world, const struct happening *h);
void proc_told(struct world *world, const struct happening *h);
void proc_signal(struct world *world, struct proc *p, int number);
/* A scheduler sends SIGTERM to all processes of a node. */
void proc_catch(struct world *world, struct proc *p);
void proc_confess(struct world *world, struct proc *p, int64_t lingers);
/* As proc_confess(); perhaps the process has a bug, and fails so again at this step. */
void proc_fail(struct world *world, struct proc *p, int64_t lingers);
/* A node is lost that every process exchanges results with. */
void proc_miss(struct world *world, struct proc *p);
void proc_hang(struct world *world, struct proc *p);
void proc_die(struct world *world, struct proc *p, int status);
bool proc_is_alive(const struct proc *p);
/* The process does nothing before that time. */
int64_t proc_rests_until(const struct proc *p);

/* check.c */
void check_save(struct world *world, const struct proc *p, uint32_t tag, uint64_t step);
void check_step(struct world *world, const struct proc *p);
/* Called at each finished step. Too much training since the last commit is a failure. */
void check_period(struct world *world, const struct proc *p);
void check_durable(struct world *world, const struct proc *p, uint64_t step);
bool is_durable(const struct world *world, int proc, uint64_t step);
void check_commit(struct world *world, const struct action *action);
void check_held(struct world *world, uint64_t step);
/* Called when a node starts its processes, and gives them this port. */
void check_port(struct world *world, int node, uint16_t port);
/* Called when a generation is about to begin on a node. */
void check_generation(struct world *world, int node, uint32_t generation, uint64_t step);
/* Called when a node learns of a commit. */
void check_committed(struct world *world, int node, const struct action *action);
void check_signal(struct world *world, int node, enum signal_target target);
void check_leftover(struct world *world, int node);
void check_begin(struct world *world, int node);
void check_replaced(struct world *world, int node);
/* Called when a process looks at a gate that it has served. */
void check_gate(struct world *world, const struct proc *p, uint64_t word);
/* Called when a supervisor is about to learn that a command has failed. */
void check_failed(struct world *world, const struct proc *p);
/* Called just after the supervisor has learned that the process is dying. */
void check_dying(struct world *world, const struct proc *proc, const struct core_report *before);
/* The report of node 0 may have changed. */
void check_cause(struct world *world, const struct core_report *report);
/* Called when node 0 learns of a failure. */
void check_told(struct world *world, int node, const struct peermsg *msg);
/* The earliest of these deadlines; CLOCK_NEVER if there is none. */
int64_t check_earliest(const int64_t deadlines[MAX_NOTICES]);
bool check_holds_notice(const struct host *host);
/* Three starts, as short as node 0 can have measured them; at most the grace. */
int64_t check_least_plan(const struct world *w);
/* Since when a notice that holds on the node is near; CLOCK_NEVER: none holds. `plan`: how long
 * before its deadline one is near that came before the first step. `is_judged`: node 0 knows by now
 * whether the notice came before the first step. */
int64_t check_near_at(const struct world *w, const struct host *host, int64_t plan, bool is_judged);
/* As check_near_at(), for all nodes: the earliest time. */
int64_t check_nearest_at(const struct world *w, int64_t plan);
/* Called when node 0 has just ended the job. */
void check_ending(struct world *world);
/* Node 0 names the nodes with another directory: once, and only if there is one. */
void check_dirs_told(struct world *world, int node);
/* Used by several files of checks. */
/* When the first process finished its first step; CLOCK_NEVER: none has. */
int64_t first_stepped_at(const struct world *w);
/* A round may begin just before the notice. The steps in its votes are then that much older. */
bool had_stepped_in_votes(const struct world *w);
bool had_stepped_before_notice(const struct world *w);
bool any_is(const struct world *w, bool (*is)(const struct world *w, const struct proc *p));
bool any_is_done(const struct world *w);
bool any_ended_in_silence(const struct world *w);
bool any_has_failed(const struct world *w);
/* Some node has sent SIGKILL to its processes. */
bool any_was_killed(const struct world *w);
/* How long all supervisors together may have stood still. */
int64_t standstill(const struct world *w);
/* needs.c */
void needs_draw(struct schedule *schedule);
void needs_print(const struct schedule *schedule, FILE *out);
/* The flags by which this process attaches now, for what it declares. */
uint32_t needs_flags(const struct world *w, const struct proc *p);
/* Its supervisor learns that. */
void needs_attached(struct world *w, struct proc *p, uint32_t flags);
/* Node 0 logs this; it may be the decision of a round. */
void needs_decided(struct world *w, const char *text);
/* A process begins its save in the round. */
void needs_begun(struct world *w, struct proc *p, uint64_t step);
/* 1 + the rank whose save is all of this commit; 0: each rank has a part. */
uint32_t needs_whole(const struct world *w, uint64_t step);
void needs_note_commit(struct world *w, uint64_t step, uint32_t whole);
void needs_check_commit(struct world *w, uint64_t step, uint32_t whole);
void needs_check_end(struct world *w);
/* health.c */
void health_draw(struct schedule *schedule);
void health_print(const struct schedule *schedule, FILE *out);
/* A node has its health checked. */
void health_check(struct world *w, int node);
void health_checked(struct world *w, const struct happening *h);
/* Called when a node starts its processes. */
void health_check_start(struct world *w, int node, uint32_t generation);
/* Node 0 records that a host was not healthy, or says that it goes on without its node. */
void health_struck(struct world *w, int node);
void health_lost(struct world *w);
/* Called when a node exits. */
void health_check_exit(struct world *w, int node);
/* network.c */
void network_draw(struct schedule *schedule);
void network_print(const struct schedule *schedule, FILE *out);
void network_measure(struct world *w, int node, const struct action *action);
void network_measured(struct world *w, const struct happening *h);
/* A measurement has had its time. */
void network_check_late(struct world *w, const struct happening *h);
/* Called when a node starts its processes. */
void network_check_start(struct world *w, int node);
/* Called when node 0 logs a result. */
void network_check_result(struct world *w);
/* check_cause.c */
void check_first(struct world *w);
void check_all_told(struct world *w);
void check_same_cause(struct world *w);
/* check_mark.c */
/* Called when node 0 marks what the job does. */
void check_mark(struct world *w, const struct action *a);
/* Called when node 0 exits. */
void check_last_mark(struct world *w);
/* lease.c */
void lease_draw(struct schedule *schedule);
/* Called when a message comes to a node. */
void lease_heard(struct world *w, int node, const struct peermsg *msg);
/* Called when node 0 sends an answer over this node's line. */
void lease_answer(struct world *w, int node);
/* Called when a node is about to start processes. */
void lease_check_start(struct world *w, int node);
/* Called at each finished step. A node trains no longer than its lease and the killing allow. */
void lease_check(struct world *w, const struct proc *p);
/* replace.c */
void replace_draw(struct schedule *schedule);
void replace_print(const struct schedule *schedule, FILE *out);
void replace_look(struct world *w, const struct happening *h);
void replace_begin(struct world *w, const struct happening *h);
/* The process of a supervisor whose commands cannot be executed is to start. */
void replace_start_badly(struct world *w, struct proc *p);
void replace_ghost_started(struct world *w, const struct happening *h);
void replace_ghost_end(struct world *w, const struct happening *h);
/* These two perform an action of a ghost. */
void replace_signal(struct world *w, int ghost, int number);
void replace_ghost_starts(struct world *w, int ghost);
/* Called when a node starts its processes. */
void replace_check_start(struct world *w, int node, uint32_t generation);
void replace_check_wait(struct world *w);
void replace_check_exit(struct world *w, int ghost);
void replace_check_taken(struct world *w);
void replace_check_end(struct world *w);
/* Called when node 0 sends an order over this line. */
void replace_check_answer(struct world *w, int line, const struct peermsg *msg);
/* A new supervisor has taken the node's place: that of the host is now the node's, and the old one
 * becomes a ghost there. */
void replace_take_seat(struct world *w, int host);
/* spares.c */
void spares_draw(struct schedule *schedule);
void spares_print(const struct schedule *schedule, FILE *out);
void spares_begin(struct world *w);
/* A spare is the host's supervisor, or may become so. */
bool spares_has(const struct world *w, int host);
/* The node begins late, and another supervisor may have its place: that happens apart. */
bool spares_begin_late(struct world *w, int node);
/* A new supervisor begins in this host, and says that it is this node. */
void spares_claim(struct world *w, int host, int node);
/* These perform an action of a spare. */
void spares_take(struct world *w, int host, const struct action *a);
void spares_exit(struct world *w, int host, const struct action *a);
/* The spare has had an event: it may have taken its place. */
void spares_settle(struct world *w, int host);
/* Node 0 sends this over the line of a host; returns whose line it is from now on. */
int spares_sent(struct world *w, int host, const struct peermsg *msg);
/* A message comes to a host. True: it has been taken. */
bool spares_heard(struct world *w, int host, const struct peermsg *msg);
/* Node 0 logs this. */
void spares_logged(struct world *w, const char *text);
/* Called when node 0 exits. */
void spares_check_end(struct world *w);
/* Called after each event of node 0. */
void spares_check_wait(struct world *w);
/* check_done.c */
void check_done(struct world *w);
/* check_standing.c */
void check_slowed(struct world *w);
/* Call when that node has read the steps. */
void check_slow(struct world *w, int node);
void check_loading(struct world *w, int node);
void check_loaded(struct world *w, int node, const struct event *event);
void check_far(struct world *w);
void check_stalled(struct world *w);
void check_use(struct world *w);
void check_lone(struct world *w);
void check_long_saved(struct world *w);
/* Called when a node sends SIGKILL to its processes. */
void check_kill(struct world *w, int node);
/* Called when node 0 records how long the ends took. */
void check_noted_end(struct world *w, int64_t end_ns);
void check_standing(struct world *w);
/* A node has said that the job failed. */
void check_gave_up(struct world *w, int node);
void check_gave_up_last(struct world *w);
void check_unattached(struct world *w);
void check_repeated(struct world *w);
void check_count(struct world *w);
void check_saved_end(struct world *w);
void check_signalled(struct world *w);
void check_exit(struct world *world, int node);
/* Called when the supervisor of DO_RESTART or DO_TWIN exits. */
void check_extra(struct world *world);
/* Called just before the nodes that still run are told to stop. */
void check_horizon(struct world *world);
void check_end(struct world *world);
