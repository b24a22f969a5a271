/* SPDX-License-Identifier: Apache-2.0
 *
 * shell_parts: the parts of the supervisor, and the one table that opens them, asks whether the end
 * must wait for them, and frees them. A part of shell.h. Main thread.
 */
#pragma once

#include "base/log.h"
#include "commands/children.h"
#include "commands/evidence.h"
#include "commands/hook.h"
#include "commands/jobs.h"
#include "commands/sweep.h"
#include "health/health.h"
#include "logs/logs.h"
#include "loop/loop.h"
#include "notices/inbox.h"
#include "os/reap.h"
#include "peers/cluster.h"
#include "peers/netcheck.h"
#include "peers/rendezvous.h"
#include "procs/attach.h"
#include "record/record.h"
#include "record/samedir.h"
#include "record/takeover.h"
#include "run/drill.h"
#include "status/answer.h"
#include "status/journal.h"
#include "status/markfile.h"
#include "status/metrics.h"
#include "status/report.h"
#include "status/trainjob.h"

struct shell_end;

enum { LIMITED_TOPICS = 3 }; /* of the core's log lines */

struct shell {
    struct config *config;
    unsigned closed; /* standard descriptors that pchrun was started without */
    struct core_params params;
    char *state_dir;                  /* NULL: none */
    struct leftover_marks supervisor; /* zeroed: none */
    char *report_path;                /* the same */
    struct loop loop;                 /* the callbacks are set before the loop is opened */
    struct reap reap;
    struct children children;
    struct jobs jobs;
    int signals; /* the signalfd */
    struct watch on_signal;
    struct cluster cluster;
    struct netcheck netcheck;
    struct rendezvous rendezvous;
    struct report report;
    struct takeover takeover;
    struct record record;
    struct samedir samedir;
    struct attach attach;
    struct drill drill;
    struct journal journal;
    struct markfile markfile;
    struct metrics metrics;
    struct trainjob trainjob;
    struct answer answer;
    struct inbox inbox;
    struct evidence evidence;
    struct hook hook;
    struct health health;
    struct logs logs;
    struct watch starting; /* starts the commands after the current event */
    struct action to_start;
    struct sweep sweep;   /* comes before the first start */
    struct watch tidying; /* slow work after a start, see on_tidying() */
    struct log_limit log_limits[LIMITED_TOPICS];
    size_t opened;                     /* how many parts are open */
    bool has_said_job, has_said_saves; /* see shell_say.h */
    bool has_started; /* the job was started; from then on no outcome is "not started" */
    enum outcome outcome;
    bool wants_hook;       /* run the hook as soon as the record is written */
    struct watch end_wait; /* the wait for helpers */
    bool has_waited;
    struct shell_end *end;
};

/* Opens the parts one after the other; the commands are started in between. False: a part could not
 * be opened. */
MUST_CHECK bool shell_open_parts(struct shell *shell, struct err *err);
/* The job has ended, and no part has anything left to finish. */
bool shell_is_done(const struct shell *shell);
/* Frees what was opened. */
void shell_free_parts(struct shell *shell);
