/* SPDX-License-Identifier: Apache-2.0
 *
 * test_timeline: the picture of a job's time, from spans and moments. The tests look at what every
 * picture must hold: exact edges, no overlap, harmless texts, a bounded size.
 */
#include "timeline/svg.h"
#include "timeline/timeline.h"

#include "unit.h"

#include "base/str.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { S = 1000, LEFT = 76, RIGHT = 980, RUNS = 6000, MOMENTS = 400 };

static struct goodput g;
static struct goodput_run runs[RUNS];
static struct timeline_moment moments[MOMENTS];
static struct timeline in;
static char *picture;
static size_t picture_len;

static void begin(void)
{
    g = (struct goodput){.runs = runs, .job = "run7"};
    in = (struct timeline){.of = &g, .moments = moments};
    memset(moments, 0, sizeof moments);
    picture = NULL;
}

static void end(void)
{
    free(g.spans);
    free(g.commits);
    free(picture);
}

TestSuite(timeline, .init = begin, .fini = end);

/* --- what is drawn --- */

/* A run begins at the end of the spans so far. */
static void run(const char *outcome)
{
    struct goodput_run *r = &runs[g.nruns++];
    cr_assert(g.nruns <= RUNS);
    *r = (struct goodput_run){.attempt = g.nruns};
    str_copy(r->outcome, sizeof r->outcome, outcome);
}

static int64_t wall_end(void)
{
    return g.nspans > 0 ? g.spans[g.nspans - 1].at_ms + g.spans[g.nspans - 1].ms : 1700000000000;
}

static void span_of(enum goodput_kind kind, int64_t ms, uint64_t from, uint64_t to)
{
    int64_t at_ms = wall_end();
    struct goodput_span *span = goodput_insert(&g, g.nspans);
    cr_assert_not_null(span);
    *span = (struct goodput_span){.kind = kind,
                                  .run = g.nruns - 1,
                                  .at_ms = at_ms,
                                  .ms = ms,
                                  .from_step = from,
                                  .to_step = to};
    runs[g.nruns - 1].at_ms = runs[g.nruns - 1].at_ms ? runs[g.nruns - 1].at_ms : at_ms;
}

static void commit(int64_t at_ms, uint64_t step)
{
    g.commits = reallocarray(g.commits, g.ncommits + 1, sizeof *g.commits);
    g.commits[g.ncommits++] =
        (struct goodput_commit){.run = g.nruns - 1, .at_ms = at_ms, .step = step};
}

static void moment(enum timeline_kind kind, int64_t attempt, int64_t at_ms, const char *label)
{
    struct timeline_moment *m = &moments[in.nmoments++];
    cr_assert(in.nmoments <= MOMENTS);
    *m = (struct timeline_moment){.kind = kind, .attempt = attempt, .at_ms = at_ms};
    str_copy(m->label, sizeof m->label, label);
    snprintf(m->text, sizeof m->text, "all about %s", label);
}

/* Two attempts of a minute: the first is preempted, the second crashes once and completes. */
static void small_job(void)
{
    run("preempted");
    span_of(GOODPUT_STARTING, 10 * S, 0, 0);
    span_of(GOODPUT_KEPT, 44 * S, 0, 440);
    span_of(GOODPUT_SAVING, 5 * S, 440, 440);
    commit(wall_end(), 440);
    span_of(GOODPUT_STOPPING, 1 * S, 440, 440);
    run("completed");
    span_of(GOODPUT_QUEUED, 7 * S, 0, 0);
    runs[1].at_ms = wall_end();
    span_of(GOODPUT_STARTING, 10 * S, 440, 440);
    span_of(GOODPUT_LOST, 10 * S, 440, 506);
    span_of(GOODPUT_RESTARTING, 1 * S, 506, 506);
    span_of(GOODPUT_STARTING, 5 * S, 440, 440);
    span_of(GOODPUT_KEPT, 25 * S, 440, 700);
}

static const char *draw(void)
{
    free(picture);
    FILE *out = open_memstream(&picture, &picture_len);
    cr_assert(timeline_draw(&in, out));
    cr_assert_eq(fclose(out), 0);
    return picture;
}

/* --- what is found in it --- */

static int count(const char *part)
{
    int n = 0;
    for (const char *at = picture; (at = strstr(at, part)); at++)
        n++;
    return n;
}

static void has(const char *part)
{
    cr_assert(strstr(picture, part), "the picture lacks: %s", part);
}

static void lacks(const char *part)
{
    cr_assert(!strstr(picture, part), "the picture has: %s", part);
}

struct rect {
    char class[20], kind[24];
    double x, y, width, height;
    int64_t ms;
};

/* The next part of the bar. Parts of one x stand upon each other. */
static bool next_rect(const char **at, struct rect *ret)
{
    while ((*at = strstr(*at, "<rect class=")))
        if (sscanf((*at)++,
                   "<rect class=\"%19[^\"]\" x=\"%lf\" y=\"%lf\" width=\"%lf\" height=\"%lf\" "
                   "data-kind=\"%23[^\"]\" data-ms=\"%" SCNd64 "\"",
                   ret->class, &ret->x, &ret->y, &ret->width, &ret->height, ret->kind,
                   &ret->ms) == 7)
            return true;
    return false;
}

static size_t count_spans(void)
{
    size_t all = 0, one;
    for (const char *at = picture; (at = strstr(at, "<g data-spans=\"")); at++)
        if (sscanf(at, "<g data-spans=\"%zu\">", &one) == 1)
            all += one;
    return all;
}

static void check_kinds(const double areas[GOODPUT__COUNT], const int64_t sums[GOODPUT__COUNT])
{
    struct goodput_sums wanted = goodput_sum(&g, -1);
    int64_t all = 0;
    for (int kind = 0; kind < GOODPUT__COUNT; kind++)
        all += wanted.ms[kind];
    for (int kind = 0; kind < GOODPUT__COUNT; kind++) {
        cr_assert_eq(sums[kind], wanted.ms[kind], "%s", goodput_name((enum goodput_kind)kind));
        cr_assert_float_eq(areas[kind] / (48.0 * (RIGHT - LEFT)),
                           (double)wanted.ms[kind] / (double)all, 0.001, "%s: %g",
                           goodput_name((enum goodput_kind)kind), areas[kind]);
    }
}

/* The bar has no gap, no overlap, and all spans. Each kind has its time, in numbers and as an area.
 * Returns how many parts it has. */
static int check_bar(void)
{
    struct rect rect;
    double x = LEFT, foot = 0, areas[GOODPUT__COUNT] = {0};
    int64_t sums[GOODPUT__COUNT] = {0};
    int n = 0;
    for (const char *at = picture; next_rect(&at, &rect); n++) {
        bool is_upon = n > 0 && foot > 0.006;
        if (!is_upon)
            cr_assert_float_eq(rect.x, x, 0.006, "part %d begins at %g, not at %g", n, rect.x, x);
        foot = (is_upon ? foot : 48) - rect.height;
        x = rect.x + rect.width;
        for (int kind = 0; kind < GOODPUT__COUNT; kind++)
            if (str_is(goodput_name((enum goodput_kind)kind), rect.kind)) {
                sums[kind] += rect.ms;
                areas[kind] += rect.width * rect.height;
            }
    }
    cr_assert_float_eq(x, RIGHT, 0.006);
    cr_assert_float_eq(foot, 0, 0.006);
    check_kinds(areas, sums);
    cr_assert_eq(count_spans(), g.nspans);
    return n;
}

struct label {
    double from, to, y;
};

static bool tag_has(const char *tag, const char *part)
{
    const char *at = strstr(tag, part), *close = strchr(tag, '>');
    return at && at < close;
}

/* The width of a text at the size that its class has; the head line has its own. */
static double width_of(const char *tag, const char *text)
{
    static double head; /* in front of it */
    const char *size = "<g style=\"font-size:";
    if (tag - picture > 40 && strncmp(tag - 26, size, strlen(size)) == 0)
        head = atof(tag - 26 + strlen(size));
    if (tag_has(tag, "\"head\""))
        return 1.12 * svg_width(text, head);
    return svg_width(text, tag_has(tag, "small") ? 18 : 20);
}

static bool next_label(const char **at, struct label *ret)
{
    char text[400];
    while ((*at = strstr(*at, "<text "))) {
        const char *tag = (*at)++;
        double x, y;
        if (sscanf(tag, "<text x=\"%lf\" y=\"%lf\"", &x, &y) != 2 ||
            sscanf(strchr(tag, '>'), ">%399[^<]", text) != 1)
            continue;
        double width = width_of(tag, text);
        double before = tag_has(tag, "\"middle\"") ? width / 2
                        : tag_has(tag, "\"end\"")  ? width
                                                   : 0;
        *ret = (struct label){.from = x - before, .to = x - before + width, .y = y};
        return true;
    }
    return false;
}

static int overlaps(void)
{
    struct label one, other;
    int n = 0;
    for (const char *at = picture; next_label(&at, &one);)
        for (const char *then = at; next_label(&then, &other);)
            n += one.from < other.to && other.from < one.to && fabs(one.y - other.y) < 16;
    return n;
}

static void check_labels(void)
{
    struct label label;
    for (const char *at = picture; next_label(&at, &label);)
        cr_assert(label.from > 0 && label.to < 1000, "a label is from %g to %g", label.from,
                  label.to);
    cr_assert_eq(overlaps(), 0);
}

/* --- the tests --- */

Test(timeline, the_head_says_the_goodput)
{
    small_job();
    draw();
    has(">job run7: goodput 58.5 %, 1 min  9 s of 1 min 58 s</text>");
    has(">2 attempts; 66 steps lost</text>");
    lacks("<script");
    lacks("NaN");
    lacks("nan");
}

Test(timeline, every_span_is_there_with_its_time)
{
    struct rect rect;
    small_job();
    const char *at = draw();
    cr_assert_eq(check_bar(), (int)g.nspans);
    for (size_t i = 0; next_rect(&at, &rect); i++) {
        cr_assert_eq(rect.ms, g.spans[i].ms);
        cr_assert_str_eq(rect.kind, goodput_name(g.spans[i].kind));
    }
}

Test(timeline, the_legend_has_each_kind_once)
{
    struct goodput_sums sums;
    small_job();
    draw();
    sums = goodput_sum(&g, -1);
    for (int kind = 0; kind < GOODPUT__COUNT; kind++) {
        char part[80];
        snprintf(part, sizeof part, "<g data-kind=\"%s\" data-ms=\"%" PRId64 "\">",
                 goodput_name((enum goodput_kind)kind), sums.ms[kind]);
        cr_assert_eq(count(part), sums.ms[kind] > 0, "%s", part);
    }
    has(">58.5 %</text>");
}

/* Area is time: of the training a quarter was no training. */
Test(timeline, the_waits_for_data_are_a_part_of_the_training)
{
    struct rect rect;
    run("completed");
    span_of(GOODPUT_KEPT, 4000, 0, 40);
    g.spans[0].loading_ms = 1000;
    draw();
    const char *at = picture;
    cr_assert(next_rect(&at, &rect) && str_is(rect.kind, "training_kept") && rect.ms == 3000);
    cr_assert_float_eq(rect.height / 48, 0.75, 0.01);
    cr_assert(next_rect(&at, &rect) && str_is(rect.kind, "loading") && rect.ms == 1000);
    has("training, kept: 4.0 s, attempt 1, of it waiting for data: 1.0 s, steps 0 to 40");
}

/* As of a job that restarts each second. */
Test(timeline, narrow_spans_are_drawn_together_each_kind_with_its_share)
{
    struct rect rect;
    run("completed");
    for (int i = 0; i < 50000; i++) {
        span_of(GOODPUT_STARTING, 400, 9, 9);
        span_of(GOODPUT_LOST, 450, 9, 10);
        span_of(GOODPUT_RESTARTING, 150, 10, 10);
    }
    draw();
    int parts = check_bar();
    cr_assert(parts <= 3 * (RIGHT - LEFT) / 4 + 3, "%d parts", parts);
    for (const char *at = picture; next_rect(&at, &rect);)
        cr_assert_float_eq(rect.height / 48,
                           str_is(rect.kind, "starting")        ? 0.4
                           : str_is(rect.kind, "training_lost") ? 0.45
                                                                : 0.15,
                           0.01);
    cr_assert(picture_len < 200 * 1024, "%zu bytes", picture_len);
    has("spans, training, lost: ");
}

Test(timeline, a_wide_span_between_narrow_ones_stays_as_it_is)
{
    struct rect rect;
    int wide = 0;
    run("completed");
    for (int i = 0; i < 3000; i++)
        span_of(i == 1500 ? GOODPUT_HUNG
                : i % 2   ? GOODPUT_KEPT
                          : GOODPUT_SAVING,
                i == 1500 ? 977 : 1, 5, 5);
    draw();
    check_bar();
    for (const char *at = picture; next_rect(&at, &rect);)
        wide += str_is(rect.class, "hung") && rect.ms == 977 && rect.height == 48;
    cr_assert_eq(wide, 1);
}

Test(timeline, a_job_of_many_attempts_is_bounded)
{
    for (int i = 0; i < 5000; i++) {
        run(i % 3 ? "preempted" : "failed");
        span_of(GOODPUT_STARTING, 3 * S, 5, 5);
        span_of(GOODPUT_KEPT, 60 * S, 5, 9);
        commit(wall_end(), 9);
        if (i < MOMENTS)
            moment(i % 2 ? TIMELINE_NOTICE : TIMELINE_CAUSE, i + 1, wall_end(), "rank 9: SIGSEGV");
    }
    draw();
    check_bar();
    check_labels();
    has(">5000 attempts, 200 notices, 200 failures; ");
    has("<title>attempts 1 to ");
    cr_assert(picture_len < 600 * 1024, "%zu bytes", picture_len);
}

Test(timeline, labels_of_marks_that_are_close_do_not_overlap)
{
    static const int at[] = {11, 14, 15, 20, 21, 30, 40, 41, 55, 58, 70, 80, 99, 110, 117, 118};
    small_job();
    for (size_t i = 0; i < ARRAY_LEN(at); i++)
        moment(i % 2 ? TIMELINE_NOTICE : TIMELINE_CAUSE, at[i] < 64 ? 1 : 2,
               g.spans[0].at_ms + at[i] * S, "a rank with a long name: SIGSEGV");
    draw();
    check_labels();
    cr_assert(count("\"small over ") >= 6, "%d labels", count("\"small over "));
    has(", 1 more</text>");
}

Test(timeline, the_check_of_overlaps_can_fail)
{
    picture =
        strdup("<text x=\"10\" y=\"5\">abc</text><text x=\"50\" y=\"9\" text-anchor=\"middle\">abc"
               "</text><text x=\"50\" y=\"29\">abc</text>");
    cr_assert_eq(overlaps(), 1);
}

Test(timeline, notices_and_failures_are_marks)
{
    small_job();
    moment(TIMELINE_NOTICE, 1, g.spans[0].at_ms + 30 * S, "SIGTERM to node 1");
    moment(TIMELINE_CAUSE, 2, g.spans[0].at_ms + 87 * S, "rank 3 on node 1: SIGSEGV");
    moment(TIMELINE_END, 1, g.spans[0].at_ms + 60 * S, "exit code 42");
    draw();
    cr_assert_eq(count("data-flag=\"notice\" data-count=\"1\"><title>all about SIGTERM to node 1<"),
                 1);
    cr_assert_eq(count("data-flag=\"cause\" data-count=\"1\"><title>all about rank 3 on node 1"),
                 1);
    has(">SIGTERM to node 1</text>");
    has(">2 attempts, 1 notice, 1 failure; ");
    has("preempted, all about exit code 42</title>");
    has(">attempt 1: preempted</text>");
    has(">attempt 2: completed</text>");
}

Test(timeline, a_moment_that_is_not_in_the_picture_is_left_out)
{
    small_job();
    moment(TIMELINE_NOTICE, 1, g.spans[0].at_ms - 20 * S, "cut off by --since");
    moment(TIMELINE_NOTICE, 9, g.spans[0].at_ms + 20 * S, "of an unknown attempt");
    draw();
    lacks("data-flag");
    lacks("cut off by");
}

/* The clock is set forward by an hour before the second run, and its moments go with it. */
Test(timeline, a_clock_that_was_set_moves_no_mark)
{
    double before, after;
    small_job();
    moment(TIMELINE_NOTICE, 2, g.spans[6].at_ms + 5 * S, "SIGTERM to node 0");
    draw();
    cr_assert_eq(
        sscanf(strstr(picture, "class=\"pole\" d=\"M"), "class=\"pole\" d=\"M%lf", &before), 1);
    for (size_t i = 0; i < g.nspans; i++)
        g.spans[i].at_ms += g.spans[i].run == 1 ? 3600 * S : 0;
    runs[1].at_ms += 3600 * S;
    moments[0].at_ms += 3600 * S;
    draw();
    check_bar();
    cr_assert_eq(sscanf(strstr(picture, "class=\"pole\" d=\"M"), "class=\"pole\" d=\"M%lf", &after),
                 1);
    cr_assert_float_eq(before, after, 0.01);
}

Test(timeline, lost_steps_are_drawn_back)
{
    small_job();
    draw();
    has(">66 steps lost</text>");
    cr_assert_eq(count("class=\"climb-lost\""), 2); /* the line, and the key */
    has(">steps lost, and the way back</text>");
    has(">600</text>");
}

Test(timeline, a_job_without_steps_has_no_chart)
{
    run("interrupted");
    span_of(GOODPUT_WAITING, 300 * S, 0, 0);
    draw();
    lacks(">step</text>");
    lacks("lost</text>");
    has(">100.0 %</text>");
    has(">job run7: goodput 0.0 %, 0.0 s of 5 min  0 s</text>");
    has(">W</text>");
    check_labels();
}

Test(timeline, the_axis_has_the_unit_that_fits)
{
    static const struct {
        int64_t ms;
        const char *tick, *last;
    } cases[] = {{60 * S, ">10 s<", ">60 s<"},
                 {800, ">0.1 s<", ">0.8 s<"},
                 {90 * 60 * S, ">20 min<", ">80 min<"},
                 {10 * 3600 * S, ">2 h<", ">10 h<"},
                 {INT64_C(60) * 86400 * S, ">10 d<", ">60 d<"},
                 {INT64_C(4000) * 86400 * S, ">800 d<", ">4000 d<"}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        g.nspans = 0;
        g.nruns = 0;
        run("completed");
        span_of(GOODPUT_KEPT, cases[i].ms, 0, 10);
        draw();
        has(cases[i].tick);
        has(cases[i].last);
        has(">2023-11-14 22:13:20 UTC<");
        check_labels();
    }
}

/* --- the data --- */

/* The same as JSON, which the caller frees; *ret_len, if not NULL: its bytes. */
static struct json *tell(size_t *ret_len)
{
    struct writer w;
    struct err err;
    writer_init(&w, 4 << 20, WRITER_LINE);
    writer_object(&w, NULL);
    timeline_tell_looks(&w, "kinds");
    cr_assert(timeline_tell(&in, &w));
    writer_end(&w);
    size_t len;
    const char *text = writer_done(&w, &len);
    cr_assert(text);
    struct json *ret = json_read("data", text, len, &err);
    cr_assert(ret);
    writer_free(&w);
    if (ret_len)
        *ret_len = len;
    return ret;
}

static int json_items(const struct json *list)
{
    int n = 0;
    for (const struct json *item = json_first(list); item; item = json_next(item))
        n++;
    return n;
}

static int64_t number_of(const struct json *list, int i)
{
    int64_t ret = -1;
    const struct json *item = json_first(list);
    while (i-- > 0)
        item = json_next(item);
    cr_assert(json_int(item, &ret));
    return ret;
}

Test(timeline, the_data_are_those_of_the_picture)
{
    size_t len;
    int64_t ms = 0, kinds = 0;
    small_job();
    moment(TIMELINE_NOTICE, 1, 1700000000000 + 40 * S, "SIGTERM");
    JSON_CLEANUP struct json *data = tell(&len);
    draw();
    for (const struct json *kind = json_items_at(data, "kinds"); kind; kind = json_next(kind)) {
        const char *fill = json_text_at(kind, "dark.fill");
        cr_assert_eq(fill[0], '#');
        has(fill);
        kinds++;
    }
    cr_assert_eq(kinds, GOODPUT__COUNT);
    for (const struct json *piece = json_items_at(data, "pieces"); piece;
         piece = json_next(piece)) {
        cr_assert_eq(number_of(piece, 1), ms);
        ms += number_of(piece, 2);
        cr_assert_eq(json_items(piece), 8);
    }
    cr_assert_eq(ms, json_int_at(data, "ms", 0));
    cr_assert_eq(json_int_at(data, "lost_steps", 0), 66);
    cr_assert_eq(json_int_at(data, "attempt_count", 0), 2);
    cr_assert_eq(json_int_at(data, "notices", 0), 1);
    cr_assert_str_eq(json_text_at(json_items_at(data, "flags"), "label"), "SIGTERM");
}

Test(timeline, the_data_of_narrow_spans_have_the_time_of_each_kind)
{
    int64_t sums[GOODPUT__COUNT] = {0};
    run("completed");
    for (int i = 0; i < 5000; i++) {
        span_of(GOODPUT_SAVING, 100, 9, 9);
        span_of(GOODPUT_KEPT, 900, 9, 10);
    }
    JSON_CLEANUP struct json *data = tell(NULL);
    for (const struct json *piece = json_items_at(data, "pieces"); piece;
         piece = json_next(piece)) {
        cr_assert_eq(json_items(piece), 12);
        cr_assert_eq(number_of(piece, 9) + number_of(piece, 11), number_of(piece, 2));
        for (int i = 8; i < 12; i += 2)
            sums[number_of(piece, i)] += number_of(piece, i + 1);
    }
    cr_assert_eq(sums[GOODPUT_SAVING], 500 * S);
    cr_assert_eq(sums[GOODPUT_KEPT], 4500 * S);
}

Test(timeline, the_data_of_a_job_of_many_attempts_are_bounded)
{
    size_t len;
    for (int i = 0; i < 5000; i++) {
        run("failed");
        span_of(GOODPUT_STARTING, 3 * S, 5, 5);
        span_of(GOODPUT_KEPT, 60 * S, 5, 9);
        commit(wall_end(), 9);
        if (i < MOMENTS)
            moment(TIMELINE_CAUSE, i + 1, wall_end(), "rank 9: SIGSEGV");
    }
    json_free(tell(&len));
    cr_assert(len < 128 * 1024, "%zu bytes", len);
}

Test(timeline, a_running_job_says_so)
{
    run("");
    span_of(GOODPUT_KEPT, 60 * S, 0, 10);
    g.is_running = true;
    g.uncommitted_ms = 20 * S;
    moment(TIMELINE_END, 1, g.spans[0].at_ms + 30 * S, "exit code 42"); /* of a node that left */
    draw();
    cr_assert_eq(count("exit code 42"), 0);
    has(">now, still running</text>");
    has(">attempt 1: running</text>");
    has("; 20.0 s not committed yet</text>");
}

Test(timeline, what_the_ledger_lacks_is_noted)
{
    static const char notes[1][TIMELINE_NOTE] = {"no journal <here>"};
    small_job();
    g.damaged = 3;
    in.notes = notes;
    in.nnotes = 1;
    draw();
    has(">note: 3 lines are damaged, and do not count</text>");
    has(">note: no journal &lt;here&gt;</text>");
}

/* --- hostile texts --- */

#define HOSTILE                                                                                \
    "<script>alert(1)</script>&\"'\x01\x1b[2J\xff\xc0\xaf\xed\xa0\x80\xef\xbf\xbf\xe2\x80\xae" \
    "\xc2\x9b]]>-->\n\xe2\x98\x83"

/* Neither a control character nor markup that the drawing did not write. */
static void check_harmless(void)
{
    cr_assert(str_is_utf8(picture));
    for (const char *c = picture; *c; c++)
        cr_assert((unsigned char)*c >= ' ' || *c == '\n', "byte %d", *c);
    lacks("<script");
    lacks("\xe2\x80\xae");
    lacks("\xc2\x9b");
    lacks("\xef\xbf\xbf");
    lacks("]]>");
    has("&lt;script&gt;alert(1)&lt;/script&gt;&amp;&quot;");
    has("\xe2\x98\x83"); /* a snowman is harmless */
}

Test(timeline, hostile_texts_are_harmless)
{
    small_job();
    str_copy(g.job, sizeof g.job, HOSTILE);
    str_copy(runs[0].outcome, sizeof runs[0].outcome, "<b>&");
    moment(TIMELINE_CAUSE, 1, g.spans[0].at_ms + 30 * S, HOSTILE);
    moment(TIMELINE_END, 1, g.spans[0].at_ms + 60 * S, HOSTILE);
    draw();
    check_harmless();
    lacks("<b>");
}

Test(timeline, a_long_name_is_cut_in_the_head_and_whole_in_the_title)
{
    small_job();
    memset(g.job, 'W', sizeof g.job - 1);
    draw();
    has("WWW...: goodput 58.5 %");
    has("<title>job "
        "WWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWW");
    check_labels();
}

Test(timeline, a_text_is_cut_between_characters)
{
    char text[40] = "\xe2\x98\x83\xe2\x98\x83\xe2\x98\x83\xe2\x98\x83\xe2\x98\x83";
    svg_fit(text, sizeof text, 10, 35);
    cr_assert_str_eq(text, "\xe2\x98\x83\xe2\x98\x83...");
    str_copy(text, sizeof text, "fits");
    svg_fit(text, sizeof text, 10, 35);
    cr_assert_str_eq(text, "fits");
    svg_fit(text, sizeof text, 10, 0);
    cr_assert_str_eq(text, "...");
}
