/* SPDX-License-Identifier: Apache-2.0
 *
 * parts: the parts of the picture, from the bottom of the room: svg; place says where a moment is;
 * bar, attempts, flags, steps, axis and legend draw a part each; draw.c puts them together. For
 * this room alone.
 */
#pragma once

#include "timeline/svg.h"
#include "timeline/timeline.h"

/* Of the whole picture; and where the time begins and ends in it. */
enum { DRAW_WIDTH = 1000, DRAW_LEFT = 76, DRAW_RIGHT = 980, DRAW_SPAN = DRAW_RIGHT - DRAW_LEFT };
/* Sizes of text. */
enum { DRAW_HEAD = 28, DRAW_HEAD_LEAST = 20, DRAW_USUAL = 20, DRAW_SMALL = 18 };

/* The least width of what is drawn alone. */
#define DRAW_PIXEL 1.0
/* The width to which spans that are narrower are drawn together. */
#define DRAW_TOGETHER 4.0

/* One span, or several of any kinds that are narrower than a pixel. */
struct piece {
    size_t n;            /* of spans */
    int64_t from_ms, ms; /* since the begin of the picture */
    const struct goodput_span *first;
    int64_t of_kind[GOODPUT__COUNT];
    uint64_t from_step, top_step, to_step;
};

/* No two of these that follow each other are narrower than a pixel. */
enum { PIECES_MAX = 2 * DRAW_SPAN + 4 };

struct drawing {
    const struct timeline *in;
    const struct goodput *of;
    FILE *out;
    int64_t total_ms;
    int64_t *from_ms; /* of each span, since the begin of the picture, and of the end */
    size_t *begins;   /* of each run, and of one more: its first span */
    struct piece *pieces;
    size_t npieces;
};

/* --- place.c --- */

/* False: out of memory. Call place_end() in either case. */
MUST_CHECK bool place_begin(struct drawing *d);
void place_end(struct drawing *d);
/* The x of a time since the begin of the picture. */
double place_x(const struct drawing *d, int64_t ms);
/* When a run began and ended, since the begin of the picture. False: it is not in the picture. */
bool place_of_run(const struct drawing *d, int run, int64_t *ret_from_ms, int64_t *ret_to_ms);
/* How many runs are in the picture. */
int place_count_runs(const struct drawing *d);
/* The time since the begin of the picture of a moment of the wall clock in this run. False: it was
 * before the picture. */
bool place_in_run(const struct drawing *d, int run, int64_t at_ms, int64_t *ret);
/* The run of a moment in an attempt; -1: not in the picture. */
int place_run_of(const struct drawing *d, int64_t attempt, int64_t at_ms);
/* The kind with the largest share of a piece. */
enum goodput_kind place_kind(const struct piece *piece);
/* True if a piece has spans of several kinds. */
bool place_is_mixed(const struct piece *piece);
/* True if the job has finished a step. */
bool place_has_steps(const struct drawing *d);

/* --- the parts; each returns the y below it --- */

double bar_draw(const struct drawing *d, double y);
double attempts_draw(const struct drawing *d, double y);
double steps_draw(const struct drawing *d, double y);
double axis_draw(const struct drawing *d, double top, double y);
double legend_draw(const struct drawing *d, double y);

/* --- flags.c --- */

/* Of the notices and failures: those that are close together share a flag. */
struct flag {
    double x;
    const struct timeline_moment *of; /* the first failure of them, or else the first */
    int n;
    size_t first; /* the place of the first one in the order of the picture */
    char label[TIMELINE_LABEL + 16];
    double from, to; /* the box of the label */
    bool is_left;    /* the label is left of x */
    int lane;        /* from the bottom; -1: it has no label */
};

enum { FLAG_CLOSE = 20, FLAGS_MAX = DRAW_SPAN / FLAG_CLOSE + 2 };

struct flags {
    struct flag list[FLAGS_MAX];
    int n, lanes;
    struct flag_moment {
        const struct timeline_moment *of;
        double x;
    } * moments; /* those in the picture, by their x */
    size_t nmoments;
};

/* False: out of memory. Call flags_end() in either case. */
MUST_CHECK bool flags_begin(struct flags *flags, const struct drawing *d);
void flags_end(struct flags *flags);
/* Returns the y below it, where the bar begins. */
double flags_draw(const struct flags *flags, const struct drawing *d, double y);
/* The mark that stands on y: a triangle for a notice, a circle with a cross for a failure. */
void flags_mark(FILE *out, enum timeline_kind kind, double x, double y);
/* How many notices or failures there are in the picture. */
size_t flags_count(const struct flags *flags, enum timeline_kind kind);

/* --- attempts.c --- */

/* A run, or several that would be too narrow alone. */
struct bracket {
    int first, last; /* runs */
    double from, to;
};

/* The next one from this run on. False: there is none. */
bool attempts_next(const struct drawing *d, int run, struct bracket *ret);
/* The text of the moment that ended the attempt of a run; "": unknown. */
const char *attempts_end(const struct drawing *d, int run);

/* --- bar.c --- */

/* The next commit to draw from number *i on, and its time since the begin of the picture. Of ticks
 * that would touch each other only the first is drawn. *last is the x of the one before; 0: none.
 * NULL: there is no more. */
const struct goodput_commit *bar_next_commit(const struct drawing *d, size_t *i, double *last,
                                             int64_t *ret_ms);

/* --- legend.c --- */

struct look_colours {
    const char *fill, *ink; /* "#rrggbb"; ink, of the pattern, may be "" */
};

/* How the spans of a kind look. */
struct look {
    const char *class, *name; /* "lost", "training, lost" */
    const char *letter;       /* for the inside of a span; "": none */
    struct look_colours light, dark;
    int size, turn;    /* of the pattern's square; degrees */
    bool is_filled;    /* the pattern's shape is filled; else it is a line of two units */
    const char *shape; /* as in the d of a path; "": no pattern */
};

const struct look *legend_look(enum goodput_kind kind);
