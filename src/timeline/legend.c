/* SPDX-License-Identifier: Apache-2.0
 * The kinds of spans: how they look, what they are called, and how much of the time they have. See
 * parts.h.
 */
#include "timeline/parts.h"

#include <inttypes.h>

enum { ROW = 30, COLUMNS = 2, GAP = 36, SWATCH = 34, NAME_AT = 44, SHARE = 98 };

static const struct look {
    const char *class, *name, *letter;
} looks[GOODPUT__COUNT] = {
    [GOODPUT_KEPT] = {"kept", "training, kept", ""},
    [GOODPUT_LOST] = {"lost", "training, lost", "L"},
    [GOODPUT_SAVING] = {"saving", "saving", "V"},
    [GOODPUT_HUNG] = {"hung", "hung", "H"},
    [GOODPUT_STARTING] = {"starting", "starting", "S"},
    [GOODPUT_UNATTACHED] = {"unattached", "not attached", "U"},
    [GOODPUT_RESTARTING] = {"restarting", "restarting in place", "R"},
    [GOODPUT_WAITING] = {"waiting", "waiting for nodes", "W"},
    [GOODPUT_STOPPING] = {"stopping", "stopping", "E"},
    [GOODPUT_QUEUED] = {"queued", "queued", "Q"},
    [GOODPUT_EXCLUDED] = {"excluded", "excluded", "X"},
};

const char *legend_class(enum goodput_kind kind)
{
    return looks[kind].class;
}

const char *legend_name(enum goodput_kind kind)
{
    return looks[kind].name;
}

const char *legend_letter(enum goodput_kind kind)
{
    return looks[kind].letter;
}

static void draw_row(const struct drawing *d, enum goodput_kind kind,
                     const struct goodput_sums *sums, struct svg_at at)
{
    char time[GOODPUT_WORD], share[GOODPUT_WORD] = "", text[GOODPUT_WORD + 4];
    double right = at.x + (DRAW_SPAN - GAP) / (double)COLUMNS;
    fprintf(d->out,
            "<g data-kind=\"%s\" data-ms=\"%" PRId64
            "\"><rect class=\"%s\" x=\"%g\" y=\"%g\" width=\"%d\" height=\"20\"/>",
            goodput_name(kind), sums->ms[kind], looks[kind].class, at.x, at.y - 16, SWATCH);
    if (*looks[kind].letter)
        svg_text(d->out, "letter", (struct svg_at){at.x + SWATCH / 2.0, at.y + 1, SVG_MIDDLE},
                 looks[kind].letter);
    svg_text(d->out, "", (struct svg_at){at.x + NAME_AT, at.y, SVG_START}, looks[kind].name);
    svg_text(d->out, "", (struct svg_at){right - SHARE, at.y, SVG_END},
             goodput_lasting(sums->ms[kind], time));
    snprintf(text, sizeof text, "%s %%", goodput_percent(sums->ms[kind], sums->wall_ms, share));
    if (kind != GOODPUT_EXCLUDED)
        svg_text(d->out, "muted", (struct svg_at){right, at.y, SVG_END}, text);
    fputs("</g>\n", d->out);
}

/* Only kinds that the job has; the training that was kept is always there. */
double legend_draw(const struct drawing *d, double y)
{
    struct goodput_sums sums = goodput_sum(d->of, -1);
    int n = 0, row = 0;
    fputs("<g id=\"legend\">\n", d->out);
    for (int kind = 0; kind < GOODPUT__COUNT; kind++) {
        if (sums.ms[kind] == 0 && kind != GOODPUT_KEPT)
            continue;
        int column = n++ % COLUMNS;
        row += column == 0;
        struct svg_at at = {.x = DRAW_LEFT + column * (DRAW_SPAN + GAP) / (double)COLUMNS,
                            .y = y + ROW * row};
        draw_row(d, (enum goodput_kind)kind, &sums, at);
    }
    fputs("</g>\n", d->out);
    return y + ROW * row;
}
