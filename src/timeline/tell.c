/* SPDX-License-Identifier: Apache-2.0
 * The picture as data, for a page that draws it in its own size. It has the parts that draw.c puts
 * together, and is bounded as they are. See timeline.h.
 */
#include "timeline/parts.h"

#include "base/str.h"
#include "json/writer.h"

static void tell_colours(struct writer *w, const char *key, const struct look_colours *colours)
{
    writer_object(w, key);
    writer_text(w, "fill", colours->fill);
    writer_text(w, "ink", colours->ink);
    writer_end(w);
}

void timeline_tell_looks(struct writer *w, const char *key)
{
    writer_list(w, key);
    for (int kind = 0; kind < GOODPUT__COUNT; kind++) {
        const struct look *look = legend_look((enum goodput_kind)kind);
        writer_object(w, NULL);
        writer_text(w, "kind", goodput_name((enum goodput_kind)kind));
        writer_text(w, "name", look->name);
        writer_text(w, "letter", look->letter);
        tell_colours(w, "light", &look->light);
        tell_colours(w, "dark", &look->dark);
        writer_int(w, "size", look->size);
        writer_int(w, "turn", look->turn);
        writer_bool(w, "is_filled", look->is_filled);
        writer_text(w, "shape", look->shape);
        writer_end(w);
    }
    writer_end(w);
}

static void tell_numbers(struct writer *w, const int64_t *numbers, size_t n)
{
    for (size_t i = 0; i < n; i++)
        writer_int(w, NULL, numbers[i]);
}

static void tell_shares(struct writer *w, const struct piece *piece)
{
    for (int kind = 0; kind < GOODPUT__COUNT; kind++)
        if (piece->of_kind[kind])
            tell_numbers(w, (int64_t[]){kind, piece->of_kind[kind]}, 2);
}

static void tell_pieces(struct writer *w, const struct drawing *d)
{
    writer_list(w, "pieces");
    for (size_t i = 0; i < d->npieces; i++) {
        const struct piece *piece = &d->pieces[i];
        const int64_t numbers[] = {place_kind(piece),
                                   piece->from_ms,
                                   piece->ms,
                                   (int64_t)piece->n,
                                   d->of->runs[piece->first->run].attempt,
                                   (int64_t)piece->from_step,
                                   (int64_t)piece->top_step,
                                   (int64_t)piece->to_step};
        writer_list(w, NULL);
        tell_numbers(w, numbers, ARRAY_LEN(numbers));
        if (place_is_mixed(piece))
            tell_shares(w, piece);
        writer_end(w);
    }
    writer_end(w);
}

static void tell_commits(struct writer *w, const struct drawing *d)
{
    const struct goodput_commit *commit;
    size_t i = 0;
    double x = 0;
    int64_t ms;
    writer_list(w, "commits");
    while ((commit = bar_next_commit(d, &i, &x, &ms))) {
        writer_list(w, NULL);
        tell_numbers(w, (int64_t[]){ms, (int64_t)commit->step}, 2);
        writer_end(w);
    }
    writer_end(w);
}

static int64_t ms_of_x(const struct drawing *d, double x)
{
    return (int64_t)((x - DRAW_LEFT) / DRAW_SPAN * (double)d->total_ms);
}

static void tell_attempts(struct writer *w, const struct drawing *d)
{
    struct bracket b;
    writer_list(w, "attempts");
    for (int run = 0; attempts_next(d, run, &b); run = b.last + 1) {
        bool is_one = b.first == b.last;
        writer_object(w, NULL);
        writer_int(w, "from_ms", ms_of_x(d, b.from));
        writer_int(w, "to_ms", ms_of_x(d, b.to));
        writer_int(w, "first", d->of->runs[b.first].attempt);
        writer_int(w, "last", d->of->runs[b.last].attempt);
        writer_text(w, "end", is_one ? goodput_ending(d->of, b.first) : "");
        writer_text(w, "text", is_one ? attempts_end(d, b.first) : "");
        writer_end(w);
    }
    writer_end(w);
}

static void tell_flags(struct writer *w, const struct drawing *d, const struct flags *flags)
{
    writer_list(w, "flags");
    for (int i = 0; i < flags->n; i++) {
        const struct flag *flag = &flags->list[i];
        writer_object(w, NULL);
        writer_int(w, "ms", ms_of_x(d, flag->x));
        writer_bool(w, "is_failure", flag->of->kind == TIMELINE_CAUSE);
        writer_int(w, "count", flag->n);
        writer_text(w, "label", flag->of->label);
        writer_text(w, "text", flag->of->text);
        writer_end(w);
    }
    writer_end(w);
}

static void tell_sums(struct writer *w, const struct drawing *d, const struct flags *flags)
{
    struct goodput_sums sums = goodput_sum(d->of, -1);
    writer_int(w, "attempt_count", place_count_runs(d));
    writer_int(w, "notices", (int64_t)flags_count(flags, TIMELINE_NOTICE));
    writer_int(w, "failures", (int64_t)flags_count(flags, TIMELINE_CAUSE));
    writer_int(w, "wall_ms", sums.wall_ms);
    writer_int(w, "lost_steps", (int64_t)sums.lost_steps);
    writer_list(w, "sums");
    for (int kind = 0; kind < GOODPUT__COUNT; kind++)
        writer_int(w, NULL, sums.ms[kind]);
    writer_end(w);
}

bool timeline_tell(const struct timeline *timeline, struct writer *w)
{
    struct flags flags = {.n = 0};
    struct drawing d = {.in = timeline, .of = timeline->of};
    bool ok = place_begin(&d) && flags_begin(&flags, &d);
    if (ok) {
        writer_int(w, "at_ms", d.of->spans[0].at_ms);
        writer_int(w, "ms", d.total_ms);
        tell_sums(w, &d, &flags);
        tell_pieces(w, &d);
        tell_commits(w, &d);
        tell_attempts(w, &d);
        tell_flags(w, &d, &flags);
    }
    flags_end(&flags);
    place_end(&d);
    return ok;
}
