/* SPDX-License-Identifier: Apache-2.0
 * Where a moment is in the picture. See parts.h.
 *
 * The spans follow each other without a gap, so the x of a span follows from the times of those
 * before it. The wall clock, which may have been set, counts only within a run.
 */
#include "timeline/parts.h"

#include <stdlib.h>

/* A moment may be told this much before the first mark of its run. */
#define EARLY_MS 1000

static void find_runs(struct drawing *d)
{
    const struct goodput *g = d->of;
    size_t i = 0;
    for (int run = 0; run < g->nruns; run++) {
        while (i < g->nspans && (g->spans[i].run < run ||
                                 (g->spans[i].run == run && goodput_is_before(g->spans[i].kind))))
            i++;
        d->begins[run] = i;
    }
    d->begins[g->nruns] = g->nspans;
}

/* The time before a run has no steps, even if it is excluded. */
static bool has_steps(const struct goodput_span *span)
{
    bool is_nought = span->from_step == 0 && span->to_step == 0;
    return !goodput_is_before(span->kind) && !(span->kind == GOODPUT_EXCLUDED && is_nought);
}

static uint64_t first_level(const struct goodput *g)
{
    for (size_t i = 0; i < g->nspans; i++)
        if (has_steps(&g->spans[i]))
            return g->spans[i].from_step;
    return 0;
}

static bool is_narrower(const struct drawing *d, int64_t ms, double width)
{
    return (double)ms * DRAW_SPAN < width * (double)d->total_ms;
}

/* True if the span is drawn together with the last piece. */
static bool joins_last(const struct drawing *d, const struct goodput_span *span)
{
    const struct piece *last = d->npieces > 0 ? &d->pieces[d->npieces - 1] : NULL;
    return last && is_narrower(d, span->ms, DRAW_PIXEL) &&
           is_narrower(d, last->ms, last->n > 1 ? DRAW_TOGETHER : DRAW_PIXEL);
}

static void cut_pieces(struct drawing *d)
{
    uint64_t level = first_level(d->of);
    for (size_t i = 0; i < d->of->nspans; i++) {
        const struct goodput_span *span = &d->of->spans[i];
        uint64_t from = has_steps(span) ? span->from_step : level;
        level = has_steps(span) ? span->to_step : level;
        if (!joins_last(d, span))
            d->pieces[d->npieces++] = (struct piece){
                .from_ms = d->from_ms[i], .first = span, .from_step = from, .top_step = from};
        struct piece *piece = &d->pieces[d->npieces - 1];
        piece->n++;
        piece->ms += span->ms;
        piece->of_kind[span->kind] += span->ms - span->loading_ms;
        piece->of_kind[GOODPUT_LOADING] += span->loading_ms;
        piece->to_step = level;
        piece->top_step = level > piece->top_step ? level : piece->top_step;
    }
}

bool place_begin(struct drawing *d)
{
    const struct goodput *g = d->of;
    d->from_ms = calloc(g->nspans + 1, sizeof *d->from_ms);
    d->begins = calloc((size_t)g->nruns + 1, sizeof *d->begins);
    d->pieces = calloc(PIECES_MAX, sizeof *d->pieces);
    if (!d->from_ms || !d->begins || !d->pieces)
        return false;
    for (size_t i = 0; i < g->nspans; i++)
        d->from_ms[i + 1] = d->from_ms[i] + g->spans[i].ms;
    d->total_ms = d->from_ms[g->nspans];
    find_runs(d);
    cut_pieces(d);
    return true;
}

void place_end(struct drawing *d)
{
    free(d->from_ms);
    free(d->begins);
    free(d->pieces);
}

double place_x(const struct drawing *d, int64_t ms)
{
    return DRAW_LEFT + DRAW_SPAN * ((double)ms / (double)d->total_ms);
}

/* Behind the last span of the run. */
static size_t end_of_run(const struct drawing *d, int run)
{
    size_t end = d->begins[run + 1];
    while (end > d->begins[run] && d->of->spans[end - 1].run != run)
        end--;
    return end;
}

bool place_of_run(const struct drawing *d, int run, int64_t *ret_from_ms, int64_t *ret_to_ms)
{
    size_t end = end_of_run(d, run);
    *ret_from_ms = d->from_ms[d->begins[run]];
    *ret_to_ms = d->from_ms[end];
    return end > d->begins[run];
}

int place_count_runs(const struct drawing *d)
{
    int64_t from, to;
    int n = 0;
    for (int run = 0; run < d->of->nruns; run++)
        n += place_of_run(d, run, &from, &to);
    return n;
}

bool place_in_run(const struct drawing *d, int run, int64_t at_ms, int64_t *ret)
{
    const struct goodput_span *spans = d->of->spans;
    size_t low = d->begins[run], high = end_of_run(d, run);
    if (low == high || at_ms < spans[low].at_ms - EARLY_MS)
        return false;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (spans[middle].at_ms <= at_ms)
            low = middle;
        else
            high = middle;
    }
    int64_t after = at_ms - spans[low].at_ms;
    after = after < 0 ? 0 : after > spans[low].ms ? spans[low].ms : after;
    *ret = d->from_ms[low] + after;
    return true;
}

int place_run_of(const struct drawing *d, int64_t attempt, int64_t at_ms)
{
    int ret = -1;
    for (int run = 0; run < d->of->nruns; run++)
        if (d->of->runs[run].attempt == attempt &&
            (ret < 0 || d->of->runs[run].at_ms - EARLY_MS <= at_ms))
            ret = run;
    return ret;
}

enum goodput_kind place_kind(const struct piece *piece)
{
    int ret = 0;
    for (int kind = 0; kind < GOODPUT__COUNT; kind++)
        if (piece->of_kind[kind] > piece->of_kind[ret])
            ret = kind;
    return (enum goodput_kind)ret;
}

bool place_is_mixed(const struct piece *piece)
{
    return piece->of_kind[place_kind(piece)] < piece->ms;
}

bool place_has_steps(const struct drawing *d)
{
    for (size_t i = 0; i < d->npieces; i++)
        if (d->pieces[i].top_step > 0)
            return true;
    return false;
}
