/* SPDX-License-Identifier: Apache-2.0
 *
 * timeline: draws where the hours of a job went, over all its attempts, as SVG.
 *
 * From the top: the goodput in words; notices and first failures as flags; one bar with all spans,
 * and ticks for the commits; the attempts; the steps over the time; a legend with the sums. The
 * picture needs no script and no font of its own, and its size is bounded: spans that are narrower
 * than a pixel are drawn together, each kind with the height of its share. It is 1000 wide; its
 * height follows from its contents.
 *
 * Texts may have any bytes: svg.h makes them harmless. No file is opened and no clock is read here.
 * One thread at a time.
 */
#pragma once

#include "goodput/goodput.h"
#include "json/writer.h"

#include <stdio.h>

enum timeline_kind {
    TIMELINE_NOTICE,
    TIMELINE_CAUSE, /* the first failure of a generation */
    TIMELINE_END,   /* of an attempt; it has no flag */
};

enum { TIMELINE_LABEL = 96, TIMELINE_TEXT = 400, TIMELINE_NOTE = 160, TIMELINE_NOTES_MAX = 4 };

struct timeline_moment {
    enum timeline_kind kind;
    int64_t attempt, generation, at_ms; /* the time by the wall clock */
    int64_t told_by;                    /* a node; -1: concluded */
    char label[TIMELINE_LABEL];         /* at the flag */
    char text[TIMELINE_TEXT];           /* shown when a mouse is above it */
};

struct timeline {
    const struct goodput *of; /* after goodput_end(); it has a span */
    const struct timeline_moment *moments;
    size_t nmoments;
    const char *const *reasons; /* of the exclusions, by their numbers; "": none */
    int nreasons;
    const char (*notes)[TIMELINE_NOTE]; /* below the picture, with those of the ledger */
    int nnotes;
};

/* Writes the picture. Errors of `out` are the caller's to find. False: out of memory. */
MUST_CHECK bool timeline_draw(const struct timeline *timeline, FILE *out);

/* --- tell.c: the data of the picture, for a page that draws it itself --- */

/* Writes a list: for each kind of goodput.h its names, its letter, its colours and its pattern. */
void timeline_tell_looks(struct writer *w, const char *key);
/* Writes members of the open object. All "ms" are since the begin of the picture, "at_ms" is that
 * by the wall clock. "pieces" are spans, or several narrow ones: kind, begin, length, count of
 * spans, attempt, first step, highest step, last step; then, if they are of several kinds, each
 * kind with its time. "commits": time, step. "sums": by kind. Spans that are too narrow to be seen
 * in a width of 1000 are together. False: out of memory. */
MUST_CHECK bool timeline_tell(const struct timeline *timeline, struct writer *w);
