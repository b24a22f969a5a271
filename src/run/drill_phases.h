/* SPDX-License-Identifier: Apache-2.0
 *
 * drill_phases: in which phases of a training a notice finds nothing to save, or is saved too late.
 *
 * The drill looks at the ranks of its node again and again. It notes the time until the
 * ranks attach and finish a first step. After that it notes the longest stretch of each phase: of a
 * step, an evaluation, a compilation, and a save of the program's own. The pause between two looks
 * is the precision. A rank that serves an agreed save is in no phase, because the drill
 * measures that save by itself. Pure.
 */
#pragma once

#include "core/core.h"

/* A rank at the time of a look. */
struct drill_rank {
    int slot, pid;
    uint64_t first_step, step; /* that it had finished when it attached; that it has finished */
    enum page_phase phase;
    bool is_serving; /* it has come to the step of an agreed save, and waits or saves */
};

struct drill_stretch {
    int64_t ns;   /* the longest; 0: the phase was not seen */
    bool is_open; /* it was not over at the end */
};

/* Zeroed but for began_at. */
struct drill_phases {
    int64_t began_at;    /* when the commands were started; CLOCK_MONOTONIC, as all times here */
    int64_t attached_at; /* when the last rank attached before the first step; 0: none has */
    int64_t stepped_at;  /* when a rank finished the first step; 0: none has */
    bool has_announced;  /* a rank announced another phase than the training */
    bool is_over;
    int64_t looked_at;
    struct drill_stretch longest[PAGE_PHASES];
    struct {
        struct drill_rank rank; /* as last seen */
        int64_t seen_at;        /* 0: never */
        int64_t since;          /* when it came to this step and phase; 0: before the first step */
    } slots[CORE_SLOTS_MAX];
};

/* Takes a look at the ranks of this node. */
void drill_phases_look(struct drill_phases *phases, const struct drill_rank *ranks, int n,
                       int64_t now);
/* The job ends: each stretch that is not over counts up to now, and later looks do not count. */
void drill_phases_end(struct drill_phases *phases, int64_t now);
/* The longest stretch of all phases that were seen; 0: none was. */
int64_t drill_phases_longest(const struct drill_phases *phases);

/* The save, as the drill measured it. */
struct drill_saving {
    int64_t grace_ns; /* that was tried */
    int64_t save_ns;  /* how long the slowest save took; 0: none was committed */
};

enum { DRILL_LINES_MAX = PAGE_PHASES + 2, DRILL_LINE_SIZE = 320 };

struct drill_line {
    bool is_bad; /* a notice in this phase would lose training */
    char text[DRILL_LINE_SIZE];
};

/* One line for each phase that matters; returns their number. */
int drill_phases_tell(const struct drill_phases *phases, const struct drill_saving *saving,
                      struct drill_line lines[DRILL_LINES_MAX]);
