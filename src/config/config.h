/* SPDX-License-Identifier: Apache-2.0
 *
 * config: the configuration, from flags, environment, file, a preset and defaults.
 *
 * One table (options.c) drives the flags, the environment, the JSON file, --help, --print-config
 * and the JSON schema. Every key a.b_c is also --a-b-c and PCHRUN_A_B_C;
 * precedence: flag, environment, file, preset, default. Unknown keys are errors that name the
 * nearest known one. A struct config owns its strings: config_free(). Main thread, before anything
 * is started.
 */
#pragma once

#include "base/args.h"
#include "base/policy.h"
#include "discover/discover.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define CONFIG_FILE_MAX        (1024 * 1024)
#define CONFIG_NODES_MAX       16384
#define CONFIG_PROCS_MAX       256
#define CONFIG_NOTICES_MAX     16
#define CONFIG_EVERY_MAX       1000000000 /* steps */
#define CONFIG_NOTICE_NAME_MAX 31         /* bytes */

enum config_cpus { CONFIG_CPUS_NONE, CONFIG_CPUS_SPREAD };
enum config_cgroup { CONFIG_CGROUP_AUTO, CONFIG_CGROUP_OFF };
enum config_shrink { CONFIG_SHRINK_REFUSE, CONFIG_SHRINK_ALLOW };

/* The presets, in the order of the manual; see presets.h. */
enum preset {
    PRESET_AUTO,
    PRESET_NONE,
    PRESET_SLURM,
    PRESET_KUBERNETES,
    PRESET_KUBEFLOW,
    PRESET_SGE,
    PRESET_GCE,
    PRESET_GCE_GPU,
    PRESET_GCE_SPOT,
    PRESET_TENSORFLOW_GCE,
    PRESET_AWS,
    PRESET_AZURE,
    PRESET_ALIBABA,
    PRESET_TENCENT,
    PRESET_UNRELIABLE, /* no platform: added to any */
    PRESET__COUNT
};

/* The presets' names; ends with NULL. */
extern const char *const preset_names[];

#define PLATFORM_WHY_MAX 256

struct platform {
    enum preset preset;         /* PRESET_NONE: nothing was found */
    char why[PLATFORM_WHY_MAX]; /* the evidence, or what was searched */
};

#define CONFIG_SIGNALS 65 /* above the highest signal number */

/* signals.NAME: "preempt", or {"do": "preempt", "grace": "240s"}; if not given: forward. */
struct config_signal {
    bool is_given;
    enum signal_rule rule;
    int64_t grace_ns; /* -1: the general grace */
};

/* checkpoint.every: steps, a time or auto; none of them: never */
struct config_every {
    int64_t steps, ns;
    bool is_auto;
};

/* notices: the sources that announce the end of this node */
enum config_notice_kind {
    CONFIG_NOTICE_AUTO, /* the sources of the platform */
    CONFIG_NOTICE_GCE,
    CONFIG_NOTICE_AWS,
    CONFIG_NOTICE_AZURE,
    CONFIG_NOTICE_ALIBABA,
    CONFIG_NOTICE_TENCENT,
    CONFIG_NOTICE_POD,
    CONFIG_NOTICE_SLURM,
    CONFIG_NOTICE_FILE, /* with a path */
    CONFIG_NOTICE_KUBERNETES,
    CONFIG_NOTICE_COMMAND, /* with a program and its arguments */
    CONFIG_NOTICE_POLL,
    CONFIG_NOTICE__COUNT
};

struct config_notice {
    enum config_notice_kind kind;
    char *name;  /* for people; unique */
    char **args; /* an absolute path, or a program and its arguments; ends with NULL */
    int64_t interval_ns, timeout_ns; /* with CONFIG_NOTICE_POLL */
    bool is_chosen;                  /* by pchrun, for CONFIG_NOTICE_AUTO: it may be missing */
};

struct config {
    /* Lists of strings end with NULL and are never NULL themselves. All times in nanoseconds. */
    char *job;           /* if the user gave none: see discover_job_name() */
    int restarts;        /* discover_restarts(); 0 below another pchrun, whose job that is */
    int64_t job_start_s; /* discover_job_start(); 0 below another pchrun */
    bool instrument;     /* Python programs attach without a change */
    unsigned preset;     /* a bit for each enum preset that is named */
    struct {
        int discovery; /* enum discover_from */
        char **nodes;  /* "host" or "host:port", node 0 first; empty: one node */
        char *chief;   /* replaces `nodes`: the address of node 0; NULL: none */
        int nnodes;    /* that train: those that are started, without the spares */
        int node_rank; /* -1: find this machine in `nodes`; 0 if nnodes is 1; from nnodes on: a
                        * spare */
        int port;
        char *bind;     /* NULL: node 0's own entry */
        char *key_file; /* NULL: none, and only loopback addresses unless `insecure` */
        bool insecure;
        int64_t join_timeout_ns, heartbeat_interval_ns, heartbeat_timeout_ns;
        int64_t replace_wait_ns; /* 0: a lost node ends the job */
        int replace_max;         /* for so many lost nodes the job waits within an hour */
        int spares;              /* nodes that stand by */
    } cluster;
    struct {
        int count;         /* -n, --nproc-per-node: commands to start, default 1 */
        bool count_is_set; /* the user gave it: commands get RANK and the like */
        int per_node;      /* processes that will attach, -1: unknown */
        bool new_session;  /* setsid instead of setpgid */
        bool close_fds;    /* close inherited descriptors >= 3 in the commands */
        bool signal_group; /* a signal for a command goes to its whole process group */
        enum config_cpus cpus;
    } procs;
    struct {
        char *dir;   /* NULL: none */
        bool shared; /* true: every node sees the same directory */
        struct config_every every;
        int keep_records;
        int64_t lock_wait_ns;
    } checkpoint;
    struct {
        enum config_shrink shrink;
    } record;
    struct config_signal signals[CONFIG_SIGNALS]; /* by number */
    int64_t grace_ns;
    struct config_notice notices[CONFIG_NOTICES_MAX];
    size_t nnotices;
    int notices_repeat; /* attempts that one notice may end; 0: any number */
    struct {
        enum save_mode mode;
        int signal;
        enum save_needs needs;
        enum train_on train_on;
    } save;
    struct {
        enum watchdog_mode mode;
        int64_t start_ns, train_ns, eval_ns, compile_ns, save_ns, end_ns,
            silence_ns; /* 0: no limit */
        int factor;
        char *log, *log_failure; /* POSIX extended regular expressions; NULL: none */
        char **diagnose;         /* a program and its arguments, ended by NULL; NULL: none */
        int64_t diagnose_wait_ns;
    } watchdog;
    struct {
        int64_t exit_wait_ns, term_wait_ns, kill_wait_ns;
        enum leftovers leftovers;
        enum config_cgroup cgroup;
    } stop;
    struct {
        bool disk, gpu, net;
        char **check; /* a program and its arguments, ended by NULL; NULL: none */
        int64_t timeout_ns;
        bool strict;
    } health;
    struct restart_policy restart; /* without is_fatal */
    char **fatal_codes;            /* restart.fatal_codes, as in base/value.h */
    struct {
        struct exit_codes codes;
        int no_progress_after; /* attempts in a row; 0: never */
        bool reraise;          /* die of the command's signal instead of exiting with 128 + n */
        char **hook;           /* a program and its arguments, ended by NULL; NULL: none */
        int64_t hook_wait_ns;
    } exit;
    char *report;          /* path that may hold {state_dir} and {node_rank}; NULL: none */
    char *termination_log; /* NULL: none */
    struct {
        char *file; /* as `report` */
    } events;
    struct {
        char *file; /* as `report` */
        int64_t interval_ns;
        bool trainjob;
    } metrics;
    char *run_dir;   /* NULL: find one */
    char *state_dir; /* NULL: <checkpoint.dir>/.pchrun, or none */
    struct {
        int level;  /* enum log_level */
        int format; /* enum log_format */
    } log;
    struct {
        char *dir; /* for the commands' output; NULL: pchrun does not touch it */
        bool tee, prefix;
        int64_t max_size; /* bytes; 0: no limit */
        int keep, lines;
    } logs;
    int64_t drill_ns; /* --drill; 0: none */
    bool is_doctor;   /* --doctor: check, and start no command */
    char **command;   /* the command to run: points into argv */

    bool is_unnamed; /* the user gave no `job` */

    struct platform platform; /* the preset that applies, and "detected: ..." or "named by ..." */
    struct discovery found;   /* by cluster.discovery */

    struct config_origin *origins; /* where each value came from, by option (values.h) */
    char *
        *relatives; /* the file's relative paths: each as written, and then absolute; may be NULL */
};

/* Reads all sources; argv and env end with NULL. Makes paths absolute. `out` gets what --help and
 * its like print. On ARGS_RUN the caller owns *ret, and ret->command is not empty; otherwise *ret
 * is unchanged. */
MUST_CHECK enum args_end config_load(char **argv, char **env, FILE *out, struct config *ret,
                                     struct err *err);
void config_free(struct config *config);
/* How nodes, and starts that share a record, know their job: by its name if the user gave one. A
 * name that was derived may differ between them. */
const char *config_job_identity(const struct config *config);
/* This node stands by, to take the place of a lost node. Call when the node rank is known. */
static inline bool config_is_spare(const struct config *config)
{
    return config->cluster.node_rank >= config->cluster.nnodes;
}
/* If an error names a path that is relative in the file, adds how it is written there. */
void config_explain(const struct config *config, char *text, size_t size);
/* How much time this signal leaves; -1: the signal is not a notice. */
int64_t config_grace(const struct config *config, int number);
/* The least time that a configured notice leaves. */
int64_t config_least_grace(const struct config *config);
/* True if the time that this signal leaves is only assumed; number 0: of a notice without a
 * deadline.
 */
bool config_is_guess(const struct config *config, int number);
/* The settings that must be equal on all nodes ("name=value\n"…). False: `size` is too small. */
MUST_CHECK bool config_binding(const struct config *config, char *text, size_t size);
/* The user's state_dir, or <checkpoint.dir>/.pchrun; *ret NULL: the job has none. The caller frees
 * *ret. Any thread may call this and paths_expand(). */
MUST_CHECK bool paths_state_dir(const struct config *config, char **ret, struct err *err);
/* Expands the template of a path (config->report and similar); the node rank must be known. *ret
 * NULL: no template, or it needs a state_dir and there is none. The caller frees *ret. */
MUST_CHECK bool paths_expand(const struct config *config, const char *template,
                             const char *state_dir, char **ret, struct err *err);
