/* SPDX-License-Identifier: Apache-2.0
 * See options.h: the groups that the options are in.
 */
#include "base/str.h"
#include "config/options.h"

const struct option_group option_groups[] = {
    {"", "Job", NULL},
    {"cluster", "Cluster",
     "Where the job's nodes are.\nOne node needs none of it; several need\n.Cm cluster.nodes "
     ",\nor\n"
     ".Cm cluster.chief\nand\n.Cm cluster.nnodes ,\nor\n.Cm cluster.discovery ."},
    {"procs", "Processes", "The training commands that each node starts."},
    {"checkpoint", "Checkpoints", NULL},
    {"save", "Saving", NULL},
    {"restart", "Restarts in place",
     "The restart after a process has failed.\nSee RESTARTS in\n.Xr pchrun 1 ."},
    {"watchdog", "Hangs",
     "When a job counts as hanging, and what is done about it.\nTimes are those without progress."},
    {"stop", "Stopping", "The steps by which processes are brought to an end."},
    {"exit", "Exit codes", "The exit codes of pchrun, for the scheduler."},
    {"events", "Events", NULL},
    {"metrics", "Metrics", NULL},
    {"log", "Log", NULL},
    {"logs", "Output of the commands",
     "The output of the training commands, kept in files.\nThis is off unless\n.Cm logs.dir\nis "
     "set."},
};
const size_t option_groups_count = ARRAY_LEN(option_groups);
