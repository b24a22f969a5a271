/* SPDX-License-Identifier: Apache-2.0
 * The kinds of spans: how they look, what they are called, and how much of the time they have. See
 * parts.h.
 */
#include "timeline/parts.h"

#include <inttypes.h>

enum { ROW = 30, COLUMNS = 2, GAP = 36, SWATCH = 34, NAME_AT = 44, SHARE = 98 };

/* Each kind has a pattern of its own, so that it is known without its colour. */
/* clang-format off */
static const struct look looks[GOODPUT__COUNT] = {
    [GOODPUT_KEPT] = {"kept", "training, kept", "",
        {"#24806b", ""}, {"#2f9c83", ""}, .shape = ""},
    [GOODPUT_LOST] = {"lost", "training, lost", "L",
        {"#f9dcd8", "#cf3f3f"}, {"#4a1f20", "#f0716b"}, 9, 45, .shape = "M0 4.5H9"},
    [GOODPUT_LOADING] = {"loading", "waiting for data", "D",
        {"#d8f0ea", "#1c6b59"}, {"#143d34", "#5cc7ae"}, 10, 0, true, "M3 3h4v4h-4z"},
    [GOODPUT_SAVING] = {"saving", "saving", "V",
        {"#2f5fb3", "#cfe0ff"}, {"#6f9fe8", "#173a75"}, 6, 0, .shape = "M0 3H6"},
    [GOODPUT_HUNG] = {"hung", "hung", "H",
        {"#ecdcf5", "#7b2fa8"}, {"#3a2348", "#c68be6"}, 9, 45, .shape = "M0 4.5H9M4.5 0V9"},
    [GOODPUT_STARTING] = {"starting", "starting", "S",
        {"#fbe7c2", "#a8690a"}, {"#4a3714", "#e6b04a"}, 8, 0, true, "M2 2h2.6v2.6h-2.6z"},
    [GOODPUT_UNATTACHED] = {"unattached", "not attached", "U",
        {"#d5d9de", "#57606d"}, {"#3b4450", "#a3aebc"}, 12, 45, true, "M3 3h3v3h-3z"},
    [GOODPUT_RESTARTING] = {"restarting", "restarting in place", "R",
        {"#f6cf95", "#7a4d00"}, {"#6b4a12", "#f0c36a"}, 8, -45, .shape = "M0 4H8"},
    [GOODPUT_WAITING] = {"waiting", "waiting for nodes", "W",
        {"#dbe7fb", "#2f5fb3"}, {"#1f3354", "#8db4f5"}, 12, 0, .shape = "M6 0V12"},
    [GOODPUT_STOPPING] = {"stopping", "stopping", "E",
        {"#d5d9de", "#57606d"}, {"#3b4450", "#a3aebc"}, 12, 0, .shape = "M0 6H6"},
    [GOODPUT_PREPARING] = {"preparing", "preparing", "P",
        {"#fdf3dd", "#a8690a"}, {"#33290f", "#e6b04a"}, 14, 45, .shape = "M0 7H14"},
    [GOODPUT_QUEUED] = {"queued", "queued", "Q",
        {"#f5f6f8", "#a9b1bb"}, {"#1a2029", "#5d6875"}, 14, -45, .shape = "M0 7H14"},
    [GOODPUT_EXCLUDED] = {"excluded", "excluded", "X",
        {"#ffffff", "#57606d"}, {"#11151b", "#a3aebc"}, 14, 0, .shape = "M4 4l6 6m0 -6l-6 6"},
};
/* clang-format on */

const struct look *legend_look(enum goodput_kind kind)
{
    return &looks[kind];
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
