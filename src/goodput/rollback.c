/* SPDX-License-Identifier: Apache-2.0
 * Which training is lost when a job goes back to an earlier step. See goodput.h.
 */
#include "goodput/goodput.h"

#include <stdlib.h>
#include <string.h>

struct goodput_span *goodput_insert(struct goodput *g, size_t at)
{
    if (g->nspans == g->span_room) {
        size_t room = g->span_room ? 2 * g->span_room : 64;
        struct goodput_span *spans = reallocarray(g->spans, room, sizeof *spans);
        if (!spans) {
            g->has_no_memory = true;
            return NULL;
        }
        g->spans = spans;
        g->span_room = room;
    }
    memmove(&g->spans[at + 1], &g->spans[at], (g->nspans - at) * sizeof g->spans[0]);
    g->nspans++;
    g->spans[at] = (struct goodput_span){0};
    return &g->spans[at];
}

void goodput_resize(struct goodput_span *span, int64_t ms)
{
    double part = span->ms > 0 ? (double)ms / (double)span->ms : 0;
    span->loading_ms = (int64_t)((double)span->loading_ms * part + 0.5);
    span->ms = ms;
}

bool goodput_split(struct goodput *g, size_t i, int64_t ms, uint64_t step)
{
    if (!goodput_insert(g, i + 1))
        return false;
    struct goodput_span *first = &g->spans[i], *second = &g->spans[i + 1];
    *second = *first;
    goodput_resize(first, ms);
    first->to_step = second->from_step = step;
    second->at_ms += ms;
    second->ms -= ms;
    second->loading_ms -= first->loading_ms;
    return true;
}

/* When the training came to `step`, behind the begin of the span. */
static int64_t reached_after(const struct goodput_span *span, uint64_t step)
{
    double part = (double)(step - span->from_step) / (double)(span->to_step - span->from_step);
    return (int64_t)((double)span->ms * part + 0.5);
}

static void lose(struct goodput_span *span)
{
    span->kind = GOODPUT_LOST;
    span->loading_ms = 0;
}

/* Older training than the first kept span that ends at or below the step was below it, too. */
void goodput_roll_back(struct goodput *g, uint64_t step)
{
    for (size_t i = g->nspans; i-- > g->sealed;) {
        struct goodput_span *span = &g->spans[i];
        if (span->kind != GOODPUT_KEPT)
            continue;
        if (span->from_step >= step) {
            lose(span);
            continue;
        }
        if (span->to_step > step && goodput_split(g, i, reached_after(span, step), step))
            lose(&g->spans[i + 1]);
        return;
    }
}
