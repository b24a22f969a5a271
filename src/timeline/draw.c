/* SPDX-License-Identifier: Apache-2.0
 * See timeline.h. The frame of the picture: its style, its head line, and what is below the legend.
 */
#include "timeline/timeline.h"

#include "base/str.h"
#include "timeline/parts.h"

#include <inttypes.h>
#include <stdlib.h>

/* Plain colours in each rule: many programs that convert SVG know no variables. */
static const char style[] =
    "svg{font:20px system-ui,-apple-system,\"Segoe UI\",Roboto,\"DejaVu Sans\",sans-serif}\n"
    "text{fill:#1a1f27}"
    ".head{font-weight:600}.small{font-size:18px}.muted{fill:#57606d}\n"
    ".letter{font-size:17px;font-weight:600;text-anchor:middle;stroke:#fff;stroke-width:5px;"
    "stroke-linejoin:round;paint-order:stroke}\n"
    ".over{stroke:#fff;stroke-width:4px;stroke-linejoin:round;paint-order:stroke}\n"
    ".notice-text{fill:#7a4d00}.cause-text{fill:#b42318}\n"
    ".paper{fill:#fff;stroke:#d9dde3}.edge{fill:none;stroke:#57606d;stroke-width:1.5}\n"
    ".grid{stroke:#e4e7eb;stroke-width:1.5}.axis{stroke:#858e9b;stroke-width:1.5}"
    ".bracket{fill:none;stroke:#57606d;stroke-width:1.5}.commit{stroke:#1a1f27;stroke-width:2}\n"
    ".pole{stroke:#57606d;stroke-width:1.5}.notice{fill:#d98a00;stroke:#7a4d00}"
    ".cause{fill:#cf3f3f;stroke:#8a1f1f}.cross{stroke:#fff;stroke-width:2.5}\n"
    ".climb,.climb-lost,.idle,.back{fill:none;stroke-width:3.5;stroke-linecap:round}"
    ".climb{stroke:#24806b}.climb-lost{stroke:#cf3f3f}"
    ".idle{stroke:#a9b1bb;stroke-width:2}"
    ".back{stroke:#cf3f3f;stroke-width:2;stroke-dasharray:2 5}\n";

static const char dark_style[] =
    "text{fill:#e8ecf1}.muted{fill:#a3aebc}.letter{stroke:#1a2029}\n"
    ".over{stroke:#11151b}.notice-text{fill:#e6b04a}.cause-text{fill:#ff9d95}\n"
    ".paper{fill:#11151b;stroke:#313a46}.edge{stroke:#a3aebc}\n"
    ".grid{stroke:#28303a}.axis{stroke:#657080}.bracket{stroke:#a3aebc}.commit{stroke:#e8ecf1}"
    ".pole{stroke:#a3aebc}.notice{fill:#e6b04a;stroke:#ffe3a8}.cause{fill:#f0716b;stroke:#ffb4ab}"
    ".cross{stroke:#11151b}\n"
    ".climb{stroke:#3fae95}.climb-lost,.back{stroke:#f0716b}.idle{stroke:#5d6875}\n";

static void draw_patterns(FILE *out)
{
    fputs("<defs>\n", out);
    for (int kind = 0; kind < GOODPUT__COUNT; kind++) {
        const struct look *look = legend_look((enum goodput_kind)kind);
        if (*look->shape)
            fprintf(out,
                    "<pattern id=\"%s\" width=\"%d\" height=\"%d\" patternUnits=\"userSpaceOnUse\" "
                    "patternTransform=\"rotate(%d)\">"
                    "<rect class=\"p-%s\" width=\"%d\" height=\"%d\"/>"
                    "<path class=\"l-%s\" stroke-width=\"2\" d=\"%s\"/></pattern>\n",
                    look->class, look->size, look->size, look->turn, look->class, look->size,
                    look->size, look->class, look->shape);
    }
    fputs("</defs>\n", out);
}

static void draw_colours(FILE *out, bool is_dark)
{
    for (int kind = 0; kind < GOODPUT__COUNT; kind++) {
        const struct look *look = legend_look((enum goodput_kind)kind);
        const struct look_colours *colours = is_dark ? &look->dark : &look->light;
        fprintf(out, ".%s%s{fill:%s}", *look->shape ? "p-" : "", look->class, colours->fill);
        if (*look->shape)
            fprintf(out, ".l-%s{%s:%s}", look->class, look->is_filled ? "fill" : "stroke",
                    colours->ink);
    }
    fputc('\n', out);
}

static void draw_style(FILE *out)
{
    fprintf(out, "<style>\n%s", style);
    draw_colours(out, false);
    for (int kind = 0; kind < GOODPUT__COUNT; kind++) {
        const struct look *look = legend_look((enum goodput_kind)kind);
        if (*look->shape)
            fprintf(out, ".%s{fill:url(#%s)}", look->class, look->class);
    }
    fprintf(out, "\n@media(prefers-color-scheme:dark){\n%s", dark_style);
    draw_colours(out, true);
    fputs("}\n</style>\n", out);
}

/* --- the head --- */

static void draw_count(char *text, size_t size, int64_t n, const char *one)
{
    if (n > 0)
        str_addf(text, size, "%s%" PRId64 " %s%s", *text ? ", " : "", n, one, n == 1 ? "" : "s");
}

static void compose_counts(const struct drawing *d, const struct flags *flags, char *text,
                           size_t size)
{
    char time[GOODPUT_WORD];
    struct goodput_sums sums = goodput_sum(d->of, -1);
    text[0] = '\0';
    draw_count(text, size, place_count_runs(d), "attempt");
    draw_count(text, size, (int64_t)flags_count(flags, TIMELINE_NOTICE), "notice");
    draw_count(text, size, (int64_t)flags_count(flags, TIMELINE_CAUSE), "failure");
    if (place_has_steps(d))
        str_addf(text, size, "; %llu step%s lost", ull(sums.lost_steps),
                 sums.lost_steps == 1 ? "" : "s");
    if (d->of->is_running && d->of->uncommitted_ms)
        str_addf(text, size, "; %s not committed yet",
                 goodput_lasting(d->of->uncommitted_ms, time));
}

/* Bold letters are wider. */
#define BOLD 1.12

/* "job run7: goodput 93.1 %, 20 h 12 min of 21 h 41 min" */
static void compose_head(const struct drawing *d, const char *job, char *text, size_t size)
{
    char share[GOODPUT_WORD], kept[GOODPUT_WORD], all[GOODPUT_WORD];
    struct goodput_sums sums = goodput_sum(d->of, -1);
    snprintf(text, size, "job %s: goodput %s %%, %s of %s", job,
             goodput_percent(sums.ms[GOODPUT_KEPT], sums.wall_ms, share),
             goodput_lasting(sums.ms[GOODPUT_KEPT], kept), goodput_lasting(sums.wall_ms, all));
}

/* The letters are as large as the line allows. Only then a long name is cut. */
static void draw_head_line(const struct drawing *d, double y)
{
    char job[sizeof d->of->job], rest[160], text[400];
    const double room = DRAW_WIDTH - 40;
    int size = DRAW_HEAD;
    compose_head(d, d->of->job, text, sizeof text);
    while (size > DRAW_HEAD_LEAST && BOLD * svg_width(text, size) > room)
        size -= 2;
    compose_head(d, "", rest, sizeof rest);
    str_copy(job, sizeof job, d->of->job);
    svg_fit(job, sizeof job, BOLD * size, room - BOLD * svg_width(rest, size));
    compose_head(d, job, text, sizeof text);
    fprintf(d->out, "<g style=\"font-size:%dpx\">", size);
    svg_text(d->out, "head", (struct svg_at){20, y, SVG_START}, text);
    fputs("</g>\n", d->out);
}

static double draw_head(const struct drawing *d, const struct flags *flags)
{
    char counts[200];
    compose_counts(d, flags, counts, sizeof counts);
    draw_head_line(d, 46);
    svg_text(d->out, "muted", (struct svg_at){20, 78, SVG_START}, counts);
    return 100;
}

/* --- the foot --- */

/* Writes the text of a sign of this width, and moves *x behind it. */
static void name_sign(FILE *out, double *x, double base, double width, const char *text)
{
    svg_text(out, "", (struct svg_at){*x + width + 8, base, SVG_START}, text);
    *x += width + 8 + svg_width(text, DRAW_USUAL) + 32;
}

/* The signs that the picture has. */
static double draw_key(const struct drawing *d, const struct flags *flags, double y)
{
    double x = DRAW_LEFT, base = y + 38;
    FILE *out = d->out;
    if (flags_count(flags, TIMELINE_NOTICE)) {
        flags_mark(out, TIMELINE_NOTICE, x + 10, base);
        name_sign(out, &x, base, 20, "notice");
    }
    if (flags_count(flags, TIMELINE_CAUSE)) {
        flags_mark(out, TIMELINE_CAUSE, x + 10, base + 2);
        name_sign(out, &x, base, 20, "first failure");
    }
    if (d->of->ncommits) {
        fprintf(out, "<path class=\"commit\" d=\"M%g %gv12\"/>", svg_round(x + 2), base - 13);
        name_sign(out, &x, base, 4, "commit");
    }
    if (goodput_sum(d->of, -1).lost_steps) {
        fprintf(out,
                "<path class=\"climb-lost\" d=\"M%g %gl18 -14\"/>"
                "<path class=\"back\" d=\"M%g %gv14\"/>",
                svg_round(x + 2), base, svg_round(x + 20), base - 14);
        name_sign(out, &x, base, 24, "steps lost, and the way back");
    }
    return x > DRAW_LEFT ? y + 48 : y;
}

static double draw_note(const struct drawing *d, const char *note, double y)
{
    char text[GOODPUT_NOTE + 10];
    snprintf(text, sizeof text, "note: %s", note);
    svg_fit(text, sizeof text, DRAW_SMALL, DRAW_SPAN);
    svg_text(d->out, "small muted", (struct svg_at){DRAW_LEFT, y + 22, SVG_START}, text);
    return y + 26;
}

static double draw_notes(const struct drawing *d, double y)
{
    struct goodput_notes notes = goodput_find_notes(d->of);
    for (int i = 0; i < notes.n; i++)
        y = draw_note(d, notes.text[i], y);
    for (int i = 0; i < d->in->nnotes; i++)
        y = draw_note(d, d->in->notes[i], y);
    return y;
}

/* Returns the height. */
static int draw_body(const struct drawing *d, const struct flags *flags)
{
    double bar = flags_draw(flags, d, draw_head(d, flags));
    double chart = attempts_draw(d, bar_draw(d, bar) + 4);
    double y = axis_draw(d, chart, steps_draw(d, chart + 12));
    y = draw_notes(d, draw_key(d, flags, legend_draw(d, y + 6)));
    return (int)y + 20;
}

/* --- the whole --- */

static void draw_frame(const struct drawing *d, const struct flags *flags, int height, FILE *out)
{
    char head[400], counts[200];
    compose_head(d, d->of->job, head, sizeof head);
    compose_counts(d, flags, counts, sizeof counts);
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" role=\"img\" "
            "data-wall-ms=\"%" PRId64 "\">\n",
            DRAW_WIDTH, height, goodput_sum(d->of, -1).wall_ms);
    str_addf(head, sizeof head, "; %s", counts);
    svg_title(out, head);
    fputc('\n', out);
    draw_style(out);
    draw_patterns(out);
    fprintf(out, "<rect class=\"paper\" x=\"1\" y=\"1\" width=\"%d\" height=\"%d\" rx=\"10\"/>\n",
            DRAW_WIDTH - 2, height - 2);
}

/* The height is known once the body is drawn. */
bool timeline_draw(const struct timeline *timeline, FILE *out)
{
    char *body = NULL;
    size_t len = 0;
    struct flags flags = {.n = 0};
    struct drawing d = {.in = timeline, .of = timeline->of, .out = open_memstream(&body, &len)};
    bool ok = d.out && place_begin(&d) && flags_begin(&flags, &d);
    int height = ok ? draw_body(&d, &flags) : 0;
    ok = d.out && fclose(d.out) == 0 && ok;
    if (ok) {
        draw_frame(&d, &flags, height, out);
        fwrite(body, 1, len, out);
        fputs("</svg>\n", out);
    }
    flags_end(&flags);
    place_end(&d);
    free(body);
    return ok;
}
