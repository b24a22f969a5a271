/* SPDX-License-Identifier: Apache-2.0
 * The steps over the time: training that was kept, training that was lost, and how far the job went
 * back. See parts.h.
 */
#include "timeline/parts.h"

#include "base/str.h"

#include <inttypes.h>

enum { HEIGHT = 150, BELOW = 28, TICKS = 4, LABELS_MAX = 12 };

struct chart {
    const struct drawing *d;
    double top, base; /* the y of the highest and of the lowest step */
    uint64_t low, high, tick;
};

/* 1, 2 or 5 times a power of ten: at least a part of the range. */
static uint64_t steps_tick(uint64_t range)
{
    uint64_t power = 1;
    while (range / power > 5 * TICKS && power < UINT64_MAX / 100)
        power *= 10;
    for (uint64_t factor = 1; factor <= 5; factor = factor == 2 ? 5 : 2 * factor)
        if (range <= factor * power * TICKS)
            return factor * power;
    return 10 * power;
}

static void scale(struct chart *chart)
{
    uint64_t low = UINT64_MAX, high = 0;
    for (size_t i = 0; i < chart->d->npieces; i++) {
        const struct piece *piece = &chart->d->pieces[i];
        uint64_t least = piece->from_step < piece->to_step ? piece->from_step : piece->to_step;
        low = least < low ? least : low;
        high = piece->top_step > high ? piece->top_step : high;
    }
    chart->tick = steps_tick(high > low ? high - low : 1);
    chart->low = low / chart->tick * chart->tick;
    chart->high = high > chart->low ? high : chart->low + 1;
}

static double y_of(const struct chart *chart, uint64_t step)
{
    double part = (double)(step - chart->low) / (double)(chart->high - chart->low);
    return svg_round(chart->base - part * (chart->base - chart->top));
}

/* "0", "1500", "40k", "2.5M" */
static void name_step(uint64_t step, char *text, size_t size)
{
    text[0] = '\0';
    if (step < 10000)
        str_addf(text, size, "%llu", ull(step));
    else if (step < 1000000)
        str_addf(text, size, "%gk", (double)step / 1e3);
    else
        str_addf(text, size, "%gM", (double)step / 1e6);
}

static void draw_scale(const struct chart *chart)
{
    char text[GOODPUT_WORD];
    for (uint64_t step = chart->low; step <= chart->high; step += chart->tick) {
        double y = y_of(chart, step);
        fprintf(chart->d->out, "<path class=\"grid\" d=\"M%d %gH%d\"/>\n", DRAW_LEFT, y,
                DRAW_RIGHT);
        name_step(step, text, sizeof text);
        svg_text(chart->d->out, "small muted", (struct svg_at){DRAW_LEFT - 8, y + 6, SVG_END},
                 text);
    }
}

/* --- the lines --- */

enum line { LINE_KEPT, LINE_LOST, LINE_IDLE };

static enum line line_of(const struct piece *piece)
{
    enum goodput_kind kind = place_kind(piece);
    if (piece->top_step == piece->from_step && piece->to_step == piece->from_step)
        return LINE_IDLE;
    return kind == GOODPUT_LOST ? LINE_LOST : LINE_KEPT;
}

static void draw_line(const struct chart *chart, enum line line, const char *class)
{
    const struct drawing *d = chart->d;
    fprintf(d->out, "<path class=\"%s\" d=\"", class);
    for (size_t i = 0; i < d->npieces; i++) {
        const struct piece *piece = &d->pieces[i];
        if (line_of(piece) == line)
            fprintf(d->out, "M%g %gL%g %g", svg_round(place_x(d, piece->from_ms)),
                    y_of(chart, piece->from_step),
                    svg_round(place_x(d, piece->from_ms + piece->ms)),
                    y_of(chart, piece->top_step));
    }
    fputs("\"/>\n", d->out);
}

/* --- the ways back --- */

struct way_back {
    double x;
    uint64_t from_step, to_step;
};

/* The next one from piece *i on. Several steps back within a piece are one. */
static bool next_way_back(const struct drawing *d, size_t *i, struct way_back *ret)
{
    for (; *i < d->npieces; ++*i) {
        const struct piece *piece = &d->pieces[*i];
        bool has_next = *i + 1 < d->npieces;
        uint64_t to = has_next ? d->pieces[*i + 1].from_step : piece->to_step;
        if (piece->top_step > to) {
            ret->x = place_x(d, piece->from_ms + piece->ms);
            ret->from_step = piece->top_step;
            ret->to_step = to;
            ++*i;
            return true;
        }
    }
    return false;
}

static void draw_ways_back(const struct chart *chart)
{
    struct way_back way;
    fputs("<path class=\"back\" d=\"", chart->d->out);
    for (size_t i = 0; next_way_back(chart->d, &i, &way);)
        fprintf(chart->d->out, "M%g %gV%g", svg_round(way.x), y_of(chart, way.from_step),
                y_of(chart, way.to_step));
    fputs("\"/>\n", chart->d->out);
}

struct label {
    double from, to, y;
};

static bool is_free(const struct label *labels, int n, struct label wanted)
{
    for (int i = 0; i < n; i++)
        if (wanted.from < labels[i].to && labels[i].from < wanted.to &&
            wanted.y < labels[i].y + DRAW_SMALL && labels[i].y < wanted.y + DRAW_SMALL)
            return false;
    return true;
}

/* The largest one whose steps are below `limit`, or as many at a later place. False: none that is
 * large enough to be seen. */
static bool next_largest(const struct chart *chart, uint64_t limit, double after,
                         struct way_back *ret)
{
    struct way_back way;
    uint64_t least = (chart->high - chart->low) / 100, most = least;
    for (size_t i = 0; next_way_back(chart->d, &i, &way);) {
        uint64_t steps = way.from_step - way.to_step;
        if (steps > most && (steps < limit || (steps == limit && way.x > after))) {
            most = steps;
            *ret = way;
        }
    }
    return most > least;
}

/* There is room right of the way back, below the line, or left of it, above the line. The largest
 * come first. */
static void label_ways_back(const struct chart *chart)
{
    struct label labels[LABELS_MAX];
    struct way_back way = {.x = 0};
    uint64_t limit = UINT64_MAX;
    for (int n = 0; n < LABELS_MAX && next_largest(chart, limit, way.x, &way);) {
        char text[64] = "";
        limit = way.from_step - way.to_step;
        str_addf(text, sizeof text, "%llu step%s lost", ull(limit), limit == 1 ? "" : "s");
        double width = svg_width(text, DRAW_SMALL) + 8;
        bool is_left = way.x + width > DRAW_RIGHT;
        struct label label = {.from = is_left ? way.x - width : way.x,
                              .to = is_left ? way.x : way.x + width,
                              .y = is_left ? y_of(chart, way.from_step) - 9
                                           : y_of(chart, way.to_step) + 21};
        if (!is_free(labels, n, label))
            continue;
        svg_text(chart->d->out, "small cause-text",
                 (struct svg_at){is_left ? way.x - 4 : way.x + 4, label.y,
                                 is_left ? SVG_END : SVG_START},
                 text);
        labels[n++] = label;
    }
}

double steps_draw(const struct drawing *d, double y)
{
    struct chart chart = {.d = d, .top = y + 26, .base = y + 26 + HEIGHT};
    if (!place_has_steps(d))
        return y;
    scale(&chart);
    svg_text(d->out, "small muted", (struct svg_at){DRAW_LEFT - 8, y + 6, SVG_END}, "step");
    draw_scale(&chart);
    draw_line(&chart, LINE_IDLE, "idle");
    draw_ways_back(&chart);
    draw_line(&chart, LINE_KEPT, "climb");
    draw_line(&chart, LINE_LOST, "climb-lost");
    label_ways_back(&chart);
    return chart.base + BELOW;
}
