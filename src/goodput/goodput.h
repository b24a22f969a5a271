/* SPDX-License-Identifier: Apache-2.0
 *
 * goodput: where the hours of a job went. Marks of its ledger in, spans and sums out.
 *
 * A span ends where the next one begins, so all spans of a job add up to its wall time, to the
 * millisecond. Within a run of pchrun the monotonic clock counts; only between two runs the wall
 * clock does. Training is lost if its steps are above the step that the job went back to. When each
 * step was reached is interpolated between two marks.
 *
 * No file is opened and no clock is read here. Owns its memory: goodput_free(). One thread.
 */
#pragma once

#include "goodput/mark.h"

enum goodput_kind {
    GOODPUT_KEPT,    /* training */
    GOODPUT_LOST,    /* training whose steps were made again, or will be */
    GOODPUT_LOADING, /* training that was kept, in which a rank waited for data; no span is only
                        this */
    GOODPUT_SAVING,
    GOODPUT_HUNG,
    GOODPUT_STARTING,
    GOODPUT_UNATTACHED, /* the commands ran, and no process told its steps */
    GOODPUT_RESTARTING,
    GOODPUT_WAITING, /* for a node */
    GOODPUT_STOPPING,
    GOODPUT_PREPARING, /* from the scheduler's start of the job to that of pchrun */
    GOODPUT_QUEUED,    /* from the end of a run to the next start of the job, or else of pchrun */
    GOODPUT_EXCLUDED,  /* goodput_exclude() */
    GOODPUT__COUNT
};

struct goodput_span {
    enum goodput_kind kind;
    int run; /* the number of its run; what was before it is of the run that follows */
    int64_t generation;
    int64_t at_ms, ms;           /* the begin by the wall clock; how long */
    int64_t loading_ms;          /* with GOODPUT_KEPT: of `ms`, in which a rank waited for data */
    uint64_t from_step, to_step; /* of training, else equal */
    int exclusion;               /* with GOODPUT_EXCLUDED: the number that the caller gave */
};

/* A run of pchrun: an attempt. */
struct goodput_run {
    int64_t attempt;
    char outcome[32];                 /* "": it has no end: it still runs, or was killed */
    int64_t at_ms, mono_ms;           /* its first mark */
    int64_t last_at_ms, last_mono_ms; /* its last mark */
    uint64_t resumed, commit;         /* the step that it resumed from; its last commit, 0: none */
    uint64_t last_step;
    int64_t generations;
    bool has_jumped; /* the wall clock was set while it ran */
};

struct goodput_commit {
    int run;
    int64_t at_ms;
    uint64_t step;
};

struct goodput_sums {
    int64_t ms[GOODPUT__COUNT];
    int64_t wall_ms; /* of all but GOODPUT_EXCLUDED */
    uint64_t lost_steps;
};

struct goodput {
    struct goodput_span *spans;
    size_t nspans;
    struct goodput_run *runs;
    int nruns;
    struct goodput_commit *commits;
    size_t ncommits;
    char job[128];
    bool is_running;        /* goodput_end(): the last run still runs */
    int64_t uncommitted_ms; /* with is_running: of the training that counts as kept */
    /* lines that are missing in the figures */
    unsigned damaged, strange; /* the checksum is wrong; a kind of mark that is unknown */
    bool is_torn;              /* the last line is cut */
    int64_t dropped;           /* node 0 could not write so many */
    unsigned stray;            /* an older run wrote them after a later one had begun */
    bool has_no_memory;        /* not all marks were taken */
    /* private from here on */
    size_t span_room, commit_room, sealed;
    int run_room;
    struct {
        enum mark_kind kind; /* the open span; MARK_NONE: none */
        int64_t since, generation;
        int64_t loading_ms; /* a rank has waited so long for data since then */
        uint64_t from_step, step;
    } open;
    int64_t loading_ms; /* as the last mark says, without what cut_back() takes off */
    bool goes_back;     /* a generation has begun, and has not trained yet */
    uint64_t back_to;
};

/* *g is zeroed first. Takes a line of the ledger, without its newline. `is_whole`: the line ended
 * with a newline. */
void goodput_line(struct goodput *g, const char *line, size_t len, bool is_whole);
void goodput_mark(struct goodput *g, const struct mark *given);
/* All lines are taken. A run without an end still runs if its last mark is not much older than a
 * tick; then its last span lasts until now. */
void goodput_end(struct goodput *g, int64_t now_ms);
void goodput_free(struct goodput *g);

/* After goodput_end(). Cuts off all that was before this moment of the wall clock. */
void goodput_since(struct goodput *g, int64_t from_ms);
/* The same: what lies between the two moments becomes GOODPUT_EXCLUDED. */
void goodput_exclude(struct goodput *g, int64_t from_ms, int64_t to_ms, int exclusion);
/* Sums the spans of a run; -1: of all runs. */
struct goodput_sums goodput_sum(const struct goodput *g, int run);
/* True for queued and preparing: no pchrun runs then. */
bool goodput_is_before(enum goodput_kind kind);
/* "training_kept" */
const char *goodput_name(enum goodput_kind kind);

/* --- words.c: figures for people --- */

enum { GOODPUT_WORD = 40 }; /* bytes of such a text, with its NUL */

/* "9.3 s", "12 min  5 s", "20 h 12 min". Returns text. */
char *goodput_lasting(int64_t ms, char text[GOODPUT_WORD]);
/* A moment of the wall clock in UTC: "2026-11-28 10:00". Returns text. */
char *goodput_date(int64_t ms, char text[GOODPUT_WORD]);
/* "91.2"; a share that is not 0 is not printed as 0, and one that is not all not as all. Returns
 * text. */
char *goodput_percent(int64_t part, int64_t whole, char text[GOODPUT_WORD]);
/* How a run ended: its outcome, "running" or "killed". */
const char *goodput_ending(const struct goodput *g, int run);

enum { GOODPUT_NOTES_MAX = 8, GOODPUT_NOTE = 160 };

struct goodput_notes {
    char text[GOODPUT_NOTES_MAX][GOODPUT_NOTE];
    int n;
};

/* Names the lines and the ends of runs that the figures lack. */
struct goodput_notes goodput_find_notes(const struct goodput *g);

/* --- rollback.c: for goodput.c alone --- */

/* NULL: out of memory, and g->has_no_memory is set. */
struct goodput_span *goodput_insert(struct goodput *g, size_t at);
/* The job goes back to `step`: training that is above it is lost. */
void goodput_roll_back(struct goodput *g, uint64_t step);
/* Gives the span another length, and as much of its loading. */
void goodput_resize(struct goodput_span *span, int64_t ms);
/* Splits span number i, `ms` behind its begin, into two. False: out of memory. */
bool goodput_split(struct goodput *g, size_t i, int64_t ms, uint64_t step);
