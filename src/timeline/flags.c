/* SPDX-License-Identifier: Apache-2.0
 * The notices and the first failures: flags above the bar. See parts.h.
 *
 * Each flag stands on the bar, and its label is in a lane above, as low as possible. No two labels
 * overlap, and no pole crosses a label if that is possible. A flag whose label finds no lane has
 * none; its title tells all.
 */
#include "timeline/parts.h"

#include "base/str.h"

#include <inttypes.h>
#include <stdlib.h>

/* Of more flags than a few, not all have a label. */
enum { FEW = 16, LANES_OF_MANY = 5 };
enum { LANE = 27, LANES_MAX = 8, MARK = 22, GAP = 7, APART = 8, TOLD_MAX = 8 };

static int flags_compare(const void *a, const void *b)
{
    const struct flag_moment *one = a, *other = b;
    return (one->x > other->x) - (one->x < other->x);
}

static bool take_moments(struct flags *flags, const struct drawing *d)
{
    flags->moments = calloc(d->in->nmoments + 1, sizeof *flags->moments);
    for (size_t i = 0; flags->moments && i < d->in->nmoments; i++) {
        const struct timeline_moment *moment = &d->in->moments[i];
        int64_t ms;
        int run = place_run_of(d, moment->attempt, moment->at_ms);
        if (moment->kind != TIMELINE_END && run >= 0 && place_in_run(d, run, moment->at_ms, &ms))
            flags->moments[flags->nmoments++] =
                (struct flag_moment){.of = moment, .x = place_x(d, ms)};
    }
    if (flags->moments)
        qsort(flags->moments, flags->nmoments, sizeof *flags->moments, flags_compare);
    return flags->moments;
}

static void gather(struct flags *flags)
{
    for (size_t i = 0; i < flags->nmoments; i++) {
        const struct flag_moment *moment = &flags->moments[i];
        struct flag *flag = flags->n > 0 ? &flags->list[flags->n - 1] : NULL;
        if (!flag || moment->x >= flag->x + FLAG_CLOSE) {
            flag = &flags->list[flags->n++];
            *flag = (struct flag){.x = moment->x, .of = moment->of, .first = i, .lane = -1};
        }
        flag->n++;
        if (flag->of->kind == TIMELINE_NOTICE && moment->of->kind == TIMELINE_CAUSE)
            flag->of = moment->of;
    }
}

static void compose_label(struct flag *flag)
{
    str_copy(flag->label, sizeof flag->label, flag->of->label);
    if (flag->n > 1)
        str_addf(flag->label, sizeof flag->label, ", %d more", flag->n - 1);
    svg_fit(flag->label, sizeof flag->label, DRAW_SMALL, 0.45 * DRAW_SPAN);
}

/* False: the label does not fit there. */
static bool turn(struct flag *flag, bool is_left)
{
    double width = svg_width(flag->label, DRAW_SMALL) + GAP;
    flag->is_left = is_left;
    flag->from = is_left ? flag->x - width : flag->x;
    flag->to = is_left ? flag->x : flag->x + width;
    return flag->from >= 0 && flag->to <= DRAW_RIGHT;
}

static bool covers(const struct flag *flag, double x)
{
    return flag->from - APART < x && x < flag->to + APART;
}

/* True if the label may be in the lane beside this other one. */
static bool agrees(const struct flag *flag, int lane, const struct flag *other, bool may_cross)
{
    if (other->lane < 0)
        return true;
    bool overlaps = flag->from < other->to + APART && other->from < flag->to + APART;
    bool crosses = (lane > other->lane && covers(other, flag->x)) ||
                   (lane < other->lane && covers(flag, other->x));
    return !(overlaps && lane == other->lane) && (may_cross || !crosses);
}

static void find_lane(struct flags *flags, struct flag *flag, bool may_cross)
{
    for (int lane = 0; lane < (flags->n > FEW ? LANES_OF_MANY : LANES_MAX); lane++) {
        bool is_free = true;
        for (int i = 0; is_free && i < flags->n; i++)
            is_free = agrees(flag, lane, &flags->list[i], may_cross);
        if (!is_free)
            continue;
        flag->lane = lane;
        flags->lanes = lane + 1 > flags->lanes ? lane + 1 : flags->lanes;
        return;
    }
}

static void place_label(struct flags *flags, struct flag *flag, bool is_left, bool may_cross)
{
    if (flag->lane < 0 && turn(flag, is_left))
        find_lane(flags, flag, may_cross);
}

/* From the right, labels right of their poles become a stair that no pole crosses. */
static void place_labels(struct flags *flags)
{
    for (int i = flags->n; i-- > 0;)
        place_label(flags, &flags->list[i], false, false);
    for (int i = 0; i < flags->n; i++)
        place_label(flags, &flags->list[i], true, false);
    for (int i = 0; i < flags->n && flags->n <= FEW; i++) {
        place_label(flags, &flags->list[i], false, true);
        place_label(flags, &flags->list[i], true, true);
    }
}

bool flags_begin(struct flags *flags, const struct drawing *d)
{
    if (!take_moments(flags, d))
        return false;
    gather(flags);
    for (int i = 0; i < flags->n; i++)
        compose_label(&flags->list[i]);
    place_labels(flags);
    return true;
}

void flags_end(struct flags *flags)
{
    free(flags->moments);
}

size_t flags_count(const struct flags *flags, enum timeline_kind kind)
{
    size_t n = 0;
    for (size_t i = 0; i < flags->nmoments; i++)
        n += flags->moments[i].of->kind == kind;
    return n;
}

static void flags_tell(const struct flags *flags, const struct flag *flag, FILE *out)
{
    fputs("<title>", out);
    for (int i = 0; i < flag->n && i < TOLD_MAX; i++) {
        fputs(i > 0 ? "\n" : "", out);
        svg_escape(out, flags->moments[flag->first + (size_t)i].of->text);
    }
    if (flag->n > TOLD_MAX)
        fprintf(out, "\nand %d more", flag->n - TOLD_MAX);
    fputs("</title>", out);
}

void flags_mark(FILE *out, enum timeline_kind kind, double x, double y)
{
    if (kind == TIMELINE_NOTICE)
        fprintf(out, "<path class=\"notice\" d=\"M%g %gl-9 -15h18z\"/>", x, y);
    else
        fprintf(out,
                "<circle class=\"cause\" cx=\"%g\" cy=\"%g\" r=\"9\"/>"
                "<path class=\"cross\" d=\"M%g %gl7 7m0 -7l-7 7\"/>",
                x, svg_round(y - 9), svg_round(x - 3.5), svg_round(y - 12.5));
}

static double top_of(const struct flag *flag, double bar)
{
    return bar - MARK - LANE * (flag->lane + 1) + 5;
}

static void draw_flag(const struct flags *flags, const struct flag *flag, double bar, FILE *out)
{
    bool is_notice = flag->of->kind == TIMELINE_NOTICE;
    double x = svg_round(flag->x);
    fprintf(out, "<g class=\"flag\" data-flag=\"%s\" data-count=\"%d\">",
            is_notice ? "notice" : "cause", flag->n);
    flags_tell(flags, flag, out);
    if (flag->lane >= 0)
        svg_text(out, is_notice ? "small over notice-text" : "small over cause-text",
                 (struct svg_at){x + (flag->is_left ? -GAP : GAP), top_of(flag, bar) + LANE - 11,
                                 flag->is_left ? SVG_END : SVG_START},
                 flag->label);
    flags_mark(out, flag->of->kind, x, bar - 2);
    fputs("</g>\n", out);
}

/* The poles come first, so that each label is above them. */
double flags_draw(const struct flags *flags, const struct drawing *d, double y)
{
    double bar = y + LANE * flags->lanes + (flags->n > 0 ? MARK + 2 : 0);
    for (int i = 0; i < flags->n; i++)
        if (flags->list[i].lane >= 0)
            fprintf(d->out, "<path class=\"pole\" d=\"M%g %gV%g\"/>\n", svg_round(flags->list[i].x),
                    top_of(&flags->list[i], bar), bar - 14);
    for (int i = 0; i < flags->n; i++)
        draw_flag(flags, &flags->list[i], bar, d->out);
    return bar;
}
