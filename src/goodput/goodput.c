/* SPDX-License-Identifier: Apache-2.0
 * See goodput.h.
 */
#include "goodput/goodput.h"

#include "base/str.h"

#include <stdlib.h>
#include <string.h>

const char *goodput_name(enum goodput_kind kind)
{
    static const char *const names[GOODPUT__COUNT] = {
        [GOODPUT_KEPT] = "training_kept",
        [GOODPUT_LOST] = "training_lost",
        [GOODPUT_LOADING] = "loading",
        [GOODPUT_SAVING] = "saving",
        [GOODPUT_HUNG] = "hung",
        [GOODPUT_STARTING] = "starting",
        [GOODPUT_UNATTACHED] = "unattached",
        [GOODPUT_RESTARTING] = "restarting",
        [GOODPUT_WAITING] = "waiting",
        [GOODPUT_STOPPING] = "stopping",
        [GOODPUT_PREPARING] = "preparing",
        [GOODPUT_QUEUED] = "queued",
        [GOODPUT_EXCLUDED] = "excluded",
    };
    return names[kind];
}

bool goodput_is_before(enum goodput_kind kind)
{
    return kind == GOODPUT_QUEUED || kind == GOODPUT_PREPARING;
}

/* --- spans --- */

/* Only if there is one. */
static struct goodput_run *this_run(const struct goodput *g)
{
    return &g->runs[g->nruns - 1];
}

/* The wall clock may be set while a run lasts. So its spans count from its first mark. */
static int64_t wall_of(const struct goodput_run *run, int64_t mono_ms)
{
    return run->at_ms + (mono_ms - run->mono_ms);
}

/* `next`: the mark that ends the span. Ranks that save in the background train on, and a hang after
 * which the training goes on was a slow step. */
static enum goodput_kind kind_of_span(const struct goodput *g, enum mark_kind next)
{
    static const enum goodput_kind kinds[MARK__COUNT] = {
        [MARK_STARTING] = GOODPUT_STARTING,     [MARK_WAITING] = GOODPUT_WAITING,
        [MARK_UNATTACHED] = GOODPUT_UNATTACHED, [MARK_TRAINING] = GOODPUT_KEPT,
        [MARK_SAVING] = GOODPUT_SAVING,         [MARK_HUNG] = GOODPUT_HUNG,
        [MARK_RESTARTING] = GOODPUT_RESTARTING, [MARK_STOPPING] = GOODPUT_STOPPING,
    };
    bool trains_on = g->open.kind == MARK_SAVING && g->open.step > g->open.from_step;
    bool was_slow = g->open.kind == MARK_HUNG && next == MARK_TRAINING;
    return trains_on || was_slow ? GOODPUT_KEPT : kinds[g->open.kind];
}

/* Ends the open span, and begins it again. */
static void close_span(struct goodput *g, enum mark_kind next, int64_t mono_ms)
{
    const struct goodput_run *run = this_run(g);
    int64_t ms = mono_ms - g->open.since;
    enum goodput_kind kind = kind_of_span(g, next);
    struct goodput_span *span = ms > 0 && g->open.kind ? goodput_insert(g, g->nspans) : NULL;
    if (span)
        *span = (struct goodput_span){.kind = kind,
                                      .run = g->nruns - 1,
                                      .generation = g->open.generation,
                                      .at_ms = wall_of(run, g->open.since),
                                      .ms = ms,
                                      .from_step = g->open.from_step,
                                      .to_step = g->open.step};
    if (span && kind == GOODPUT_KEPT)
        span->loading_ms = g->open.loading_ms < ms ? g->open.loading_ms : ms;
    else if (span)
        span->from_step = span->to_step;
    g->open.loading_ms = 0;
    g->open.since = mono_ms;
    g->open.from_step = g->open.step;
}

/* A hang begins before the mark that tells it: the spans end where the hang begins, but none of an
 * earlier generation. The loading that is cut off is part of the hang. */
static void cut_back(struct goodput *g, int64_t mono_ms)
{
    const struct goodput_run *run = this_run(g);
    int64_t at_ms = wall_of(run, mono_ms);
    while (g->open.since > mono_ms && g->nspans > 0) {
        struct goodput_span *last = &g->spans[g->nspans - 1];
        if (last->run != g->nruns - 1 || last->generation != g->open.generation)
            return;
        int64_t left = at_ms - last->at_ms, loading_ms = last->loading_ms;
        if (left > 0) {
            goodput_resize(last, left);
            g->loading_ms -= loading_ms - last->loading_ms;
            g->open.since = mono_ms;
            return;
        }
        g->loading_ms -= loading_ms;
        g->open.since -= last->ms;
        g->open.from_step = last->from_step;
        g->nspans--;
    }
}

/* The sum falls to 0 with a generation. */
static void take_loading(struct goodput *g, const struct mark *mark)
{
    int64_t more = mark->loading_ms - g->loading_ms;
    g->loading_ms = mark->loading_ms;
    g->open.loading_ms += more > 0 ? more : 0;
}

static void raise_step(struct goodput *g, uint64_t step)
{
    struct goodput_run *run = this_run(g);
    g->open.step = step > g->open.step ? step : g->open.step;
    run->last_step = step > run->last_step ? step : run->last_step;
}

/* --- runs --- */

static void push_before(struct goodput *g, enum goodput_kind kind, int64_t from_ms, int64_t to_ms)
{
    struct goodput_span *span = to_ms > from_ms ? goodput_insert(g, g->nspans) : NULL;
    if (span)
        *span = (struct goodput_span){
            .kind = kind, .run = g->nruns - 1, .at_ms = from_ms, .ms = to_ms - from_ms};
}

/* The scheduler's clock may differ from that of node 0, and a job may start pchrun several times.
 */
static int64_t job_start_of(const struct goodput *g, const struct mark *mark)
{
    int64_t start = mark->job_start_ms;
    int64_t least = g->nruns > 0 ? this_run(g)->last_at_ms : 0;
    if (start == 0 || start > mark->at_ms)
        return mark->at_ms;
    return start > least ? start : least;
}

static struct goodput_run *add_run(struct goodput *g)
{
    if (g->nruns == g->run_room) {
        int room = g->run_room ? 2 * g->run_room : 16;
        struct goodput_run *runs = reallocarray(g->runs, (size_t)room, sizeof *runs);
        if (!runs) {
            g->has_no_memory = true;
            return NULL;
        }
        g->runs = runs;
        g->run_room = room;
    }
    return &g->runs[g->nruns++];
}

static bool begin_run(struct goodput *g, const struct mark *mark)
{
    int64_t start_ms = job_start_of(g, mark);
    int64_t from_ms = g->nruns > 0 ? this_run(g)->last_at_ms : start_ms;
    if (g->nruns > 0) /* it may have been killed */
        close_span(g, MARK_NONE, this_run(g)->last_mono_ms);
    struct goodput_run *run = add_run(g);
    if (!run)
        return false;
    *run = (struct goodput_run){.attempt = mark->attempt,
                                .at_ms = mark->at_ms,
                                .mono_ms = mark->mono_ms,
                                .last_at_ms = mark->at_ms,
                                .last_mono_ms = mark->mono_ms,
                                .resumed = mark->kind == MARK_STARTING ? mark->step : 0,
                                .generations = 1};
    if (mark->job[0])
        str_copy(g->job, sizeof g->job, mark->job);
    push_before(g, GOODPUT_QUEUED, from_ms, start_ms);
    push_before(g, GOODPUT_PREPARING, start_ms, mark->at_ms);
    memset(&g->open, 0, sizeof g->open);
    g->open.since = mark->mono_ms;
    return true;
}

/* Another run of pchrun has written the mark. */
static bool is_of_next_run(const struct goodput *g, const struct mark *mark)
{
    return g->nruns == 0 || mark->job[0] || mark->attempt > this_run(g)->attempt;
}

/* --- marks --- */

static void go_back(struct goodput *g, uint64_t step)
{
    goodput_roll_back(g, step);
    g->goes_back = false;
}

static void begin_generation(struct goodput *g, const struct mark *mark)
{
    g->goes_back = true;
    g->back_to = mark->step;
    g->open.generation = mark->generation;
    g->open.from_step = g->open.step = mark->step;
    this_run(g)->generations = mark->generation + 1;
}

static void open_span(struct goodput *g, const struct mark *mark)
{
    if (mark->kind == MARK_STARTING && (mark->generation != g->open.generation || !g->open.kind))
        begin_generation(g, mark);
    if (mark->kind == MARK_TRAINING && g->goes_back) {
        go_back(g, mark->step);
        g->open.step = mark->step;
    }
    raise_step(g, mark->step);
    g->open.kind = mark->kind;
    g->open.from_step = g->open.step;
}

static void goodput_add_commit(struct goodput *g, const struct mark *mark)
{
    if (g->ncommits == g->commit_room) {
        size_t room = g->commit_room ? 2 * g->commit_room : 64;
        struct goodput_commit *commits = reallocarray(g->commits, room, sizeof *commits);
        if (!commits) {
            g->has_no_memory = true;
            return;
        }
        g->commits = commits;
        g->commit_room = room;
    }
    this_run(g)->commit = mark->step;
    g->commits[g->ncommits++] = (struct goodput_commit){
        .run = g->nruns - 1, .at_ms = wall_of(this_run(g), mark->mono_ms), .step = mark->step};
}

/* A mark that begins no span: a tick or a commit. A step below the last one shows that the program
 * went back by itself. */
static void take_note(struct goodput *g, const struct mark *mark)
{
    bool went_back = mark->kind == MARK_TICK && g->open.kind == MARK_TRAINING && mark->step > 0 &&
                     mark->step < g->open.from_step;
    if (mark->kind == MARK_COMMIT)
        goodput_add_commit(g, mark);
    if (g->open.kind == MARK_TRAINING || g->open.kind == MARK_SAVING)
        raise_step(g, mark->step);
    if (g->open.kind == MARK_TRAINING)
        close_span(g, MARK_TRAINING, mark->mono_ms);
    if (!went_back)
        return;
    go_back(g, mark->step);
    g->open.from_step = g->open.step = mark->step;
}

static void finish_run(struct goodput *g, const struct mark *mark)
{
    struct goodput_run *run = this_run(g);
    str_copy(run->outcome, sizeof run->outcome, mark->outcome[0] ? mark->outcome : "unknown");
    g->open.kind = MARK_NONE;
    if (str_is(run->outcome, "completed")) {
        g->sealed = g->nspans;
        g->goes_back = false;
    }
}

static void take_time(struct goodput_run *run, const struct mark *mark)
{
    int64_t off = (mark->at_ms - run->at_ms) - (mark->mono_ms - run->mono_ms);
    run->has_jumped = run->has_jumped || off > MARK_JUMP_MS || off < -MARK_JUMP_MS;
    if (mark->mono_ms < run->last_mono_ms)
        return;
    run->last_at_ms = mark->at_ms;
    run->last_mono_ms = mark->mono_ms;
}

void goodput_mark(struct goodput *g, const struct mark *given)
{
    struct mark mark = *given;
    g->dropped += mark.dropped;
    if (mark.kind == MARK_NONE)
        return;
    if (is_of_next_run(g, &mark) && !begin_run(g, &mark))
        return;
    struct goodput_run *run = this_run(g);
    if (mark.attempt < run->attempt || run->outcome[0]) {
        g->stray++;
        return;
    }
    if (mark.kind == MARK_HUNG)
        cut_back(g, mark.mono_ms);
    if (mark.mono_ms < g->open.since)
        mark.mono_ms = g->open.since;
    take_time(run, &mark);
    if (mark.kind != MARK_HUNG)
        take_loading(g, &mark);
    if (mark.kind == MARK_TICK || mark.kind == MARK_COMMIT) {
        take_note(g, &mark);
        return;
    }
    if (g->open.kind == MARK_TRAINING || g->open.kind == MARK_SAVING)
        raise_step(g, mark.kind == MARK_STARTING ? 0 : mark.step);
    close_span(g, mark.kind, mark.mono_ms);
    if (mark.kind == MARK_HUNG)
        take_loading(g, &mark); /* the hang has begun long before */
    if (mark.kind == MARK_ENDED)
        finish_run(g, &mark);
    else
        open_span(g, &mark);
}

void goodput_line(struct goodput *g, const char *line, size_t len, bool is_whole)
{
    struct mark mark;
    bool is_damaged;
    if (len == 0)
        return;
    if (mark_parse(line, len, &mark, &is_damaged))
        goodput_mark(g, &mark);
    else if (!is_whole)
        g->is_torn = true;
    else if (is_damaged)
        g->damaged++;
    else
        g->strange++;
}

/* --- the end --- */

/* So the time at which the data was late stays known to one in ten. */
static bool loads_alike(const struct goodput_span *a, const struct goodput_span *b)
{
    double differ = (double)a->loading_ms / (double)a->ms - (double)b->loading_ms / (double)b->ms;
    return differ < 0.1 && differ > -0.1;
}

static void merge_spans(struct goodput *g)
{
    size_t n = 0;
    for (size_t i = 0; i < g->nspans; i++) {
        const struct goodput_span *span = &g->spans[i];
        struct goodput_span *last = n > 0 ? &g->spans[n - 1] : NULL;
        if (last && last->kind == span->kind && last->run == span->run &&
            last->generation == span->generation && last->exclusion == span->exclusion &&
            last->to_step == span->from_step && loads_alike(last, span)) {
            last->ms += span->ms;
            last->loading_ms += span->loading_ms;
            last->to_step = span->to_step;
        } else {
            g->spans[n++] = *span;
        }
    }
    g->nspans = n;
}

/* The training above the last commit, as if the job ended now. */
static int64_t uncommitted_ms(const struct goodput *g)
{
    struct goodput copy = *g;
    const struct goodput_run *run = this_run(g);
    copy.spans = NULL;
    copy.nspans = copy.span_room = 0;
    for (size_t i = 0; i < g->nspans; i++) {
        struct goodput_span *span = goodput_insert(&copy, i);
        if (span)
            *span = g->spans[i];
    }
    goodput_roll_back(&copy, run->commit > run->resumed ? run->commit : run->resumed);
    int64_t ms = goodput_sum(g, -1).ms[GOODPUT_KEPT] - goodput_sum(&copy, -1).ms[GOODPUT_KEPT];
    free(copy.spans);
    return ms;
}

void goodput_end(struct goodput *g, int64_t now_ms)
{
    if (g->nruns == 0)
        return;
    const struct goodput_run *run = this_run(g);
    int64_t silent = now_ms - run->last_at_ms; /* the clocks of two hosts differ a little */
    bool is_open = !run->outcome[0];
    uint64_t kept = run->commit > run->resumed ? run->commit : run->resumed;
    g->is_running = is_open && silent >= -MARK_JUMP_MS && silent <= MARK_SILENT_MS;
    if (g->is_running)
        close_span(g, MARK_NONE, run->last_mono_ms + (silent > 0 ? silent : 0));
    else if (is_open)
        close_span(g, MARK_NONE, run->last_mono_ms);
    if (g->is_running)
        g->uncommitted_ms = g->goes_back ? 0 : uncommitted_ms(g);
    else if (!str_is(run->outcome, "completed"))
        goodput_roll_back(g, g->goes_back ? g->back_to : kept);
    merge_spans(g);
}

void goodput_free(struct goodput *g)
{
    free(g->spans);
    free(g->runs);
    free(g->commits);
    *g = (struct goodput){0};
}

/* --- parts of it --- */

/* Where the span is cut `ms` behind its begin. */
static uint64_t step_after(const struct goodput_span *span, int64_t ms)
{
    double part = span->ms > 0 ? (double)ms / (double)span->ms : 0;
    return span->from_step + (uint64_t)((double)(span->to_step - span->from_step) * part);
}

void goodput_since(struct goodput *g, int64_t from_ms)
{
    size_t n = 0;
    for (size_t i = 0; i < g->nspans; i++) {
        struct goodput_span span = g->spans[i];
        int64_t cut = from_ms - span.at_ms;
        if (cut >= span.ms)
            continue;
        if (cut > 0) {
            span.from_step = step_after(&span, cut);
            span.at_ms += cut;
            goodput_resize(&span, span.ms - cut);
        }
        g->spans[n++] = span;
    }
    g->nspans = n;
}

static bool split_at(struct goodput *g, size_t i, int64_t at_ms)
{
    const struct goodput_span *span = &g->spans[i];
    int64_t ms = at_ms - span->at_ms;
    return ms > 0 && ms < span->ms && goodput_split(g, i, ms, step_after(span, ms));
}

void goodput_exclude(struct goodput *g, int64_t from_ms, int64_t to_ms, int exclusion)
{
    for (size_t i = 0; i < g->nspans; i++) {
        if (split_at(g, i, from_ms))
            continue; /* the second part is next */
        split_at(g, i, to_ms);
        struct goodput_span *span = &g->spans[i];
        if (span->at_ms < from_ms || span->at_ms >= to_ms || span->kind == GOODPUT_EXCLUDED)
            continue;
        span->kind = GOODPUT_EXCLUDED;
        span->loading_ms = 0;
        span->exclusion = exclusion;
    }
    merge_spans(g);
}

struct goodput_sums goodput_sum(const struct goodput *g, int run)
{
    struct goodput_sums sums = {0};
    for (size_t i = 0; i < g->nspans; i++) {
        const struct goodput_span *span = &g->spans[i];
        if (run >= 0 && span->run != run)
            continue;
        sums.ms[span->kind] += span->ms - span->loading_ms;
        sums.ms[GOODPUT_LOADING] += span->loading_ms;
        if (span->kind != GOODPUT_EXCLUDED)
            sums.wall_ms += span->ms;
        if (span->kind == GOODPUT_LOST)
            sums.lost_steps += span->to_step - span->from_step;
    }
    return sums;
}
