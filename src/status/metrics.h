/* SPDX-License-Identifier: Apache-2.0
 *
 * metrics: the state of the job, in the text format of Prometheus: for pchrun-web, and in a file
 * (metrics.file) for the textfile collector of the node exporter. The file is replaced at changes
 * of state and every metrics.interval; without a file no timer runs. A file that cannot be written
 * is logged once. Owns its memory: metrics_free(). Main thread.
 */
#pragma once

#include "core/core.h"
#include "loop/outfile.h"
#include "loop/watch.h"
#include "status/counts.h"
#include "status/report.h"
#include "status/status.h"

#include <stdio.h>

/* The data of the metrics. */
struct metrics_view {
    const struct core_params *params;
    const struct core_report *report;
    const struct status_ranks *ranks;
    const struct counts *counts;
    int spares;       /* that stand by, as node 0 knows */
    int64_t real_now; /* the wall clock at ranks->now */
    int64_t since;    /* when pchrun started, CLOCK_MONOTONIC */
    int exit_code;    /* -1: pchrun has not ended */
};
/* Writes the text. */
void metrics_compose(const struct metrics_view *view, FILE *out);

struct metrics {
    struct attach *attach;
    const struct report *report; /* knows the core, and the exit code */
    const struct counts *counts;
    int64_t interval_ns;
    struct outfile out; /* the owner touches and flushes this file */
    /* private from here on */
    int64_t since;      /* as in the view */
    struct watch clock; /* set while the commands run */
};

/* Set the fields above `out` first. `path` NULL: no file. May block. */
MUST_CHECK bool metrics_open(struct metrics *metrics, const char *path, struct reap *reap,
                             struct event_base *base, struct err *err);
void metrics_free(struct metrics *metrics);

/* Composes the text as it is now, also without a file. NULL: no memory. The caller frees it. */
char *metrics_text(const struct metrics *metrics, size_t *ret_len);

/* The commands run from now on, or no longer run. */
void metrics_run(struct metrics *metrics, bool is_running);
