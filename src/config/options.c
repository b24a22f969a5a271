/* SPDX-License-Identifier: Apache-2.0
 * See options.h.
 *
 * To add an option: a field in config.h, a row here. Everything else (flag, variable, file, help,
 * schema, manual) follows from the row.
 */
#include "config/options.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "config/config.h"
#include "config/platform.h"

#define FIELD(f) .offset = offsetof(struct config, f)
#define HOUR     (3600 * NS_PER_S)
#define DAY      (24 * HOUR)
#define PATH_LEN 4095

/* What all rows of exit codes have in common. */
#define EXIT_CODE(name, code)                                                       \
    .key = "exit." #name, .type = OPTION_INT, .is_binding = true, FIELD(exit.name), \
    .fallback = (code), .min = 1, .max = 255, .metavar = "CODE"

static const char *const save_modes[] = {[CONFIG_SAVE_ATTACH] = "attach",
                                         [CONFIG_SAVE_SIGNAL] = "signal",
                                         [CONFIG_SAVE_FORWARD] = "forward",
                                         NULL};
static const char *const leftovers_names[] = {
    [CONFIG_LEFTOVERS_KILL] = "kill", [CONFIG_LEFTOVERS_LEAVE] = "leave", NULL};
static const char *const level_names[] = {
    [LOG_ERROR] = "error", [LOG_WARN] = "warning", [LOG_NOTICE] = "notice",
    [LOG_INFO] = "info",   [LOG_DEBUG] = "debug",  [LOG__COUNT] = NULL};
static const char *const format_names[] = {[LOG_TEXT] = "text", [LOG_JSON] = "json", NULL};

const struct option options[] = {
    {
        .key = "job",
        .type = OPTION_TEXT,
        FIELD(job),
        .fallback = "pchrun",
        .min = 1,
        .max = 63,
        .metavar = "NAME",
        .help = "the job's name, the same on every node",
        .manual = "The job's name.\nNodes of jobs with different names refuse each other.",
    },
    {
        .key = "preset",
        .type = OPTION_CHOICE,
        FIELD(preset),
        .fallback = "auto",
        .choices = preset_names,
        .metavar = "NAME",
        .help = "where this runs: auto, none or a platform's name, as in pchrun.json(5)",
        .manual = "What is taken instead of the defaults, as this platform asks for it; see\n"
                  ".Sx PRESETS .\nA preset may be named on a machine that is none of its kind.",
    },
    {
        .key = "grace",
        .type = OPTION_DURATION,
        FIELD(grace_ns),
        .fallback = "25s",
        .min = 0,
        .max = 7 * DAY,
        .help = "time from a preemption signal to the end",
        .manual = "How much time the platform leaves between a preemption signal and the end.\n"
                  "Saving and leaving must fit into it.\nKubernetes and Slurm give 30 "
                  "seconds unless they are told otherwise.",
    },
    {
        .key = "signals",
        .type = OPTION_SIGNALS,
        FIELD(signals),
        .fallback = "TERM=preempt",
        .min = 0,
        .max = 7 * DAY,
        .metavar = "NAME=DO[:GRACE],...",
        .help = "what signals sent to pchrun mean: preempt, checkpoint, forward or ignore",
        .manual =
            "What a signal sent to pchrun means: an object of signal names, each with one of\n"
            ".Bl -tag -width checkpoint -compact\n"
            ".It Li preempt\nsave and leave;\n"
            ".It Li checkpoint\nsave and go on;\n"
            ".It Li forward\nhand it to the training commands;\n"
            ".It Li ignore\ndo nothing.\n.El\n"
            "A signal that is not named is forwarded,\n.Dv SIGINT\nand\n.Dv SIGQUIT\nincluded.\n"
            "A signal with its own grace is written\n"
            ".Li \\(dqUSR1\\(dq: { \\(dqdo\\(dq: \\(dqpreempt\\(dq, \\(dqgrace\\(dq: "
            "\\(dq240s\\(dq } ,\n"
            "or\n.Li USR1=preempt:240s\nas a flag.\n"
            "Flags, environment and file are merged signal by signal: naming one signal leaves the "
            "others as they are.",
    },
    {
        .key = "notices",
        .type = OPTION_NOTICES,
        FIELD(notices),
        .fallback = "auto",
        .max = CONFIG_NOTICES_MAX,
        .metavar = "SOURCE[:PATH],...",
        .help = "who warns of the end: auto, none, gce, aws, azure, slurm, or file, kubernetes, "
                "command and poll with a path",
        .manual =
            "Who tells that this node will be taken away, beside signals: a list of sources.\n"
            ".Bl -tag -width kubernetes -compact\n"
            ".It Li auto\nthose of the platform, see\n.Sx PRESETS ;\n"
            ".It Li none\nnobody; it stands alone, and is the same as an empty list;\n"
            ".It Li gce , aws , azure\nthe metadata service of that cloud;\n"
            ".It Li slurm\nthe end of the job's time;\n"
            ".It Li file\na file that appears or changes;\n"
            ".It Li kubernetes\na file of annotations (downward API);\n"
            ".It Li command\na program of yours that prints a line for each notice;\n"
            ".It Li poll\none that is run again and again, and exits with 0 when the end has "
            "come,\nand with 1 when it has not.\n.El\n"
            "The last four are objects, and may have a\n.Li name ,\nwhich is what people "
            "see:\n"
            ".Bd -literal -compact\n{ \\(dqfile\\(dq: \\(dq/run/leave\\(dq, \\(dqname\\(dq: "
            "\\(dqoperator\\(dq }\n{ \\(dqcommand\\(dq: [\\(dq./watch\\(dq, \\(dq--zone\\(dq, "
            "\\(dqa\\(dq] }\n{ \\(dqpoll\\(dq: [\\(dq./is-it-over\\(dq], \\(dqinterval\\(dq: "
            "\\(dq5s\\(dq }\n.Ed\n"
            "A poll runs every second, unless its\n.Li interval\nsays otherwise;\none that "
            "takes longer than its\n.Li timeout ,\n10 seconds, is ended and has said nothing.\n"
            "As a flag they are written\n.Li file:/run/leave\nand\n.Li poll:./is-it-over .\n"
            "A program whose name holds no slash is looked for in\n.Ev PATH ;\n"
            "one that cannot be executed is an error at the start.\nWhat programs print is told "
            "in\n"
            ".Xr pchrun-protocol 7 .",
    },
    {
        .key = "notices_repeat",
        .type = OPTION_INT,
        FIELD(notices_repeat),
        .fallback = "2",
        .min = 0,
        .max = 1000000,
        .help = "how many attempts one notice may end, 0: no limit",
        .manual = "How many attempts a notice of one of these sources may end; 0: no limit.\n"
                  "One that still stands after so many would end each one that comes, so it is "
                  "not acted upon any more, and that is said.\nA notice is known by its id, in "
                  "\n.Cm state_dir ,\nfor 30 days.",
    },
    {
        .key = "report",
        .type = OPTION_TEMPLATE,
        .is_nullable = true,
        FIELD(report),
        .fallback = "{state_dir}/report.{node_rank}.json",
        .max = PATH_LEN,
        .metavar = "FILE",
        .help = "where to keep the report of what happened",
        .manual = "The file that tells, at every change of state, what this node knows about the "
                  "job.\n.Li {state_dir}\nand\n.Li {node_rank}\nstand for their values.\n"
                  "Without a state directory, a report that lies in it is not written.\n"
                  "The directory of any other must be there, and what is at its path may be a "
                  "regular file,\nor a symbolic link, which stays and whose target is "
                  "replaced;\nelse nothing is started.",
    },
    {
        .key = "run_dir",
        .type = OPTION_PATH,
        .is_nullable = true,
        FIELD(run_dir),
        .max = PATH_LEN,
        .help = "where sockets live while the job runs",
        .manual =
            "The directory for sockets.\nOne that cannot be used is an error; its path may have 86 "
            "bytes, since that of a socket is short.\nUnset: the first of\n"
            ".Ev XDG_RUNTIME_DIR , TMPDIR ,\n.Pa /tmp\nand\n.Pa /dev/shm\nthat works.",
    },
    {
        .key = "state_dir",
        .type = OPTION_PATH,
        .is_nullable = true,
        FIELD(state_dir),
        .max = PATH_LEN,
        .help = "where the commit record lives; must outlive the node",
        .manual =
            "The directory of the commit record, from which a job that is started again learns "
            "where to resume.\nIt must outlive the node.\nUnset:\n.Pa .pchrun\nin\n"
            ".Cm checkpoint.dir ;\nwithout that, no record is kept.",
    },
    {
        .key = "cluster.nodes",
        .type = OPTION_LIST,
        FIELD(cluster.nodes),
        .fallback = "",
        .max = CONFIG_NODES_MAX,
        .metavar = "HOST[:PORT],...",
        .help = "every node's address, node 0 first",
        .manual = "Every node's address, node 0, the chief, first:\n.Ar host ,\n.Ar host:port\nor\n"
                  ".Ar [IPv6]:port .\nWithout a key, and unless\n.Cm cluster.insecure\nis set, "
                  "only loopback addresses are allowed.",
    },
    {
        .key = "cluster.chief",
        .type = OPTION_TEXT,
        .is_nullable = true,
        FIELD(cluster.chief),
        .min = 1,
        .max = 300,
        .metavar = "HOST[:PORT]",
        .help = "where node 0 listens, instead of the whole list",
        .manual = "Where node 0 listens.\nIt replaces\n.Cm cluster.nodes ,\nand needs\n"
                  ".Cm cluster.nnodes\nand\n.Cm cluster.node_rank .",
    },
    {
        .key = "cluster.nnodes",
        .type = OPTION_INT,
        .also = "nnodes",
        FIELD(cluster.nnodes),
        .fallback = "1",
        .min = 1,
        .max = CONFIG_NODES_MAX,
        .help = "how many nodes the job has",
        .manual = "How many nodes the job has.\nIt follows from\n.Cm cluster.nodes\nwhere that is "
                  "given.",
    },
    {
        .key = "cluster.node_rank",
        .type = OPTION_INT,
        .is_nullable = true,
        .also = "node-rank",
        FIELD(cluster.node_rank),
        .min = 0,
        .max = CONFIG_NODES_MAX - 1,
        .help = "which node this is, from 0",
        .manual =
            "Which node this is, from 0.\nUnset: the one entry of\n.Cm cluster.nodes\nthat is "
            "an address of this machine.",
    },
    {
        .key = "cluster.port",
        .type = OPTION_INT,
        FIELD(cluster.port),
        .fallback = "14242",
        .min = 1,
        .max = 65535,
        .metavar = "PORT",
        .help = "where node 0 listens, if its address names no port",
        .manual = "The port for addresses that name none.\nPorts that JAX and torchrun use are "
                  "refused: 8482, 29400, 29500, 55527 and 61440 to 65535.",
    },
    {
        .key = "cluster.bind",
        .type = OPTION_TEXT,
        .is_nullable = true,
        FIELD(cluster.bind),
        .min = 1,
        .max = 300,
        .metavar = "HOST[:PORT]",
        .help = "listen here on node 0 [its own entry]",
        .manual = "The address that node 0 binds.\nUnset: its own entry.",
    },
    {
        .key = "cluster.key_file",
        .type = OPTION_PATH,
        .is_nullable = true,
        FIELD(cluster.key_file),
        .max = PATH_LEN,
        .help = "the key that the nodes share",
        .manual =
            "The file with the key that the nodes share, the same on every node, as\n"
            ".Nm pchrun Fl -make-key\nwrites it.\nConnections between nodes are then encrypted, "
            "and only those who have the key can make one.\nIt belongs to this user or root, and "
            "others can neither read nor replace it; the group may read it, and symbolic links are "
            "followed.\nIt needs OpenSSL 3, which is not loaded otherwise, and whose configuration "
            "file is "
            "not read.",
    },
    {
        .key = "cluster.insecure",
        .type = OPTION_BOOL,
        FIELD(cluster.insecure),
        .fallback = "false",
        .help = "allow other addresses than loopback without a key",
        .manual =
            "Allow addresses other than loopback without a key.\nWhoever reaches the port can "
            "then end the job, so do it only on a network that you trust.\nWith a key it changes "
            "nothing.",
    },
    {
        .key = "cluster.join_timeout",
        .type = OPTION_DURATION,
        FIELD(cluster.join_timeout_ns),
        .fallback = "10m",
        .min = NS_PER_MS,
        .max = 7 * DAY,
        .help = "wait this long for all nodes at the start",
        .manual = "How long a node waits at the start until all are there.\nThen it says who is "
                  "missing, and exits with 125.",
    },
    {
        .key = "cluster.heartbeat_interval",
        .type = OPTION_DURATION,
        .is_binding = true,
        FIELD(cluster.heartbeat_interval_ns),
        .fallback = "1s",
        .min = 10 * NS_PER_MS,
        .max = HOUR,
        .help = "how often nodes tell each other that they live",
        .manual = "How often a node tells the chief that it lives, and where it stands.",
    },
    {
        .key = "cluster.heartbeat_timeout",
        .type = OPTION_DURATION,
        .is_binding = true,
        FIELD(cluster.heartbeat_timeout_ns),
        .fallback = "15s",
        .min = 20 * NS_PER_MS,
        .max = DAY,
        .help = "a node that is silent this long is lost",
        .manual = "A node from which nothing came for this long is lost.\nAt least twice\n"
                  ".Cm cluster.heartbeat_interval .",
    },
    {
        .key = "procs.count",
        .type = OPTION_INT,
        .is_nullable = true,
        .letter = 'n',
        .also = "nproc-per-node",
        FIELD(procs.count),
        .min = 1,
        .max = CONFIG_PROCS_MAX,
        .help = "start the command this many times [1]",
        .manual =
            "How many times each node starts the command.\nWhere it is given, each copy gets\n"
            ".Ev RANK , LOCAL_RANK , WORLD_SIZE\nand\n.Ev LOCAL_WORLD_SIZE .",
    },
    {
        .key = "procs.per_node",
        .type = OPTION_INT,
        .is_nullable = true,
        FIELD(procs.per_node),
        .min = 0,
        .max = CONFIG_PROCS_MAX,
        .help = "how many processes will attach on each node",
        .manual = "How many processes attach through libpch on this node; 0: none.\nUnset:\n"
                  ".Cm procs.count\nif that is given, else what the first process says, else 1.",
    },
    {
        .key = "procs.new_session",
        .type = OPTION_BOOL,
        FIELD(procs.new_session),
        .fallback = "false",
        .help = "start the command in a session of its own",
        .manual = "Start the command in a session of its own, without the terminal, instead of a "
                  "process group of its own.",
    },
    {
        .key = "procs.close_fds",
        .type = OPTION_BOOL,
        FIELD(procs.close_fds),
        .fallback = "false",
        .help = "close inherited descriptors from 3 on in the command",
        .manual =
            "Close the descriptors from 3 on that pchrun inherited, instead of handing them to "
            "the command.",
    },
    {
        .key = "checkpoint.dir",
        .type = OPTION_PATH,
        .is_nullable = true,
        FIELD(checkpoint.dir),
        .max = PATH_LEN,
        .help = "where the program keeps its checkpoints",
        .manual =
            "Where the program keeps its checkpoints.\nIt is made if only it is missing; if it "
            "cannot be made, nothing is started.\n"
            "pchrun keeps its records there, in\n"
            ".Pa .pchrun ,\nunless\n.Cm state_dir\nnames another place.",
    },
    {
        .key = "checkpoint.shared",
        .type = OPTION_BOOL,
        .is_binding = true,
        FIELD(checkpoint.shared),
        .fallback = "true",
        .help = "every node sees the same state directory",
        .manual =
            "Whether every node sees the same state directory.\nIf not, each has one on its own "
            "disk: node 0's holds the commits, and a node does not start that cannot tell where "
            "its ranks saved the last one.",
    },
    {
        .key = "checkpoint.keep_records",
        .type = OPTION_INT,
        FIELD(checkpoint.keep_records),
        .fallback = "8",
        .min = 1,
        .max = 10000,
        .help = "how many commit records to keep",
        .manual = "How many of the newest commit records are kept.\nCheckpoints themselves are the "
                  "program's; pchrun removes none.",
    },
    {
        .key = "checkpoint.lock_wait",
        .type = OPTION_DURATION,
        FIELD(checkpoint.lock_wait_ns),
        .fallback = "100s",
        .min = 0,
        .max = DAY,
        .help = "how long to wait for an older pchrun of the job",
        .manual = "How long node 0 waits at the start, if another pchrun holds the state "
                  "directory.\nA scheduler may start a job again a little before the old one has "
                  "ended; and an NFS server keeps the lock of a host that has died for 90 "
                  "seconds.\nWhen it is over, nothing is started.",
    },
    {
        .key = "save.mode",
        .type = OPTION_CHOICE,
        .is_binding = true,
        FIELD(save.mode),
        .fallback = "attach",
        .choices = save_modes,
        .help = "how a program is asked to save: attach, signal or forward",
        .manual =
            "How the program is asked to save.\n"
            ".Bl -tag -width forward -compact\n"
            ".It Li attach\nthrough libpch; to one that does not attach the preemption signal "
            "is forwarded;\n"
            ".It Li signal\nby\n.Cm save.signal ,\nsent to each rank's process;\n"
            ".It Li forward\nby handing the preemption signal to the command.\n.El",
    },
    {
        .key = "save.signal",
        .type = OPTION_SIGNAL,
        FIELD(save.signal),
        .fallback = "USR1",
        .help = "the signal that asks a rank to save, with save.mode signal",
        .manual = "The signal that asks a rank to save, where\n.Cm save.mode\nis\n.Li signal .",
    },
    {
        .key = "save.train_on",
        .type = OPTION_BOOL,
        FIELD(save.train_on),
        .fallback = "true",
        .help = "after a notice save at once, train on, and save again in time",
        .manual =
            "What to do with the time that a preemption notice leaves.\nIf true, the job saves at "
            "once, trains on, and saves again at the last safe moment before the deadline, unless "
            "there is no time for two saves.\nThat moment follows from how long saves, steps and "
            "agreements took.\nIf false, it saves once, and leaves.\nA second signal of the same "
            "kind means that, too.\nThe command of a job that does not attach is asked\n"
            ".Cm grace\nbefore the deadline of a notice that leaves more time, or at once.",
    },
    {
        .key = "stop.exit_wait",
        .type = OPTION_DURATION,
        FIELD(stop.exit_wait_ns),
        .fallback = "10s",
        .min = 0,
        .max = DAY,
        .help = "time to end by itself after the last save",
        .manual = "How long a process that was told to leave may take to end by itself.",
    },
    {
        .key = "stop.term_wait",
        .type = OPTION_DURATION,
        FIELD(stop.term_wait_ns),
        .fallback = "10s",
        .min = 0,
        .max = DAY,
        .help = "time from SIGTERM to SIGKILL",
        .manual = "How long a process may take to end after\n.Dv SIGTERM .\nThen it gets\n"
                  ".Dv SIGKILL .",
    },
    {
        .key = "stop.kill_wait",
        .type = OPTION_DURATION,
        FIELD(stop.kill_wait_ns),
        .fallback = "5s",
        .min = NS_PER_MS,
        .max = DAY,
        .help = "time from SIGKILL until pchrun gives up waiting",
        .manual =
            "How long pchrun waits for a process to vanish after\n.Dv SIGKILL .\nThen it names "
            "those that are left, and exits.",
    },
    {
        .key = "stop.leftovers",
        .type = OPTION_CHOICE,
        FIELD(stop.leftovers),
        .fallback = "kill",
        .choices = leftovers_names,
        .help = "processes that outlive the command: kill or leave",
        .manual =
            "What becomes of processes of the job that outlive its commands:\n.Li kill\nstops "
            "them,\n.Li leave\nlets them run; but a rank among them that is attached and not done "
            "is no success.",
    },
    {
        EXIT_CODE(preempted, "42"),
        .help = "preempted, and saved",
        .manual = "After a preemption, where the save is committed or there was nothing to save.",
    },
    {
        EXIT_CODE(preempted_unsaved, "42"),
        .help = "preempted, and not saved in time",
        .manual = "After a preemption, where the save was not committed in time.",
    },
    {
        EXIT_CODE(node_lost, "42"),
        .help = "another node was lost",
        .manual = "After a node was lost.",
    },
    {
        EXIT_CODE(hang, "42"),
        .help = "the job was found to hang (nothing looks for that yet)",
        .manual = "After the job was found to hang.\nThis version does not look for hangs.",
    },
    {
        EXIT_CODE(no_progress, "43"),
        .help = "too many attempts without a new commit",
        .manual = "Instead of\n.Cm exit.preempted\nand its like, after too many attempts in a row "
                  "without a new commit: somebody must look.",
    },
    {
        .key = "exit.no_progress_after",
        .type = OPTION_INT,
        .is_binding = true,
        FIELD(exit.no_progress_limit),
        .fallback = "3",
        .min = 0,
        .max = 1000000,
        .help = "how many attempts are too many, 0: no limit",
        .manual =
            "How many attempts in a row without a new commit are too many; 0: no limit.\n"
            "One that is preempted before any process has attached is judged so only where an "
            "earlier one\nhas committed: of a program without libpch nothing is known.",
    },
    {
        .key = "exit.reraise",
        .type = OPTION_BOOL,
        FIELD(exit.reraise),
        .fallback = "false",
        .help = "die of the command's signal instead of exiting with 128 + n",
        .manual = "If the command died of signal\n.Ar n ,\ndie of it, too, instead of exiting with "
                  "128 +\n.Ar n .",
    },
    {
        .key = "exit.hook",
        .type = OPTION_COMMAND,
        .is_nullable = true,
        FIELD(exit.hook),
        .help = "a program that each node runs after a preemption, before it exits",
        .manual =
            "A program that each node runs after a preemption, when the save is committed or given "
            "up and\nall commands have ended; see EXIT HOOK in\n.Xr pchrun 1 .\nAs a flag, its "
            "path "
            "alone; in the file, a list of the program and its arguments.\nA program whose name "
            "holds no slash is looked for in\n.Ev PATH ;\none that cannot be executed is an error "
            "at the start.",
    },
    {
        .key = "exit.hook_wait",
        .type = OPTION_DURATION,
        FIELD(exit.hook_wait_ns),
        .fallback = "10s",
        .min = NS_PER_MS,
        .max = HOUR,
        .help = "time for that program",
        .manual = "How long that program may take.\nIt is never given time beyond the deadline of "
                  "the notice, less an eighth of the grace (3 seconds at most).",
    },
    {
        .key = "log.level",
        .type = OPTION_CHOICE,
        FIELD(log.level),
        .fallback = "info",
        .choices = level_names,
        .help = "how much to say: error, warning, notice, info or debug",
        .manual = "How much pchrun says on standard error.\nEach\n.Fl v\nraises it by one step and "
                  "each\n.Fl q\nlowers it.",
    },
    {
        .key = "log.format",
        .type = OPTION_CHOICE,
        FIELD(log.format),
        .fallback = "text",
        .choices = format_names,
        .help = "lines for people (text), or JSON objects (json)",
        .manual =
            "Lines for people, or one JSON object a line, with\n.Li at , level , topic\nand\n.Li "
            "text .",
    },
};
const size_t options_count = ARRAY_LEN(options);
