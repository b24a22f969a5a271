/* SPDX-License-Identifier: Apache-2.0
 * See options.h.
 *
 * To add an option: a field in config.h, a row in options[], and a text in pchrun.json(5).
 * Everything else (flag, variable, file, help, schema) follows from the row.
 */
#include "config/options.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "config/config.h"
#include "config/text.h"
#include "discover/discover.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define HOUR (3600 * NS_PER_S)
#define DAY  (24 * HOUR)

/* Each macro begins a row. An option's field in struct config has the name of its key; the field of
 * a duration has _ns at its end. */
#define FIELD(f)       .offset = offsetof(struct config, f)
#define NAMED(f)       .key = #f, FIELD(f)
#define BOOL(f, value) NAMED(f), .type = OPTION_BOOL, .fallback = (value)
#define INT(f, value, least, most) \
    NAMED(f), .type = OPTION_INT, .fallback = (value), .min = (least), .max = (most)
#define DURATION(f, value, least, most)                                                     \
    .key = #f, FIELD(f##_ns), .type = OPTION_DURATION, .fallback = (value), .min = (least), \
    .max = (most)
#define CHOICE(f, value, words) \
    NAMED(f), .type = OPTION_CHOICE, .fallback = (value), .choices = (words)
#define PATH(f, value, what)                                                                       \
    NAMED(f), .type = OPTION_PATH, .is_nullable = true, .fallback = (value), .max = TEXT_PATH_MAX, \
              .metavar = (what)
#define TEMPLATE(f, value)                                                       \
    NAMED(f), .type = OPTION_TEMPLATE, .is_nullable = true, .fallback = (value), \
              .max = TEXT_PATH_MAX, .metavar = "FILE"
#define COMMAND(f) NAMED(f), .type = OPTION_COMMAND, .is_nullable = true
#define ADDRESS(f) \
    NAMED(f), .type = OPTION_TEXT, .is_nullable = true, .max = 300, .metavar = "HOST[:PORT]"
#define PATTERN(f) \
    NAMED(f), .type = OPTION_TEXT, .is_nullable = true, .max = 500, .metavar = "REGEX"
#define EXIT_CODE(name, code)                                                             \
    .key = "exit." #name, .type = OPTION_INT, .is_binding = true, FIELD(exit.codes.name), \
    .fallback = (code), .min = 1, .max = 255, .metavar = "CODE"

static const char *const save_modes[] = {
    [SAVE_ATTACH] = "attach", [SAVE_SIGNAL] = "signal", [SAVE_FORWARD] = "forward", NULL};
static const char *const needs_names[] = {
    [NEEDS_ALL] = "all", [NEEDS_RANK0] = "rank0", [NEEDS_ANY] = "any", [NEEDS_AUTO] = "auto", NULL};
static const char *const cpus_names[] = {
    [CONFIG_CPUS_NONE] = "none", [CONFIG_CPUS_SPREAD] = "spread", NULL};
static const char *const cgroup_names[] = {
    [CONFIG_CGROUP_AUTO] = "auto", [CONFIG_CGROUP_OFF] = "off", NULL};
static const char *const leftovers_names[] = {
    [LEFTOVERS_KILL] = "kill", [LEFTOVERS_LEAVE] = "leave", NULL};
static const char *const shrink_names[] = {
    [CONFIG_SHRINK_REFUSE] = "refuse", [CONFIG_SHRINK_ALLOW] = "allow", NULL};
static const char *const watchdog_modes[] = {
    [WATCHDOG_OFF] = "off", [WATCHDOG_LOG] = "log", [WATCHDOG_ON] = "on", NULL};

/* In the order of --help and the manual. */
/* clang-format off */
const struct option options[] = {
{
    NAMED(job),
    .type = OPTION_TEXT,
    .is_nullable = true,
    .max = 63,
    .metavar = "NAME",
    .help = "the job's name, the same on every node",
},
{
    BOOL(instrument, "false"),
    .is_usual = true,
    .help = "let unchanged Python programs take part",
},
{
    NAMED(preset),
    .is_usual = true,
    .type = OPTION_CHOICES,
    .fallback = "auto",
    .choices = preset_names,
    .metavar = "NAME,...",
    .help = "the platform: auto, none or a name; unreliable: machines that fail often",
},
{
    DURATION(grace, "25s", 0, 7 * DAY),
    .is_usual = true,
    .help = "time from a preemption signal to the end",
},
{
    NAMED(signals),
    .type = OPTION_SIGNALS,
    .fallback = "TERM=preempt",
    .metavar = "NAME=DO[:GRACE],...",
    .help = "what signals sent to pchrun mean: preempt, checkpoint, forward or ignore",
},
{
    NAMED(notices),
    .type = OPTION_NOTICES,
    .fallback = "auto",
    .max = CONFIG_NOTICES_MAX,
    .metavar = "SOURCE[:PATH],...",
    .help = "what warns of the end: auto, none, gce, aws, azure, alibaba, tencent, pod, slurm, or "
            "file, kubernetes, command and poll with a path",
},
{
    INT(notices_repeat, "2", 0, 1000000),
    .help = "how many attempts one notice may end, 0: no limit",
},
{
    TEMPLATE(report, "{state_dir}/report.{node_rank}.json"),
    .help = "where to keep the report of what happened",
},
{
    PATH(run_dir, NULL, "DIR"),
    .help = "where sockets live while the job runs",
},
{
    PATH(state_dir, NULL, "DIR"),
    .help = "where the commit record lives; must outlive the node",
},
{
    PATH(termination_log, "/dev/termination-log", "FILE"),
    .help = "where Kubernetes looks for the last line",
},
{
    CHOICE(cluster.discovery, "auto", discover_names),
    .metavar = "SOURCE",
    .help = "find the nodes by the scheduler's variables: auto, none, or a source's name",
},
{
    NAMED(cluster.nodes),
    .is_usual = true,
    .type = OPTION_LIST,
    .fallback = "",
    .max = CONFIG_NODES_MAX,
    .metavar = "HOST[:PORT],...",
    .help = "every node's address, node 0 first",
},
{
    ADDRESS(cluster.chief),
    .help = "the address of node 0, in place of the list of all nodes",
},
{
    INT(cluster.nnodes, "1", 1, CONFIG_NODES_MAX),
    .also = "nnodes",
    .advice = "the number of nodes is fixed: write one number",
    .help = "how many nodes the job has, with its spares",
},
{
    INT(cluster.node_rank, NULL, 0, CONFIG_NODES_MAX - 1),
    .is_nullable = true,
    .also = "node-rank",
    .help = "which node this is, from 0",
},
{
    INT(cluster.port, "14242", 1, 65535),
    .metavar = "PORT",
    .help = "where node 0 listens, if its address names no port",
},
{
    ADDRESS(cluster.bind),
    .help = "listen here on node 0 [its own entry]",
},
{
    PATH(cluster.key_file, NULL, "FILE"),
    .is_usual = true,
    .help = "the key that the nodes share",
},
{
    BOOL(cluster.insecure, "false"),
    .help = "allow other addresses than loopback without a key",
},
{
    DURATION(cluster.join_timeout, "10m", NS_PER_MS, 7 * DAY),
    .help = "wait this long for all nodes at the start",
},
{
    DURATION(cluster.heartbeat_interval, "1s", 10 * NS_PER_MS, HOUR),
    .is_binding = true,
    .help = "how often nodes send each other a heartbeat",
},
{
    DURATION(cluster.heartbeat_timeout, "15s", 20 * NS_PER_MS, DAY),
    .is_binding = true,
    .help = "a node that sends nothing for this long is lost",
},
{
    DURATION(cluster.replace_wait, "0s", 0, 7 * DAY),
    .is_binding = true,
    .help = "wait this long for the replacement of a lost node, 0: the job ends",
},
{
    INT(cluster.replace_max, "10", 0, REPLACES_MAX),
    .is_binding = true,
    .help = "how often in an hour the job waits for one",
},
{
    INT(cluster.spares, "0", 0, SPARES_MAX),
    .is_binding = true,
    .help = "how many of the nodes stand by, to replace a lost one",
},
{
    INT(procs.count, NULL, 1, CONFIG_PROCS_MAX),
    .is_usual = true,
    .is_nullable = true,
    .is_binding = true,
    .letter = 'n',
    .also = "nproc-per-node",
    .advice = "write how many ranks this node has, as in -n 8 (pchrun counts no devices)",
    .help = "start the command this many times [1]",
},
{
    INT(procs.per_node, NULL, 0, CONFIG_PROCS_MAX),
    .is_nullable = true,
    .help = "how many processes will attach on each node",
},
{
    BOOL(procs.new_session, "false"),
    .help = "start the command in a session of its own",
},
{
    BOOL(procs.close_fds, "false"),
    .help = "close inherited descriptors from 3 on in the command",
},
{
    BOOL(procs.signal_group, "false"),
    .letter = 'g',
    .help = "forward signals to the command's whole process group",
},
{
    CHOICE(procs.cpus, "none", cpus_names),
    .metavar = "HOW",
    .help = "which processors each command runs on: none, spread",
},
{
    PATH(checkpoint.dir, NULL, "DIR"),
    .is_usual = true,
    .help = "where the program keeps its checkpoints",
},
{
    BOOL(checkpoint.shared, "true"),
    .is_binding = true,
    .help = "every node sees the same state directory",
},
{
    NAMED(checkpoint.every),
    .is_usual = true,
    .type = OPTION_EVERY,
    .is_nullable = true,
    .is_binding = true,
    .min = NS_PER_S / 100,
    .max = 366 * DAY,
    .help = "save without a notice after this many steps, or this time; auto: the time that costs "
            "the least",
},
{
    INT(checkpoint.keep_records, "8", 1, 10000),
    .help = "how many commit records to keep",
},
{
    DURATION(checkpoint.lock_wait, "100s", 0, DAY),
    .help = "how long to wait for an older pchrun of the job",
},
{
    CHOICE(record.shrink, "refuse", shrink_names),
    .help = "a start with fewer ranks than saved, each to its own path: refuse or allow",
},
{
    CHOICE(save.mode, "attach", save_modes),
    .is_binding = true,
    .help = "how a program is asked to save: attach, signal or forward",
},
{
    NAMED(save.signal),
    .type = OPTION_SIGNAL,
    .fallback = "USR1",
    .help = "the signal that asks a rank to save, with save.mode signal",
},
{
    CHOICE(save.needs, "auto", needs_names),
    .is_binding = true,
    .help = "whose saves make a checkpoint: all, rank0 or any; auto: as the program declares",
},
{
    NAMED(save.train_on),
    .type = OPTION_SWITCH,
    .fallback = "auto",
    .help = "after a notice save at once, train on, and save again in time; auto: if the deadline "
            "is known",
},
{
    BOOL(health.disk, "false"),
    .help = "check the checkpoint directory, too",
},
{
    BOOL(health.gpu, "false"),
    .help = "check NVIDIA's GPUs by NVML and the kernel log, too",
},
{
    BOOL(health.net, "false"),
    .help = "node 0: measure the network from each node to the next, before each start",
},
{
    COMMAND(health.check),
    .help = "a program that says whether this node may train, before each start",
},
{
    DURATION(health.timeout, "30s", NS_PER_MS, HOUR),
    .help = "time for one health check",
},
{
    BOOL(health.strict, "false"),
    .help = "a check that fails or gives no answer counts as not healthy",
},
{
    INT(restart.max, "0", 0, RESTARTS_MAX),
    .is_usual = true,
    .is_binding = true,
    .help = "restart a failed job in place, this often within restart.window",
},
{
    DURATION(restart.window, "1h", 0, 365 * DAY),
    .help = "only restarts within this time count, 0: all count",
},
{
    INT(restart.start_max, "2", 0, 1000),
    .help = "restarts in a row of a job that fails before it trains",
},
{
    DURATION(restart.startup, "1m", 0, DAY),
    .help = "how long the start may take, if no process reports its steps",
},
{
    DURATION(restart.backoff, "1s", 0, HOUR),
    .help = "pause before the second restart; it doubles from one to the next",
},
{
    DURATION(restart.backoff_max, "1m", 0, HOUR),
    .help = "the longest pause",
},
{
    .key = "restart.no_progress_after",
    .type = OPTION_INT,
    FIELD(restart.no_progress),
    .fallback = "3",
    .min = 0,
    .max = 1000000,
    .help = "no restart after this many generations without a new commit, 0: no limit",
},
{
    .key = "restart.fatal_codes",
    .type = OPTION_CODES,
    FIELD(fatal_codes),
    .fallback = "",
    .max = 255,
    .metavar = "CODE[-CODE],...",
    .help = "exit codes after which there is no restart",
},
{
    BOOL(restart.after_notice, "false"),
    .is_binding = true,
    .help = "go on in place after a notice, if the machine is only moved",
},
{
    CHOICE(watchdog.mode, "on", watchdog_modes),
    .is_binding = true,
    .help = "what to do about a job that hangs: off, log or on",
},
{
    DURATION(watchdog.start, "1h", 0, 30 * DAY),
    .help = "time until a rank has finished its first step, 0: no limit",
},
{
    DURATION(watchdog.train, "30m", 0, 30 * DAY),
    .help = "time for one step, at the least, 0: no limit",
},
{
    DURATION(watchdog.eval, "2h", 0, 30 * DAY),
    .help = "time for an evaluation that is announced, 0: no limit",
},
{
    DURATION(watchdog.compile, "2h", 0, 30 * DAY),
    .help = "time for a compilation that is announced, 0: no limit",
},
{
    DURATION(watchdog.save, "1h", 0, 30 * DAY),
    .help = "time for a save, 0: no limit",
},
{
    DURATION(watchdog.end, "10m", 0, 30 * DAY),
    .help = "time to end when every rank is done, 0: no limit",
},
{
    INT(watchdog.factor, "5", 1, 1000),
    .help = "a pause of this many times the longest pause so far is a hang",
},
{
    DURATION(watchdog.silence, "0s", 0, 30 * DAY),
    .help = "time without output of commands that do not attach, 0: no limit",
},
{
    PATTERN(watchdog.log),
    .help = "read the step of commands that do not attach from lines that they print: "
            "'step ([0-9]+)'",
},
{
    PATTERN(watchdog.log_failure),
    .help = "a command that prints a line like this has failed: 'loss: nan'",
},
{
    COMMAND(watchdog.diagnose),
    .help = "a program to run for each rank's process before pchrun ends a job that hangs",
},
{
    DURATION(watchdog.diagnose_wait, "30s", NS_PER_MS, HOUR),
    .help = "time of watchdog.diagnose for all processes of a node",
},
{
    DURATION(stop.exit_wait, "10s", 0, DAY),
    .help = "time to end by itself after the last save",
},
{
    DURATION(stop.term_wait, "10s", 0, DAY),
    .help = "time from SIGTERM to SIGKILL",
},
{
    DURATION(stop.kill_wait, "5s", NS_PER_MS, DAY),
    .help = "time from SIGKILL until pchrun gives up waiting",
},
{
    CHOICE(stop.leftovers, "kill", leftovers_names),
    .help = "processes that outlive the command: kill or leave",
},
{
    CHOICE(stop.cgroup, "auto", cgroup_names),
    .help = "a control group for the commands, to kill them by: auto or off",
},
{
    EXIT_CODE(preempted, "42"),
    .help = "preempted, and saved",
},
{
    EXIT_CODE(preempted_unsaved, "42"),
    .help = "preempted, and not saved in time",
},
{
    EXIT_CODE(node_lost, "42"),
    .help = "another node was lost",
},
{
    EXIT_CODE(hang, "42"),
    .help = "the job was found to hang",
},
{
    EXIT_CODE(no_progress, "43"),
    .help = "too many attempts without a new commit",
},
{
    INT(exit.no_progress_after, "3", 0, 1000000),
    .is_binding = true,
    .help = "how many attempts are too many, 0: no limit",
},
{
    EXIT_CODE(unhealthy, "45"),
    .help = "this node is not healthy (health.check)",
},
{
    EXIT_CODE(stopped, "44"),
    .help = "a user stopped the job (pchctl stop)",
},
{
    .key = "exit.done_killed",
    .type = OPTION_INT,
    .is_binding = true,
    FIELD(exit.codes.done_killed),
    .fallback = "0",
    .max = 255,
    .metavar = "CODE",
    .help = "completed, but ranks had to be killed after they were done",
},
{
    BOOL(exit.reraise, "false"),
    .help = "end by the command's signal instead of exiting with 128 + n",
},
{
    COMMAND(exit.hook),
    .help = "a program that each node runs after a preemption, before it exits",
},
{
    DURATION(exit.hook_wait, "10s", NS_PER_MS, HOUR),
    .help = "time for the program of exit.hook",
},
{
    TEMPLATE(events.file, "{state_dir}/events.{node_rank}.jsonl"),
    .help = "where to keep the journal of events",
},
{
    TEMPLATE(metrics.file, NULL),
    .help = "where to keep metrics for Prometheus",
},
{
    DURATION(metrics.interval, "15s", 100 * NS_PER_MS, HOUR),
    .help = "how often the metrics are written",
},
{
    BOOL(metrics.trainjob, "false"),
    .help = "node 0 posts its progress to the TrainJob",
},
{
    CHOICE(log.level, "info", log_level_names),
    .help = "how much to log: error, warning, notice, info or debug",
},
{
    CHOICE(log.format, "text", log_format_names),
    .help = "lines for people (text), or JSON objects (json)",
},
{
    PATH(logs.dir, NULL, "DIR"),
    .is_usual = true,
    .help = "keep what the commands print, in files of this directory",
},
{
    BOOL(logs.tee, "true"),
    .help = "also pass the output on to pchrun's own output",
},
{
    BOOL(logs.prefix, "false"),
    .help = "begin each line that is passed on with its rank",
},
{
    NAMED(logs.max_size),
    .type = OPTION_SIZE,
    .fallback = "64M",
    .min = 0,
    .max = INT64_C(1) << 50,
    .help = "begin a new file when one has reached this size, 0: never",
},
{
    INT(logs.keep, "4", 0, 1000),
    .help = "how many older files to keep beside each",
},
{
    INT(logs.lines, "20", 0, 1000),
    .help = "how many lines of each output to put into the report",
},
};
/* clang-format on */
const size_t options_count = ARRAY_LEN(options);

const struct option_group option_groups[] = {
    {"", "Job"},
    {"cluster", "Cluster"},
    {"procs", "Processes"},
    {"checkpoint", "Checkpoints"},
    {"record", "Record"},
    {"save", "Saving"},
    {"health", "Health"},
    {"restart", "Restarts in place"},
    {"watchdog", "Hangs"},
    {"stop", "Stopping"},
    {"exit", "Exit codes"},
    {"events", "Events"},
    {"metrics", "Metrics"},
    {"log", "Log"},
    {"logs", "Output of the commands"},
};
const size_t option_groups_count = ARRAY_LEN(option_groups);

/* ---- lookup ---- */

const struct option_group *option_group(const struct option *option)
{
    size_t len = strcspn(option->key, "."), i = option->key[len] ? option_groups_count - 1 : 0;
    while (i > 0 && (strlen(option_groups[i].name) != len ||
                     !str_starts(option->key, option_groups[i].name)))
        i--;
    return &option_groups[i];
}

char *option_variable(const char *key, char text[OPTION_NAME_MAX])
{
    snprintf(text, OPTION_NAME_MAX, "PCHRUN_%s", key);
    for (char *p = text; *p; p++)
        *p = (char)(*p == '.' || *p == '-' ? '_' : toupper((unsigned char)*p));
    return text;
}

const struct option *option_by_key(const char *key)
{
    for (size_t i = 0; i < options_count; i++)
        if (str_is(options[i].key, key))
            return &options[i];
    return NULL;
}
