/* SPDX-License-Identifier: Apache-2.0
 *
 * view: the screen of `pchctl top` as a function of an answer, of the keys and of a size: what it
 * shows first, how it sorts, filters and scrolls, and that no text of a host or a program gets a
 * control character onto it.
 */
#include "top/view/view.h"

#include "base/clock.h"
#include "base/str.h"
#include "top/view/prose.h"

#include "answers.h"

#include <locale.h>
#include <wctype.h>

enum { LINE_BYTES = 4096 };

struct shown {
    struct view view;
    struct picture picture;
    struct json *answer;
    struct cells cells;
};

/* --- helpers --- */

static struct shown *show(const char *answer)
{
    static struct shown shown;
    cr_assert(setlocale(LC_CTYPE, "C.UTF-8"));
    shown = (struct shown){0};
    shown.answer = answer ? parse(answer) : NULL;
    shown.picture.answer = shown.answer;
    return &shown;
}

static void forget(struct shown *shown)
{
    view_free(&shown->view);
    cells_free(&shown->cells);
    json_free(shown->answer);
}

/* Another picture takes the place of the first. */
static void renew(struct shown *shown, const char *answer)
{
    json_free(shown->answer);
    shown->picture.answer = shown->answer = parse(answer);
    view_renew(&shown->view);
}

static void draw(struct shown *shown, int rows, int cols)
{
    struct err err;
    cr_assert(cells_reset(&shown->cells, rows, cols, &err), "%s", err.text);
    cr_assert(view_draw(&shown->view, &shown->picture, &shown->cells, &err), "%s", err.text);
}

/* A row as UTF-8, without the blanks at its end. */
static const char *line(const struct shown *shown, int row)
{
    static char text[8][LINE_BYTES];
    static int turn;
    char *to = text[turn++ % 8], *at = to;
    for (int col = 0; col < shown->cells.cols; col++) {
        wchar_t ch = cells_at(&shown->cells, row, col)->ch;
        if (ch)
            at += wctomb(at, ch);
    }
    while (at > to && at[-1] == ' ')
        at--;
    *at = '\0';
    return to;
}

/* The row that begins with this text; -1: none. */
static int find(const struct shown *shown, const char *text)
{
    for (int row = 0; row < shown->cells.rows; row++)
        if (str_starts(line(shown, row), text))
            return row;
    return -1;
}

static int find_in(const struct shown *shown, const char *text)
{
    for (int row = 0; row < shown->cells.rows; row++)
        if (strstr(line(shown, row), text))
            return row;
    return -1;
}

/* Presses each of these characters. */
static void type(struct shown *shown, const char *keys)
{
    for (; *keys; keys++)
        cr_assert(view_press(&shown->view, &shown->picture, (uint32_t)*keys));
}

static void press(struct shown *shown, enum view_key key)
{
    cr_assert(view_press(&shown->view, &shown->picture, key));
}

/* The number of the first rank or node in the table. */
static int first_number(const struct shown *shown)
{
    int number = -1;
    const char *row = line(shown, find(shown, "   RANK") >= 0 ? find(shown, "   RANK") + 1
                                                              : find(shown, "   NODE") + 1);
    cr_assert_eq(sscanf(row + 1, "%d", &number), 1, "'%s'", row);
    return number;
}

/* Each cell is one that a terminal prints, and a wide character has its two cells. */
static void check_cells(const struct shown *shown)
{
    for (int row = 0; row < shown->cells.rows; row++)
        for (int col = 0; col < shown->cells.cols; col++) {
            wchar_t ch = cells_at(&shown->cells, row, col)->ch;
            bool is_half = ch == 0;
            bool is_last = col == shown->cells.cols - 1;
            cr_assert(is_half || iswprint((wint_t)ch), "U+%04X in row %d", (unsigned)ch, row);
            if (is_half)
                cr_assert(col > 0 && wcwidth(cells_at(&shown->cells, row, col - 1)->ch) == 2);
            else if (wcwidth(ch) == 2)
                cr_assert(!is_last && cells_at(&shown->cells, row, col + 1)->ch == 0);
        }
}

/* --- cells --- */

static const struct {
    const char *text, *shown;
    int width;
} texts[] = {
    {"", "", 0},
    {"plain", "plain", 5},
    {"a\x1b[2J\tb\x7f\n", "a?[2J?b??", 9},
    {"\xc2\x9b"
     "31m",
     "?31m", 4},            /* a control character of C1 */
    {"\xff\xfe", "??", 2},  /* no UTF-8 */
    {"\xc0\xaf", "??", 2},  /* a slash, overlong */
    {"\xe5\x90", "??", 2},  /* cut off */
    {"名前", "名前", 4},    /* wide */
    {"a\u202eb", "a?b", 3}, /* would turn the line around */
    {"e\u0301", "e", 1},    /* without a width */
    {"\u2028", "?", 1},     /* a separator of lines */
    {"\U0001f525x", "\U0001f525x", 3},
};

Test(cells, take_only_what_a_terminal_prints)
{
    struct shown *shown = show(NULL);
    struct err err;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        cr_assert(cells_reset(&shown->cells, 1, 40, &err));
        struct pen pen = pen_at(&shown->cells, 0);
        pen_add(&pen, STYLE_PLAIN, texts[i].text);
        check_cells(shown);
        cr_expect_str_eq(line(shown, 0), texts[i].shown);
        cr_expect_eq(pen.col, texts[i].width, "%zu", i);
        cr_expect_eq(cells_width(texts[i].text), texts[i].width, "%zu", i);
    }
    forget(shown);
}

Test(cells, are_cut_at_the_edge)
{
    struct shown *shown = show(NULL);
    struct err err;
    cr_assert(cells_reset(&shown->cells, 2, 5, &err));
    struct pen pen = pen_at(&shown->cells, 1);
    pen_add(&pen, STYLE_PLAIN, "名前名前");
    cr_expect_str_eq(line(shown, 1), "名前");
    cr_expect_eq(cells_fitting("名前名前", 5), strlen("名前"));
    pen = pen_at(&shown->cells, 7);
    pen_add(&pen, STYLE_PLAIN, "nowhere");
    cr_expect_eq(pen.col, 0);
    check_cells(shown);
    forget(shown);
}

Test(prose, is_broken_at_blanks)
{
    struct prose prose = {.most = 9, .cols = 20};
    setlocale(LC_CTYPE, "C.UTF-8");
    prose_add(&prose, STYLE_PLAIN, "", "training at step 48,210, 3.1 steps/s", 3);
    prose_add(&prose, STYLE_PLAIN, "cause", "a line that has no end within two", 2);
    prose_add(&prose, STYLE_PLAIN, "", "averyveryverylongwordwithoutblanks", 3);
    static const char *const lines[] = {"training at step",     "48,210, 3.1 steps/s",
                                        "cause a line that",    "has no end within...",
                                        "averyveryverylongwor", "dwithoutblanks"};
    cr_assert_eq(prose.n, (int)ARRAY_LEN(lines));
    for (size_t i = 0; i < ARRAY_LEN(lines); i++)
        cr_expect_str_eq(prose.list[i].text, lines[i]);
    prose = (struct prose){.most = 3, .cols = 60};
    prose_add(&prose, STYLE_PLAIN, "notice", "a long one that goes on and on and on for two lines",
              3);
    cr_expect_str_eq(prose.list[0].text, "notice    a long one that goes on and on and on for two");
    cr_expect_str_eq(prose.list[1].text, "          lines");
}

/* --- the first look --- */

Test(view, shows_who_is_behind_in_80_by_24)
{
    char *text = large_answer(1024, 8);
    struct shown *shown = show(text);
    free(text);
    draw(shown, 24, 80);
    check_cells(shown);
    cr_expect(str_starts(line(shown, 0), " job run7, attempt 0, 2 nodes, 1,024 ranks"), "%s",
              line(shown, 0));
    cr_expect(str_starts(line(shown, 0) + 74, " live"), "'%s'", line(shown, 0));
    cr_expect(
        str_starts(line(shown, 1), "training at step 48,210, 3.1 steps/s, last commit 4 min"));
    cr_expect_geq(find(shown, "waiting   rank 1020 on gpu-a0127.cluster.example: "), 0);
    cr_expect_geq(find(shown, "ranks     1,024 training"), 0);
    int caption = find(shown, "Ranks: 1-");
    cr_expect_str_eq(line(shown, caption), "Ranks: 1-15 of 1,024, furthest behind first");
    cr_expect_eq(first_number(shown), 1020);
    cr_expect(str_starts(line(shown, caption + 2), "!  1020 gpu-a0127.cluster.ex"), "%s",
              line(shown, caption + 2));
    cr_expect_str_neq(line(shown, 22), "");
    cr_expect(str_starts(line(shown, 23), " q quit  ? help  r ranks"));
    cr_expect_eq(cells_at(&shown->cells, caption + 2, 1)->style, STYLE_BAD);
    forget(shown);
}

Test(view, fits_into_40_by_10)
{
    char *text = large_answer(1024, 8);
    struct shown *shown = show(text);
    free(text);
    draw(shown, 10, 40);
    check_cells(shown);
    cr_expect(str_starts(line(shown, 0) + 34, " live"), "'%s'", line(shown, 0));
    cr_expect(str_starts(line(shown, 3), "waiting rank 1020"), "%s", line(shown, 3));
    int caption = find(shown, "Ranks: 1-");
    cr_expect_str_eq(line(shown, caption + 1), "   RANK HOST        PHASE           STEP");
    cr_expect_eq(first_number(shown), 1020);
    forget(shown);
}

Test(view, shows_more_columns_on_a_wide_screen)
{
    char *text = large_answer(64, 8);
    struct shown *shown = show(text);
    free(text);
    draw(shown, 50, 200);
    int titles = find(shown, "   RANK");
    cr_expect(strstr(line(shown, titles), " NODE LOCAL HOST"));
    cr_expect(strstr(line(shown, titles), " OWN   SLOW   SAVED      PID"));
    /* Three ranks are named where there is room. */
    cr_expect_geq(find(shown, "          rank 50 on gpu-a0006.cluster.example"), 0);
    forget(shown);
}

/* Before the first answer, and with an answer that says nothing. */
Test(view, shows_what_it_does_not_know)
{
    struct shown *shown = show(NULL);
    draw(shown, 24, 80);
    cr_expect(str_starts(line(shown, 0), " pchctl top"));
    cr_expect_geq(find(shown, "pchctl has asked pchrun"), 0);
    forget(shown);
    shown = show("{}");
    draw(shown, 24, 80);
    cr_expect_geq(find(shown, "No process has attached."), 0);
    type(shown, "n");
    draw(shown, 24, 80);
    cr_expect_geq(find(shown, "Only node 0 knows the nodes."), 0);
    type(shown, "e");
    draw(shown, 24, 80);
    cr_expect_geq(find(shown, "No event so far."), 0);
    forget(shown);
}

/* --- order, filter, place --- */

#define RANK(n, more) \
    "{\"rank\":" n ",\"node_rank\":0,\"state\":\"attached\",\"attached\":true," more "}"
#define FIVE                                                                                                                                                                                  \
    "{" NOW "," RUNNING ",\"ranks\":[" RANK(                                                                                                                                                  \
        "0",                                                                                                                                                                                  \
        "\"phase\":\"train\",\"step\":10,\"step_age\":0.4,\"steps_per_second\":2,"                                                                                                            \
        "\"own_seconds\":0.1") "," RANK("1",                                                                                                                                                  \
                                        "\"phase\":\"train\",\"step\":9,\"step_age\":0.6,\"steps_"                                                                                            \
                                        "per_second\":2.5") "," RANK("2",                                                                                                                     \
                                                                     "\"phase\":\"eval\","                                                                                                    \
                                                                     "\"step\":9,\"step_age\":1."                                                                                             \
                                                                     "5,\"steps_per_second\":1.5,"                                                                                            \
                                                                     "\"own_seconds\":0.4,"                                                                                                   \
                                                                     "\"slow\":1.9") "," RANK("3",                                                                                            \
                                                                                              "\""                                                                                            \
                                                                                              "ph"                                                                                            \
                                                                                              "as"                                                                                            \
                                                                                              "e"                                                                                             \
                                                                                              "\""                                                                                            \
                                                                                              ":"                                                                                             \
                                                                                              "\""                                                                                            \
                                                                                              "tr"                                                                                            \
                                                                                              "ai"                                                                                            \
                                                                                              "n"                                                                                             \
                                                                                              "\""                                                                                            \
                                                                                              ","                                                                                             \
                                                                                              "\""                                                                                            \
                                                                                              "st"                                                                                            \
                                                                                              "ep"                                                                                            \
                                                                                              "\""                                                                                            \
                                                                                              ":1"                                                                                            \
                                                                                              "0,"                                                                                            \
                                                                                              "\""                                                                                            \
                                                                                              "st"                                                                                            \
                                                                                              "ep"                                                                                            \
                                                                                              "_a"                                                                                            \
                                                                                              "ge"                                                                                            \
                                                                                              "\""                                                                                            \
                                                                                              ":1"                                                                                            \
                                                                                              ".9"                                                                                            \
                                                                                              ","                                                                                             \
                                                                                              "\""                                                                                            \
                                                                                              "st"                                                                                            \
                                                                                              "ep"                                                                                            \
                                                                                              "s_"                                                                                            \
                                                                                              "pe"                                                                                            \
                                                                                              "r_"                                                                                            \
                                                                                              "se"                                                                                            \
                                                                                              "co"                                                                                            \
                                                                                              "nd"                                                                                            \
                                                                                              "\""                                                                                            \
                                                                                              ":"                                                                                             \
                                                                                              "3") ","                                                                                        \
                                                                                                   "{\"rank\":4,\"node_rank\":0,\"state\":\"done\",\"done\":true,\"step\":3,\"step_age\":50}" \
                                                                                                   "],\"nodes\":["                                                                            \
                                                                                                   "{\"node_rank\":0,\"host\":\"alpha\",\"state\":\"running\",\"connected\":true,"            \
                                                                                                   "\"lowest_step\":9,\"heard_age\":0.5},"                                                    \
                                                                                                   "{\"node_rank\":1,\"host\":null,\"state\":\"missing\"},"                                   \
                                                                                                   "{\"node_rank\":2,\"host\":\"gamma\",\"state\":\"running\",\"connected\":false,"           \
                                                                                                   "\"lowest_step\":8,\"heard_age\":7.5}]}"

Test(view, sorts_in_several_ways)
{
    static const struct {
        const char *caption;
        int first;
    } orders[] = {
        {"Ranks: 5, furthest behind first", 2}, /* step 9 as rank 1, and silent for longer */
        {"Ranks: 5, by rank", 0},
        {"Ranks: 5, longest without a step first", 3}, /* rank 4 is done */
        {"Ranks: 5, longest own part of a step first", 2},
        {"Ranks: 5, fewest steps/s first", 2},
        {"Ranks: 5, furthest behind first", 2},
    };
    struct shown *shown = show(FIVE);
    for (size_t i = 0; i < ARRAY_LEN(orders); i++) {
        draw(shown, 24, 80);
        cr_expect_geq(find(shown, orders[i].caption), 0, "%s", orders[i].caption);
        cr_expect_eq(first_number(shown), orders[i].first, "%s", orders[i].caption);
        type(shown, "s");
    }
    type(shown, "n");
    draw(shown, 24, 80);
    cr_expect_eq(first_number(shown), 1);
    type(shown, "sss");
    draw(shown, 24, 80);
    cr_expect_geq(find(shown, "Nodes: 3, longest unheard first"), 0);
    cr_expect_eq(first_number(shown), 2);
    forget(shown);
}

Test(view, marks_ranks_also_without_colours)
{
    struct shown *shown = show(FIVE);
    draw(shown, 24, 80);
    int row = find(shown, "   RANK");
    cr_expect(str_starts(line(shown, row + 1), "~     2    0 alpha evaluating"), "%s",
              line(shown, row + 1));
    cr_expect_geq(find(shown, "      4    0 alpha done"), 0);
    type(shown, "n");
    draw(shown, 24, 80);
    cr_expect_geq(find(shown, "!     1 -"), 0);
    cr_expect_geq(find_in(shown, "no connection"), 0);
    forget(shown);
}

Test(view, shows_only_what_the_filter_has)
{
    struct shown *shown = show(FIVE);
    type(shown, "/EVAx");
    draw(shown, 24, 80);
    cr_expect_geq(find(shown, "Ranks: 0 with \"EVAx\" (all: 5), furthest"), 0);
    cr_expect_geq(find(shown, "None has this text; Esc shows all."), 0);
    cr_expect_geq(find(shown, " show only: EVAx_"), 0);
    press(shown, VIEW_KEY_BACKSPACE);
    press(shown, VIEW_KEY_ENTER);
    draw(shown, 24, 80);
    cr_expect_geq(find(shown, "Ranks: 1 with \"EVA\""), 0);
    cr_expect_eq(first_number(shown), 2);
    type(shown, "/\x15"
                "3");
    press(shown, VIEW_KEY_ENTER);
    draw(shown, 24, 80);
    cr_expect_eq(first_number(shown), 3);
    cr_expect_geq(find(shown, "Ranks: 1 with \"3\""), 0);
    press(shown, VIEW_KEY_ESCAPE);
    draw(shown, 24, 80);
    cr_expect_geq(find(shown, "Ranks: 5, "), 0);
    forget(shown);
}

/* The keys of commands are characters of the filter while it is typed. */
Test(view, takes_any_character_into_the_filter)
{
    struct shown *shown = show(FIVE);
    type(shown, "/q?");
    cr_assert(view_press(&shown->view, &shown->picture, 0x540d));
    cr_expect_str_eq(shown->view.filter, "q?\u540d");
    press(shown, VIEW_KEY_BACKSPACE);
    cr_expect_str_eq(shown->view.filter, "q?");
    for (int i = 0; i < 3 * VIEW_FILTER_MAX; i++)
        cr_assert(view_press(&shown->view, &shown->picture, 0x1f525));
    cr_expect(str_is_utf8(shown->view.filter));
    draw(shown, 24, 80);
    check_cells(shown);
    press(shown, VIEW_KEY_ENTER);
    cr_expect_not(view_press(&shown->view, &shown->picture, 'q'));
    forget(shown);
}

Test(view, scrolls_within_the_table)
{
    char *text = large_answer(100, 10);
    struct shown *shown = show(text);
    free(text);
    type(shown, "s");
    draw(shown, 24, 80);
    cr_expect_eq(first_number(shown), 0);
    press(shown, VIEW_KEY_UP);
    press(shown, VIEW_KEY_DOWN);
    press(shown, VIEW_KEY_DOWN);
    draw(shown, 24, 80);
    cr_expect_eq(first_number(shown), 2);
    press(shown, VIEW_KEY_END);
    draw(shown, 24, 80);
    cr_expect_eq(first_number(shown), 100 - shown->view.page);
    cr_expect_geq(find(shown, "     99 "), 0);
    press(shown, VIEW_KEY_PAGE_UP);
    draw(shown, 24, 80);
    cr_expect_eq(first_number(shown), 100 - 2 * shown->view.page);
    press(shown, VIEW_KEY_PAGE_DOWN);
    press(shown, VIEW_KEY_PAGE_DOWN);
    draw(shown, 24, 80);
    cr_expect_eq(first_number(shown), 100 - shown->view.page);
    renew(shown, FIVE); /* fewer ranks than there were */
    draw(shown, 24, 80);
    cr_expect_eq(first_number(shown), 0);
    press(shown, VIEW_KEY_END);
    press(shown, VIEW_KEY_HOME);
    draw(shown, 24, 80);
    cr_expect_eq(first_number(shown), 0);
    forget(shown);
}

Test(view, explains_its_keys)
{
    struct shown *shown = show(FIVE);
    type(shown, "?");
    draw(shown, 24, 80);
    check_cells(shown);
    cr_expect_geq(find(shown, "space     keep this picture"), 0);
    cr_expect_geq(find(shown, "HEARD     the time since"), 0);
    draw(shown, 8, 40);
    cr_expect_eq(find(shown, "HEARD"), -1);
    press(shown, VIEW_KEY_END);
    draw(shown, 8, 40);
    cr_expect_geq(find(shown, "HEARD"), 0);
    type(shown, "q");
    draw(shown, 24, 80);
    cr_expect_geq(find(shown, "Ranks: 5"), 0);
    forget(shown);
}

/* --- what happens to a job --- */

Test(view, says_that_contact_is_lost)
{
    struct shown *shown = show(FIVE);
    shown->picture.lost_why = "pchrun does not answer; is it stopped?";
    shown->picture.lost_ns = 12 * NS_PER_S + 345 * NS_PER_MS;
    shown->picture.age_ns = 18 * NS_PER_S;
    draw(shown, 24, 120);
    cr_expect_geq(
        find(shown, "no contact for 12 s, this picture is 18 s old: pchrun does not answer"), 0);
    cr_expect_geq(find_in(shown, " no contact"), 0);
    forget(shown);
}

#define CAUSE                                                                                   \
    "{" NOW ",\"report\":{\"job\":\"run7\",\"nnodes\":1,\"state\":\"stopping\",\"outcome\":"    \
    "\"failed\",\"exit_code\":3,\"why\":\"rank 1: exit code 3\",\"notice\":{\"node_rank\":2,"   \
    "\"source\":\"aws\",\"text\":\"spot\",\"deadline\":\"2026-11-29T06:11:35.000Z\"},"          \
    "\"first_cause\":{\"node_rank\":1,\"rank\":7,\"host\":\"beta\",\"text\":\"exited with 3\"," \
    "\"stderr\":\"Traceback:\\n  File x\\nValueError: a\\u001b[31mb\\n\"}},\"ranks\":[],"       \
    "\"ranks_of\":\"node\",\"chief\":\"alpha:7000\"}"

Test(view, shows_the_first_cause_and_the_notice)
{
    struct shown *shown = show(CAUSE);
    draw(shown, 24, 80);
    check_cells(shown);
    cr_expect_geq(find(shown, "ending: failed, exit code 3: rank 1: exit code 3"), 0);
    cr_expect_geq(find(shown, "notice    aws on node 2: spot; 95 s left."), 0);
    cr_expect_geq(find(shown, "cause     node 1 (beta), rank 7: exited with 3"), 0);
    cr_expect_geq(find(shown, "          |   File x"), 0);
    cr_expect_geq(find(shown, "          | ValueError: a?[31mb"), 0);
    cr_expect_eq(find(shown, "          | Traceback:"), -1);
    cr_expect_geq(find(shown, "This is one node's part of the job."), 0);
    draw(shown, 50, 80);
    cr_expect_geq(find(shown, "          | Traceback:"), 0);
    forget(shown);
}

/* The job has ended before pchrun has answered again. */
Test(view, shows_the_cause_of_an_event)
{
    struct shown *shown = show(FIVE);
    struct json *failed =
        parse("{\"event\":\"failed\",\"of_node\":1,\"rank\":3,\"text\":\"exited with 3\"}");
    shown->picture.failed = failed;
    draw(shown, 24, 80);
    cr_expect_geq(find(shown, "cause     node 1, rank 3: exited with 3"), 0);
    renew(shown, "{\"report\":{\"generation\":1}}");
    draw(shown, 24, 80);
    cr_expect_eq(find(shown, "cause"), -1);
    json_free(failed);
    forget(shown);
}

Test(view, stays_with_the_end_of_the_job)
{
    struct shown *shown = show(FIVE);
    shown->picture.end = "ended: preempted, exit code 42: a notice";
    shown->picture.lost_why = "the connection is closed";
    draw(shown, 24, 80);
    cr_expect_str_eq(line(shown, 1), shown->picture.end);
    cr_expect(str_starts(line(shown, 0) + 73, " ended"));
    cr_expect_eq(find(shown, "no contact"), -1);
    cr_expect_eq(find(shown, "waiting"), -1);
    cr_expect_geq(find(shown, "Ranks: 5"), 0);
    forget(shown);
}

/* --- events --- */

static void add_events(struct events *events, int from, int n)
{
    char text[256];
    for (int i = from; i < from + n; i++) {
        snprintf(text, sizeof text,
                 "{\"ts\":\"2026-11-29T06:%02d:%02d.000Z\",\"node\":0,\"event\":\"committed\","
                 "\"step\":%d,\"text\":\"a\\u0007b\"}",
                 i / 60 % 60, i % 60, 1000 + i);
        struct json *event = parse(text);
        events_take(events, event);
        json_free(event);
    }
}

Test(events, are_kept_within_a_bound)
{
    static struct events events;
    struct shown *shown = show(FIVE);
    add_events(&events, 0, EVENTS_MAX + 10);
    shown->picture.events = &events;
    type(shown, "e");
    draw(shown, 24, 80);
    check_cells(shown);
    int caption = find(shown, "Events of this node: 1-");
    cr_expect(strstr(line(shown, caption), " of 1,024, newest first"), "%s", line(shown, caption));
    cr_expect_str_eq(line(shown, caption + 2), "06:17:13 committed     step 2,033, a?b");
    type(shown, "s");
    draw(shown, 24, 80);
    cr_expect_str_eq(line(shown, caption + 2), "06:00:10 committed     step 1,010, a?b");
    type(shown, "/2,033");
    draw(shown, 24, 80);
    cr_expect_geq(find(shown, "Events of this node: 1 with \"2,033\" (all: 1,024), oldest"), 0);
    forget(shown);
}

Test(events, do_not_move_in_a_pause)
{
    static struct events events;
    struct shown *shown = show(FIVE);
    add_events(&events, 0, 5);
    shown->picture.events = &events;
    type(shown, "e ");
    add_events(&events, 5, 5);
    view_renew(&shown->view);
    draw(shown, 24, 80);
    cr_expect_geq(find(shown, "Events of this node: 5,"), 0);
    cr_expect(str_starts(line(shown, 0) + 72, " paused"));
    type(shown, " ");
    draw(shown, 24, 80);
    cr_expect_geq(find(shown, "Events of this node: 10,"), 0);
    forget(shown);
}

Test(events, are_told_in_short)
{
    static const struct {
        const char *event, *text;
    } lines[] = {
        {"{\"event\":\"state\",\"node\":0,\"attempt\":1,\"state\":\"saving\"}", "saving"},
        {"{\"event\":\"round\",\"round\":2,\"phase\":\"failed\",\"step\":48210}",
         "2, phase failed, step 48,210"},
        {"{\"event\":\"log\",\"level\":\"notice\",\"topic\":\"ending\",\"text\":\"a notice\"}",
         "ending, a notice"},
        {"{\"event\":\"exit\",\"exit_code\":-1,\"last_step\":7000,\"x\":null,\"y\":[1]}",
         "exit code -1, last step 7,000"},
    };
    static struct events events;
    for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
        struct json *event = parse(lines[i].event);
        events_take(&events, event);
        cr_expect_str_eq(events_at(&events, i)->text, lines[i].text);
        cr_expect_eq(events_is_bad(events_at(&events, i)), i == 1);
        json_free(event);
    }
}

/* --- anything --- */

/* A text that a hostile host or program might send, as JSON. */
static const char *hostile_text(unsigned *seed)
{
    static const char *const list[] = {"\"\"",
                                       "\"\\u001b[2J\\u001b]0;x\\u0007\"",
                                       "\"\\u009b31m\"",
                                       "\"\\u202e\\u2066\\u200b\"",
                                       "\"\\ud83d\\udd25\\ud83d\\udd25\\ud83d\\udd25\"",
                                       "\"名前名前名前名前名前名前\"",
                                       "\"a\\nb\\tc\\rd\"",
                                       "\"%s%n\"",
                                       "null",
                                       "[1]",
                                       "-1",
                                       "9223372036854775807",
                                       "1e300",
                                       "true",
                                       "\"attached\"",
                                       "\"2026-11-29T06:10:00.000Z\""};
    return list[(unsigned)rand_r(seed) % ARRAY_LEN(list)];
}

static char *hostile_answer(unsigned *seed)
{
    static const char *const of_report[] = {"job",       "attempt", "generation",
                                            "nnodes",    "state",   "outcome",
                                            "exit_code", "why",     "save_every_ms"};
    static const char *const of_item[] = {"rank",
                                          "node_rank",
                                          "local_rank",
                                          "pid",
                                          "state",
                                          "attached",
                                          "done",
                                          "step",
                                          "steps_per_second",
                                          "step_age",
                                          "step_age_is_least",
                                          "phase",
                                          "saved_step",
                                          "counts_only",
                                          "own_seconds",
                                          "slow",
                                          "host",
                                          "connected",
                                          "notice",
                                          "ranks_attached",
                                          "ranks_expected",
                                          "lowest_step",
                                          "heard_age",
                                          "why",
                                          "ranks_unknown_why"};
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    fprintf(out, "{" NOW ",\"ranks_of\":%s,\"chief\":%s", hostile_text(seed), hostile_text(seed));
    for (int list = 0; list < 2; list++) {
        fprintf(out, ",\"%s\":[", list ? "ranks" : "nodes");
        for (unsigned i = 0, n = (unsigned)rand_r(seed) % 30; i < n; i++) {
            fprintf(out, "%s{\"x\":0", i ? "," : "");
            for (size_t k = 0; k < ARRAY_LEN(of_item); k++)
                fprintf(out, ",\"%s\":%s", of_item[k], hostile_text(seed));
            fprintf(out, "}");
        }
        fprintf(out, "]");
    }
    fprintf(out,
            ",\"report\":{\"notice\":{\"node_rank\":3,\"source\":%s,\"text\":%s,\"deadline\":%s}",
            hostile_text(seed), hostile_text(seed), hostile_text(seed));
    fprintf(out, ",\"first_cause\":{\"node_rank\":3,\"host\":%s,\"text\":%s,\"stderr\":%s}",
            hostile_text(seed), hostile_text(seed), hostile_text(seed));
    for (size_t k = 0; k < ARRAY_LEN(of_report); k++)
        fprintf(out, ",\"%s\":%s", of_report[k], hostile_text(seed));
    fprintf(out, "}}");
    cr_assert_eq(fclose(out), 0);
    return text;
}

static void press_anything(struct shown *shown, unsigned *seed)
{
    static const char keys[] = "rnes/ ?\tqaé0\x15\x7f";
    for (int i = 0; i < 4; i++) {
        unsigned n = (unsigned)rand_r(seed);
        uint32_t key = n % 2 ? (uint32_t)(unsigned char)keys[n / 2 % (sizeof keys - 1)]
                             : VIEW_KEY_NONE + n / 2 % (VIEW_KEY_BACKSPACE - VIEW_KEY_NONE + 1);
        (void)view_press(&shown->view, &shown->picture, key); /* false: it would leave */
    }
}

Test(view, draws_any_answer_in_any_size)
{
    static struct events events;
    unsigned seed = 30;
    for (int i = 0; i < 400; i++) {
        char *text = hostile_answer(&seed);
        struct shown *shown = show(text);
        shown->picture.events = &events;
        shown->picture.lost_why = i % 5 ? NULL : "\x1b[2J";
        shown->picture.end = i % 7 ? NULL : "\x1b[2J\u202e";
        add_events(&events, i, 1);
        for (int k = 0; k < 6; k++) {
            press_anything(shown, &seed);
            draw(shown, 1 + (int)((unsigned)rand_r(&seed) % 60),
                 1 + (int)((unsigned)rand_r(&seed) % 160));
            check_cells(shown);
        }
        forget(shown);
        free(text);
    }
}
