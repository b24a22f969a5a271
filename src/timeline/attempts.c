/* SPDX-License-Identifier: Apache-2.0
 * The attempts: a bracket below the bar for each, with its number and how it ended. See parts.h.
 */
#include "timeline/parts.h"

#include "base/str.h"

#include <inttypes.h>
#include <string.h>

enum { ROW = 36, HOOK = 7, APART = 2, PADDING = 10, NONE = -1 };

bool attempts_next(const struct drawing *d, int run, struct bracket *ret)
{
    int64_t from, to;
    *ret = (struct bracket){.first = NONE};
    for (; run < d->of->nruns; run++) {
        if (!place_of_run(d, run, &from, &to))
            continue;
        if (ret->first == NONE) {
            ret->first = run;
            ret->from = place_x(d, from);
        }
        ret->last = run;
        ret->to = place_x(d, to);
        if (ret->to - ret->from >= 3 * APART)
            break;
    }
    return ret->first != NONE;
}

static void attempts_ending(const struct drawing *d, int run, char *text, size_t size)
{
    str_copy(text, size, goodput_ending(d->of, run));
    for (char *c = text; (c = strchr(c, '_'));)
        *c = ' ';
}

const char *attempts_end(const struct drawing *d, int run)
{
    if (d->of->is_running && run == d->of->nruns - 1) /* the end is of a node that has left */
        return "";
    for (size_t i = 0; i < d->in->nmoments; i++) {
        const struct timeline_moment *moment = &d->in->moments[i];
        if (moment->kind == TIMELINE_END && moment->attempt == d->of->runs[run].attempt)
            return moment->text;
    }
    return "";
}

static void attempts_describe(const struct drawing *d, const struct bracket *b, char *text,
                              size_t size)
{
    char ending[GOODPUT_WORD], time[GOODPUT_WORD];
    const struct goodput_run *first = &d->of->runs[b->first];
    struct goodput_sums sums = goodput_sum(d->of, b->first);
    int64_t before_ms = sums.ms[GOODPUT_QUEUED] + sums.ms[GOODPUT_PREPARING];
    text[0] = '\0';
    if (b->last > b->first) {
        str_addf(text, size, "attempts %" PRId64 " to %" PRId64, first->attempt,
                 d->of->runs[b->last].attempt);
        return;
    }
    attempts_ending(d, b->first, ending, sizeof ending);
    const char *words = attempts_end(d, b->first);
    str_addf(text, size, "attempt %" PRId64 ", %s: %s%s%s", first->attempt,
             goodput_lasting(sums.wall_ms - before_ms, time), ending, *words ? ", " : "", words);
}

/* The longest label that fits. */
static void label(const struct drawing *d, const struct bracket *b, double y, double room)
{
    char text[80], ending[GOODPUT_WORD];
    int64_t first = d->of->runs[b->first].attempt, last = d->of->runs[b->last].attempt;
    attempts_ending(d, b->first, ending, sizeof ending);
    for (int form = last > first ? 3 : 0; form < 4; form++) {
        text[0] = '\0';
        if (form == 3 && last > first)
            str_addf(text, sizeof text, "%" PRId64 "-%" PRId64, first, last);
        else
            str_addf(text, sizeof text, "%s%" PRId64 "%s%s", form == 0 ? "attempt " : "", first,
                     form < 2 ? ": " : "", form < 2 ? ending : "");
        if (svg_width(text, DRAW_SMALL) + PADDING <= room) {
            svg_text(d->out, "small", (struct svg_at){(b->from + b->to) / 2, y + 26, SVG_MIDDLE},
                     text);
            return;
        }
    }
}

static void draw_bracket(const struct drawing *d, const struct bracket *b, double y)
{
    char text[TIMELINE_TEXT + 200];
    attempts_describe(d, b, text, sizeof text);
    fprintf(d->out, "<path class=\"bracket\" d=\"M%g %gv%dH%gv-%d\">", svg_round(b->from + 0.5), y,
            HOOK, svg_round(b->to - 0.5), HOOK);
    svg_title(d->out, text);
    fputs("</path>\n", d->out);
}

/* A label may be wider than its bracket, up to the middle between two brackets. */
double attempts_draw(const struct drawing *d, double y)
{
    struct bracket b, next;
    double left = DRAW_LEFT;
    for (bool is_there = attempts_next(d, 0, &b); is_there;) {
        is_there = attempts_next(d, b.last + 1, &next);
        double right = is_there ? (b.to + next.from) / 2 : DRAW_RIGHT;
        double middle = (b.from + b.to) / 2;
        draw_bracket(d, &b, y);
        label(d, &b, y, 2 * (right - middle < middle - left ? right - middle : middle - left));
        left = right;
        b = next;
    }
    return y + ROW;
}
