/* SPDX-License-Identifier: Apache-2.0
 *
 * test_saves: which saves of the ranks are kept and which are forgotten. Kept saves survive being
 * written.
 */
#include "record/saves.h"

#include "unit.h"

#include "base/str.h"

#include <limits.h>

static struct saves saves;

static void end(void)
{
    saves_free(&saves);
}

TestSuite(saves, .fini = end);

static void add(uint64_t step, int rank, const char *path)
{
    cr_assert(saves_add(&saves, step, 0, rank, path));
}

/* The steps that are there, as "10 20". */
static const char *steps(void)
{
    static char text[1024];
    text[0] = '\0';
    for (int i = 0; i < saves.n; i++)
        str_addf(text, sizeof text, "%s%llu", i ? " " : "",
                 (unsigned long long)saves.steps[i].step);
    return text;
}

Test(saves, are_kept_in_order_of_their_steps)
{
    bool is_known;
    add(30, 1, "/c");
    add(10, 0, "/a");
    add(20, 0, NULL);
    add(30, 0, "/d");
    cr_assert_str_eq(steps(), "10 20 30");
    cr_assert_str_eq(saves_path(saves_find(&saves, 30), 1, &is_known), "/c");
    cr_assert(is_known);
    cr_assert_null(saves_path(saves_find(&saves, 20), 0, &is_known));
    cr_assert(is_known);
    cr_assert_null(saves_path(saves_find(&saves, 20), 1, &is_known));
    cr_assert(!is_known);
    cr_assert_null(saves_find(&saves, 25));
    cr_assert_null(saves_path(NULL, 0, &is_known));
}

Test(saves, who_of_the_world_is_missing)
{
    add(10, 0, "/a");
    add(10, 2, NULL);
    cr_assert_eq(saves_missing(saves_find(&saves, 10)), -1);
    cr_assert(saves_add(&saves, 10, 3, 0, "/a"));
    cr_assert_eq(saves_missing(saves_find(&saves, 10)), 1);
    add(10, 1, NULL);
    cr_assert_eq(saves_missing(saves_find(&saves, 10)), -1);
    cr_assert(saves_add(&saves, 10, 4, 0, "/a"));
    cr_assert_eq(saves_missing(saves_find(&saves, 10)), 3);
}

/* Two ranks have the same part, or all have one path: fewer ranks still find every part. */
Test(saves, how_many_ranks_have_all_parts)
{
    static const struct {
        const char *paths[4];
        int least;
    } rows[] = {
        {{"/a", "/b", "/c", "/d"}, 4}, {{"/d", "/c", "/b", "/a"}, 4}, {{"/a", "/b", "/a", "/b"}, 2},
        {{"/a", "/b", NULL, NULL}, 2}, {{NULL, NULL, "/a", "/b"}, 4}, {{"/a", "/b", "/b", "/c"}, 4},
        {{"/a", "/a", "/a", "/a"}, 0}, {{NULL, NULL, NULL, "/a"}, 0}, {{NULL, NULL, NULL, NULL}, 0},
    };
    cr_expect_eq(saves_least_world(NULL), 0);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        saves_free(&saves);
        for (int rank = 3; rank >= 0; rank--)
            cr_assert(saves_add(&saves, 10, 4, rank, rows[i].paths[rank]));
        cr_expect_eq(saves_least_world(saves_find(&saves, 10)), rows[i].least, "row %zu", i);
    }
    cr_assert(saves_add(&saves, 20, 4, 0, "/a") && saves_add(&saves, 20, 4, 1, "/b"));
    cr_expect_eq(saves_least_world(saves_find(&saves, 20)), 4, "two paths are not known");
}

Test(saves, the_last_word_on_a_path_counts)
{
    bool is_known;
    add(10, 0, "/old");
    add(10, 0, "/new");
    cr_assert_str_eq(saves_path(saves_find(&saves, 10), 0, &is_known), "/new");
    add(10, 0, "");
    cr_assert_null(saves_path(saves_find(&saves, 10), 0, &is_known));
    cr_assert_eq(saves_find(&saves, 10)->nranks, 1);
}

Test(saves, who_saves_for_all_is_the_lowest_rank_that_names_a_path)
{
    add(10, 3, "/three");
    add(10, 0, NULL);
    add(10, 2, "/two");
    cr_assert_str_eq(saves_any_path(saves_find(&saves, 10)), "/two");
    add(20, 0, NULL);
    cr_assert_null(saves_any_path(saves_find(&saves, 20)));
}

/* A restart needs the last commit, and a newer save may become the last commit. Saves of steps that
 * were never committed must not push it out, however many there are. */
Test(saves, a_path_in_the_directory_is_told_from_others)
{
    add(10, 0, NULL);
    add(20, 0, "/ckpt2/a");
    add(20, 1, "gs://ckpt/a");
    add(30, 0, "/a");
    add(30, 1, "/ckpt/b");
    cr_expect(!saves_names_below(saves_find(&saves, 10), "/ckpt"));
    cr_expect(!saves_names_below(saves_find(&saves, 20), "/ckpt"));
    cr_expect(saves_names_below(saves_find(&saves, 30), "/ckpt"));
    cr_expect(!saves_names_below(saves_find(&saves, 30), NULL));
}

Test(saves, neither_the_committed_step_nor_a_newer_one_is_trimmed)
{
    for (uint64_t step = 10; step <= 60; step += 10)
        add(step, 0, NULL);
    saves.committed = 30;
    saves_trim(&saves, 1);
    cr_assert_str_eq(steps(), "30 40 50 60");
    saves.committed = 60;
    saves_trim(&saves, 2);
    cr_assert_str_eq(steps(), "50 60");
}

Test(saves, the_committed_step_stays_when_there_is_no_room)
{
    saves.committed = 1;
    for (uint64_t step = 1; step <= SAVES_STEPS + 3; step++)
        add(step, 0, "/x");
    cr_assert_eq(saves.n, SAVES_STEPS);
    cr_assert_eq(saves.steps[0].step, 1);
    cr_assert_eq(saves.steps[1].step, 5);
    cr_assert_eq(saves.steps[SAVES_STEPS - 1].step, SAVES_STEPS + 3);
    saves.committed = 20;
    add(1000, 0, "/x");
    cr_assert_eq(saves.steps[0].step, 5);
}

Test(saves, what_is_newer_can_be_forgotten)
{
    add(10, 0, "/a");
    add(20, 0, "/b");
    saves_forget_newer(&saves, 20);
    cr_assert_str_eq(steps(), "10 20");
    saves_forget_newer(&saves, 15);
    cr_assert_str_eq(steps(), "10");
    saves_forget_newer(&saves, 0);
    cr_assert_eq(saves.n, 0);
}

/* Writes all saves up to `newest`, empties the list, and reads them back. */
static void moved(const char *from, const char *to, uint64_t newest)
{
    struct writer w;
    struct err err;
    size_t len;
    writer_init(&w, 1 << 20, WRITER_PRETTY);
    writer_object(&w, NULL);
    saves_write(&saves, from, &w, newest);
    writer_end(&w);
    const char *text = writer_done(&w, &len);
    cr_assert(text && !w.has_replaced);
    struct json *root = json_read("test", text, len, &err);
    cr_assert(root, "%s", err.text);
    saves_free(&saves);
    cr_assert(saves_read(&saves, to, "test", root, &err), "%s", err.text);
    json_free(root);
    writer_free(&w);
}

static void there_and_back(uint64_t newest)
{
    moved(NULL, NULL, newest);
}

/* The directory has another name at the next start: paths below it move with it. */
Test(saves, move_with_their_directory)
{
    static const char *const rows[][2] = {{"/old/ck/a", "/new/a"},
                                          {"/old/ck", "/new"},
                                          {"/old/ck//b/c", "/new/b/c"},
                                          {"/old/ck/\xff", "/new/\xff"},
                                          {"/old/ck2", "/old/ck2"},
                                          {"/old/ck/../a", "/old/ck/../a"},
                                          {"gs://old/ck/a", "gs://old/ck/a"},
                                          {"s3://b/old/ck", "s3://b/old/ck"},
                                          {"/old/ck/a://b", "/old/ck/a://b"},
                                          {"/old/ck/a/b://c", "/new/a/b://c"},
                                          {"/old", "/old"}};
    bool is_known;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        add(10, (int)i, rows[i][0]);
    moved("/old/ck/", "/new", 10);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        cr_expect_str_eq(saves_path(saves_find(&saves, 10), (int)i, &is_known), rows[i][1]);
}

Test(saves, survive_being_written)
{
    bool is_known;
    char longest[PATH_MAX];
    /* A path is any bytes but NUL; the longest that fits, of the bytes that take most room. */
    memset(longest, 0xff, sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    const char *paths[] = {"/plain",        "/with \"quotes\" \\ and\nlines",
                           "/\x01\x7f",     "/gr\xc3\xbc\xc3\x9f",
                           "/latin-\xfc",   "/cut-\xc3",
                           "/\xed\xa0\x80", longest};
    for (size_t i = 0; i < ARRAY_LEN(paths); i++)
        add(10, (int)i, paths[i]);
    add(10, INT_MAX, NULL);
    add(20, 0, "/b");
    add(30, 0, "/still being saved");
    there_and_back(20);
    cr_assert_str_eq(steps(), "10 20");
    for (size_t i = 0; i < ARRAY_LEN(paths); i++)
        cr_assert_str_eq(saves_path(saves_find(&saves, 10), (int)i, &is_known), paths[i]);
    cr_assert_null(saves_path(saves_find(&saves, 10), INT_MAX, &is_known));
    cr_assert(is_known);
}

Test(saves, what_is_not_of_their_form_is_refused)
{
    static const char *const bad[] = {
        "{}",
        "{\"saves\": 3}",
        "{\"saves\": {}}",
        "{\"saves\": [3]}",
        "{\"saves\": [{}]}",
        "{\"saves\": [{\"step\": 1}]}",
        "{\"saves\": [{\"step\": 1, \"ranks\": {}}]}",
        "{\"saves\": [{\"step\": 0, \"ranks\": []}]}",
        "{\"saves\": [{\"step\": -1, \"ranks\": []}]}",
        "{\"saves\": [{\"step\": 1.5, \"ranks\": []}]}",
        "{\"saves\": [{\"step\": \"1\", \"ranks\": []}]}",
        "{\"saves\": [{\"step\": 1, \"ranks\": [0]}]}",
        "{\"saves\": [{\"step\": 1, \"ranks\": [{\"rank\": 0}]}]}",
        "{\"saves\": [{\"step\": 1, \"ranks\": [{\"path\": \"/a\"}]}]}",
        "{\"saves\": [{\"step\": 1, \"ranks\": [{\"rank\": -1, \"path\": \"/a\"}]}]}",
        "{\"saves\": [{\"step\": 1, \"ranks\": [{\"rank\": 2147483648, \"path\": \"/a\"}]}]}",
        "{\"saves\": [{\"step\": 1, \"ranks\": [{\"rank\": 0, \"path\": 7}]}]}",
        "{\"saves\": [{\"step\": 1, \"ranks\": [{\"rank\": 0, \"path_hex\": \"\"}]}]}",
        "{\"saves\": [{\"step\": 1, \"ranks\": [{\"rank\": 0, \"path_hex\": \"2\"}]}]}",
        "{\"saves\": [{\"step\": 1, \"ranks\": [{\"rank\": 0, \"path_hex\": \"2f00\"}]}]}",
        "{\"saves\": [{\"step\": 1, \"ranks\": [{\"rank\": 0, \"path_hex\": \"2F\"}]}]}",
        "{\"saves\": [{\"step\": 1, \"ranks\": [{\"rank\": 0, \"path_hex\": \"zz\"}]}]}",
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct err err = {0};
        struct json *root = json_read("test", bad[i], strlen(bad[i]), &err);
        cr_assert(root, "%s", err.text);
        cr_expect(!saves_read(&saves, NULL, "test", root, &err), "%s was taken", bad[i]);
        cr_expect(str_starts(err.text, "test"), "%s: '%s'", bad[i], err.text);
        json_free(root);
        saves_free(&saves);
    }
}

/* A save that may still be committed is kept, however many saves follow. */
Test(saves, what_is_held_is_not_pushed_out)
{
    add(10, 0, "/ten");
    add(20, 0, "/twenty");
    saves_hold(&saves, 10, 0);
    for (uint64_t step = 100; step < 100 + 2 * SAVES_STEPS; step++)
        add(step, 0, "/later");
    cr_assert(saves_find(&saves, 10) && !saves_find(&saves, 20));
    saves_hold(&saves, 230, 10);
    for (uint64_t step = 300; step < 300 + 2 * SAVES_STEPS; step++)
        add(step, 0, "/later");
    cr_assert(saves_find(&saves, 10) && saves_find(&saves, 230));
    saves_hold(&saves, 440, 230);
    cr_assert(saves_find(&saves, 10), "it goes when there is need");
    add(1000, 0, "/later");
    cr_assert(!saves_find(&saves, 10));
}

/* Another node could not save for long. This node's own records are not in the way of later saves.
 */
Test(saves, steps_that_came_to_nothing_leave_room)
{
    add(1, 0, "/committed");
    saves.committed = 1;
    for (uint64_t step = 2; step <= 3 * SAVES_STEPS; step++) {
        add(step, 0, "/step");
        saves_hold(&saves, step, 2);
    }
    cr_assert(saves_add(&saves, 2, 0, 1, "/of another rank"));
    cr_assert(saves_find(&saves, 1) && saves_find(&saves, 2));
}
