/* SPDX-License-Identifier: Apache-2.0
 * See options.h: the groups that the options are in.
 */
#include "base/str.h"
#include "config/options.h"

const struct option_group option_groups[] = {
    {"", "Job", NULL},
    {"cluster", "Cluster",
     "The addresses of the job's nodes.\nOne node needs none of it; several need\n.Cm "
     "cluster.nodes "
     ",\nor\n"
     ".Cm cluster.chief\nand\n.Cm cluster.nnodes ,\nor\n.Cm cluster.discovery ."},
    {"procs", "Processes", "The training commands that each node starts."},
    {"checkpoint", "Checkpoints", NULL},
    {"save", "Saving", NULL},
    {"restart", "Restarts in place",
     "The restart after a process has failed.\nSee RESTARTS in\n.Xr pchrun 1 ."},
    {"watchdog", "Hangs",
     "The time without progress after which a job counts as hanging, and the reaction."},
    {"stop", "Stopping", "The steps that end the processes."},
    {"exit", "Exit codes", "The exit codes of pchrun, for the scheduler."},
    {"events", "Events", NULL},
    {"metrics", "Metrics", NULL},
    {"log", "Log", NULL},
    {"logs", "Output of the commands",
     "The output of the training commands, kept in files.\nThis is off unless\n.Cm logs.dir\nis "
     "set."},
};
const size_t option_groups_count = ARRAY_LEN(option_groups);
