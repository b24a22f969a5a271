/* SPDX-License-Identifier: Apache-2.0
 * The bar with all spans, and the ticks of the commits below it. See parts.h.
 */
#include "timeline/parts.h"

#include "base/str.h"

#include <inttypes.h>

enum { BAR = 48, TICK = 12, TICK_APART = 2, LETTER_WIDTH = 24 };

struct bar_box {
    double x, y, width;
};

/* Describes the span, or gives the sums of the kinds of several spans. */
static void bar_describe(const struct drawing *d, const struct piece *piece, char *text,
                         size_t size)
{
    char time[GOODPUT_WORD];
    const struct goodput_span *span = piece->first;
    text[0] = '\0';
    if (piece->n > 1) {
        str_addf(text, size, "%zu spans", piece->n);
        for (int kind = 0; kind < GOODPUT__COUNT; kind++)
            if (piece->of_kind[kind])
                str_addf(text, size, ", %s: %s", legend_look((enum goodput_kind)kind)->name,
                         goodput_lasting(piece->of_kind[kind], time));
        return;
    }
    str_addf(text, size, "%s: %s, attempt %" PRId64, legend_look(span->kind)->name,
             goodput_lasting(span->ms, time), d->of->runs[span->run].attempt);
    if (span->loading_ms)
        str_addf(text, size, ", of it %s: %s", legend_look(GOODPUT_LOADING)->name,
                 goodput_lasting(span->loading_ms, time));
    if (span->to_step > span->from_step)
        str_addf(text, size, ", steps %llu to %llu", ull(span->from_step), ull(span->to_step));
    if (span->kind == GOODPUT_EXCLUDED && span->exclusion < d->in->nreasons)
        str_addf(text, size, ": %s", d->in->reasons[span->exclusion]);
}

/* Each kind has the height of its share, so that its area is its time; the first one is at the
 * foot. */
static void draw_shares(const struct drawing *d, const struct piece *piece, struct bar_box box)
{
    int64_t below_ms = 0;
    for (int kind = 0; kind < GOODPUT__COUNT; kind++) {
        if (!piece->of_kind[kind])
            continue;
        double foot = svg_round(BAR * (1 - (double)below_ms / (double)piece->ms));
        below_ms += piece->of_kind[kind];
        double top = svg_round(BAR * (1 - (double)below_ms / (double)piece->ms));
        fprintf(d->out,
                "<rect class=\"%s\" x=\"%g\" y=\"%g\" width=\"%g\" height=\"%g\" data-kind=\"%s\" "
                "data-ms=\"%" PRId64 "\"/>",
                legend_look((enum goodput_kind)kind)->class, box.x, svg_round(box.y + top),
                box.width, svg_round(foot - top), goodput_name((enum goodput_kind)kind),
                piece->of_kind[kind]);
    }
}

/* Edges are rounded, not widths, so that the bar has neither gaps nor overlaps. */
static void draw_piece(const struct drawing *d, const struct piece *piece, double y)
{
    char text[600];
    enum goodput_kind kind = place_kind(piece);
    const struct look *look = legend_look(kind);
    double from = svg_round(place_x(d, piece->from_ms));
    double to = svg_round(place_x(d, piece->from_ms + piece->ms));
    struct bar_box box = {from, y, svg_round(to - from)};
    bar_describe(d, piece, text, sizeof text);
    fprintf(d->out, "<g data-spans=\"%zu\">", piece->n);
    svg_title(d->out, text);
    draw_shares(d, piece, box);
    fputs("</g>\n", d->out);
    if (!place_is_mixed(piece) && to - from >= LETTER_WIDTH && *look->letter)
        svg_text(d->out, "letter", (struct svg_at){(from + to) / 2, y + BAR / 2.0 + 7, SVG_MIDDLE},
                 look->letter);
}

const struct goodput_commit *bar_next_commit(const struct drawing *d, size_t *i, double *last,
                                             int64_t *ret_ms)
{
    while (*i < d->of->ncommits) {
        const struct goodput_commit *commit = &d->of->commits[(*i)++];
        if (!place_in_run(d, commit->run, commit->at_ms, ret_ms))
            continue;
        double x = place_x(d, *ret_ms);
        bool touches = *last > 0 && x - *last < TICK_APART;
        if (touches)
            continue;
        *last = x;
        return commit;
    }
    return NULL;
}

static void draw_commits(const struct drawing *d, double y)
{
    const struct goodput_commit *commit;
    size_t i = 0;
    double x = 0;
    int64_t ms;
    while ((commit = bar_next_commit(d, &i, &x, &ms)))
        fprintf(
            d->out,
            "<path class=\"commit\" d=\"M%g %gv%d\"><title>commit of step %llu</title></path>\n",
            svg_round(x), y, TICK, ull(commit->step));
}

double bar_draw(const struct drawing *d, double y)
{
    fputs("<g id=\"spans\">\n", d->out);
    for (size_t i = 0; i < d->npieces; i++)
        draw_piece(d, &d->pieces[i], y);
    fputs("</g>\n", d->out);
    fprintf(d->out, "<path class=\"edge\" d=\"M%d %gH%dV%gH%dZ\"/>\n", DRAW_LEFT, y, DRAW_RIGHT,
            y + BAR, DRAW_LEFT);
    draw_commits(d, y + BAR + 3);
    return y + BAR + 3 + TICK;
}
