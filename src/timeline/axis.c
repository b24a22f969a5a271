/* SPDX-License-Identifier: Apache-2.0
 * The axis of time, with lines through the picture. See parts.h.
 */
#include "timeline/parts.h"

#include "base/clock.h"
#include "base/str.h"

#include <inttypes.h>

#define SECOND INT64_C(1000)
#define MINUTE (60 * SECOND)
#define HOUR   (60 * MINUTE)
#define DAY    (24 * HOUR)

enum { TICKS_MAX = 9, EDGE = DRAW_WIDTH - 10 };

/* The time between two ticks. */
static int64_t axis_tick(int64_t total_ms)
{
    static const int64_t steps[] = {
        100,         200,         500,      SECOND,     2 * SECOND, 5 * SECOND,  10 * SECOND,
        20 * SECOND, 30 * SECOND, MINUTE,   2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 20 * MINUTE,
        30 * MINUTE, HOUR,        2 * HOUR, 3 * HOUR,   6 * HOUR,   12 * HOUR,   DAY,
        2 * DAY,     5 * DAY,     10 * DAY, 20 * DAY,   50 * DAY};
    for (size_t i = 0; i < ARRAY_LEN(steps); i++)
        if (total_ms / steps[i] < TICKS_MAX)
            return steps[i];
    int64_t ret = 100 * DAY;
    while (total_ms / ret >= TICKS_MAX)
        ret *= 2;
    return ret;
}

/* "0", "1.5 s", "20 min": in the unit of the ticks. */
static void name_tick(int64_t ms, int64_t tick, char *text, size_t size)
{
    static const struct {
        int64_t ms;
        const char *name;
    } units[] = {{DAY, "d"}, {HOUR, "h"}, {MINUTE, "min"}, {SECOND, "s"}};
    size_t i = 0;
    while (i + 1 < ARRAY_LEN(units) && tick < units[i].ms)
        i++;
    text[0] = '\0';
    if (ms == 0)
        str_copy(text, size, "0");
    else if (ms % units[i].ms == 0)
        str_addf(text, size, "%" PRId64 " %s", ms / units[i].ms, units[i].name);
    else
        str_addf(text, size, "%.1f %s", (double)ms / (double)units[i].ms, units[i].name);
}

/* "2026-11-28 10:00:07 UTC" */
static void name_date(int64_t ms, char *text, size_t size)
{
    char date[GOODPUT_WORD];
    clock_iso8601(ms * NS_PER_MS, date, sizeof date);
    date[10] = ' ';
    date[19] = '\0';
    text[0] = '\0';
    str_addf(text, size, "%s UTC", date);
}

static void draw_dates(const struct drawing *d, double y)
{
    char text[GOODPUT_WORD];
    const struct goodput *g = d->of;
    const struct goodput_span *last = &g->spans[g->nspans - 1];
    name_date(g->spans[0].at_ms, text, sizeof text);
    svg_text(d->out, "small muted", (struct svg_at){DRAW_LEFT, y, SVG_START}, text);
    if (g->is_running)
        str_copy(text, sizeof text, "now, still running");
    else
        name_date(last->at_ms + last->ms, text, sizeof text);
    svg_text(d->out, "small muted", (struct svg_at){DRAW_RIGHT, y, SVG_END}, text);
}

double axis_draw(const struct drawing *d, double top, double y)
{
    char text[GOODPUT_WORD];
    int64_t tick = axis_tick(d->total_ms);
    fprintf(d->out, "<path class=\"axis\" d=\"M%d %gH%d\"/>\n", DRAW_LEFT, y, DRAW_RIGHT);
    for (int64_t ms = 0; ms <= d->total_ms; ms += tick) {
        double x = svg_round(place_x(d, ms));
        fprintf(d->out, "<path class=\"grid\" d=\"M%g %gV%g\"/>\n", x, top, y + 6);
        name_tick(ms, tick, text, sizeof text);
        double half = svg_width(text, DRAW_SMALL) / 2;
        svg_text(d->out, "small muted",
                 (struct svg_at){x + half > EDGE ? EDGE - half : x, y + 25, SVG_MIDDLE}, text);
    }
    draw_dates(d, y + 51);
    return y + 58;
}
