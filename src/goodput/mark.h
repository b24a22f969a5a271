/* SPDX-License-Identifier: Apache-2.0
 *
 * mark: one line of the ledger, as JSON with a checksum. Node 0 writes such lines
 * (status/markfile), pchctl reads them (goodput.h). A line whose checksum is wrong is damaged. Owns
 * nothing. Any thread.
 */
#pragma once

#include "base/err.h"
#include "base/markkind.h"

#include <stddef.h>
#include <stdint.h>

#define MARK_FILE "ledger" /* in the state directory */
/* While a job runs, its ledger gets a line at least this often. */
#define MARK_TICK_MS (60 * 1000)
/* A clock that is set by less than this was only corrected. Those of two hosts differ so much. */
#define MARK_JUMP_MS 2000
/* A run without an end whose ledger is older than this was killed. */
#define MARK_SILENT_MS (2 * MARK_TICK_MS + MARK_JUMP_MS)

enum { MARK_LINE_MAX = 1024 };

struct mark {
    enum mark_kind kind; /* MARK_NONE: the line only says that `dropped` lines are missing */
    int64_t at_ms;       /* CLOCK_REALTIME */
    int64_t mono_ms;     /* CLOCK_MONOTONIC, comparable within one run */
    int64_t attempt, generation;
    uint64_t step;        /* as in struct action (core/common/action.h) */
    char outcome[32];     /* with MARK_ENDED, else "" */
    char job[128];        /* of the first mark of a run of pchrun, else "" */
    int64_t job_start_ms; /* the same: when the scheduler started the job; 0: unknown */
    /* So long a rank has waited for data in this generation: the rank that waited longest. */
    int64_t loading_ms;
    int64_t dropped;
};

/* "training"; "none" for MARK_NONE. */
const char *mark_name(enum mark_kind kind);
/* The line with its newline and a NUL. Returns its length; 0: it does not fit. */
size_t mark_compose(const struct mark *mark, char text[MARK_LINE_MAX]);
/* Reads a line without its newline. False: it is damaged, or of an unknown kind; *ret_is_damaged
 * says which. */
MUST_CHECK bool mark_parse(const char *line, size_t len, struct mark *ret, bool *ret_is_damaged);
