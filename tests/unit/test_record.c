/* SPDX-License-Identifier: Apache-2.0
 *
 * test_record: how a start uses the files that earlier starts left. tests/behave/test_record.py
 * tests with the whole program that the files are written correctly.
 */
#include "record/record.h"

#include "folder.h"

#include "base/clock.h"
#include "base/str.h"

static struct record record;
static struct reap reap;
static struct config config;
static struct err err;

static void begin(void)
{
    unit_block_sigchld();
    folder_make();
    config = (struct config){.job = "job"};
    config.cluster.nnodes = 1;
    config.checkpoint.keep_records = 8;
    config.checkpoint.shared = true;
}

static void end(void)
{
    record_free(&record);
    folder_remove();
}

TestSuite(record, .init = begin, .fini = end);

#define COMMITS(attempt, without, list)                       \
    "{\"schema\": 1, \"job\": \"job\", \"attempt\": " attempt \
    ", \"attempts_without_commit\": " without ", \"commits\": [" list "]}"
#define COMMIT(step, attempt) "{\"step\": " step ", \"attempt\": " attempt ", \"at_ns\": 5}"
#define RANKS(attempt, list) \
    "{\"schema\": 1, \"job\": \"job\", \"attempt\": " attempt ", \"saves\": [" list "]}"
#define OF_EPOCH(epoch)                                                   \
    "{\"schema\": 1, \"job\": \"job\", \"attempt\": 5, \"epoch\": " epoch \
    ", \"attempts_without_commit\": 1, \"commits\": []}"
#define SAVE(step, list) "{\"step\": " step ", \"ranks\": [" list "]}"
#define OF_WORLD(step, world, list) \
    "{\"step\": " step ", \"world\": " world ", \"ranks\": [" list "]}"
#define RANK(rank, path) "{\"rank\": " rank ", \"path\": " path "}"

static void start(void)
{
    cr_assert(record_init(&record, &config, folder, &reap, &err), "%s", err.text);
    record_begin(&record, record.history.attempt, 0, history_last_step(&record.history));
}

static void expect_path(int rank, uint64_t step, const char *path)
{
    const char *found = record_path(&record, rank, step);
    if (path && found)
        cr_expect_str_eq(found, path);
    else
        cr_expect(!path && !found, "rank %d: %s instead of %s", rank, found ? found : "none",
                  path ? path : "none");
}

Test(record, without_a_directory_there_is_none)
{
    cr_assert(record_init(&record, &config, NULL, &reap, &err));
    cr_expect_eq(record.history.attempt, 1);
    cr_expect_eq(history_last_step(&record.history), 0);
    cr_expect(!record_is_busy(&record));
    expect_path(0, 0, NULL);
    record_saved(&record, 0, 10, "/a"); /* in memory, for a rank that attaches again */
    expect_path(0, 10, "/a");
}

Test(record, the_first_start_finds_nothing)
{
    start();
    cr_expect_eq(record.history.attempt, 1);
    cr_expect_eq(record.history.attempts_without_commit, 0);
    cr_expect_eq(history_last_step(&record.history), 0);
}

Test(record, the_last_commit_is_where_to_resume)
{
    folder_put("commit.json", COMMITS("4", "2", COMMIT("10", "1") "," COMMIT("20", "2")));
    folder_put("ranks.0.json", RANKS("2", SAVE("10", RANK("0", "\"/a\"")) "," SAVE(
                                              "20", RANK("0", "\"/b\"") "," RANK("1", "\"/c\""))));
    start();
    cr_expect_eq(record.history.attempt, 5);
    cr_expect_eq(record.history.attempts_without_commit, 2);
    cr_expect_eq(history_last_step(&record.history), 20);
    expect_path(0, 20, "/b");
    expect_path(1, 20, "/c");
    expect_path(0, 10, "/a");
    expect_path(0, 15, NULL);
    expect_path(0, 0, NULL);
}

Test(record, one_rank_saves_for_all)
{
    folder_put("commit.json", COMMITS("1", "0", COMMIT("20", "1")));
    folder_put("ranks.0.json", RANKS("1", SAVE("20", RANK("0", "\"/all\"") "," RANK("1", "null"))));
    folder_put("ranks.1.json", RANKS("1", SAVE("20", RANK("2", "null"))));
    config.cluster.node_rank = 1;
    start();
    for (int rank = 0; rank < 4; rank++)
        expect_path(rank, 20, "/all");
}

/* Nodes with disks of their own cannot read each other's files. */
Test(record, what_is_not_shared_is_not_looked_for)
{
    folder_put("commit.json", COMMITS("1", "0", COMMIT("20", "1")));
    folder_put("ranks.0.json", RANKS("1", SAVE("20", RANK("0", "\"/all\""))));
    folder_put("ranks.1.json",
               RANKS("1", SAVE("20", RANK("2", "null") "," RANK("3", "\"/three\""))));
    config.cluster.node_rank = 1;
    config.checkpoint.shared = false;
    start();
    expect_path(0, 20, NULL);
    expect_path(2, 20, "/three");
}

Test(record, ranks_may_have_moved_between_nodes)
{
    folder_put("commit.json", COMMITS("1", "0", COMMIT("20", "1")));
    folder_put("ranks.0.json", RANKS("1", SAVE("20", RANK("2", "\"/two\""))));
    folder_put("ranks.1.json", RANKS("1", SAVE("20", RANK("0", "\"/zero\""))));
    folder_put("ranks.12.json", RANKS("1", SAVE("20", RANK("1", "\"/one\""))));
    folder_put("ranks.1.json.0a0a0a0a.tmp", "half");
    folder_put("ranks.x.json", "not ours");
    start();
    expect_path(0, 20, "/zero");
    expect_path(1, 20, "/one");
    expect_path(2, 20, "/two");
    expect_path(3, 20, NULL); /* the rank had no part in the save, and the other parts are not its
                               * own */
}

/* An attempt saved a step that was never committed. A later attempt saved the same step elsewhere,
 * and that save was committed. The file of a node without a part in it still has the old path. */
Test(record, what_was_never_committed_is_not_offered)
{
    folder_put("commit.json", COMMITS("3", "0", COMMIT("10", "1") "," COMMIT("20", "3")));
    folder_put("ranks.0.json", RANKS("3", SAVE("20", RANK("0", "\"/new\""))));
    folder_put("ranks.1.json",
               RANKS("2", SAVE("20", RANK("1", "\"/stale\"") "," RANK("2", "\"/stale\""))));
    folder_put("ranks.2.json", RANKS("3", SAVE("20", RANK("1", "\"/right\""))));
    config.cluster.node_rank = 1;
    start();
    expect_path(1, 20, "/right");
    expect_path(2, 20, NULL);
}

Test(record, what_is_newer_than_the_last_commit_is_forgotten)
{
    folder_put("commit.json", COMMITS("1", "0", COMMIT("10", "1")));
    folder_put("ranks.0.json", RANKS("1", SAVE("10", RANK("0", "\"/a\"")) "," SAVE(
                                              "20", RANK("0", "\"/never committed\""))));
    start();
    expect_path(0, 10, "/a");
    expect_path(0, 20, NULL);
    record_saved(&record, 0, 20, "/again");
    expect_path(0, 20, "/again");
}

/* Node 0 of the attempt before was still there when node 1 started, and committed once more. */
Test(record, a_commit_after_the_start_is_seen)
{
    folder_put("commit.json", COMMITS("1", "0", COMMIT("20", "1")));
    folder_put("ranks.1.json",
               RANKS("1", SAVE("20", RANK("1", "\"/b\"")) "," SAVE("30", RANK("1", "\"/c\""))));
    config.cluster.node_rank = 1;
    cr_assert(record_init(&record, &config, folder, &reap, &err), "%s", err.text);
    folder_put("commit.json", COMMITS("2", "0", COMMIT("20", "1") "," COMMIT("30", "1")));
    record_begin(&record, 2, 0, 30);
    cr_expect(record_check_rank(&record, 1, &err), "%s", err.text);
    expect_path(1, 30, "/c");
    cr_expect_eq(record.history.attempt, 2);
}

Test(record, more_records_than_are_kept_are_no_harm)
{
    char text[16384] = "", list[16000] = "";
    for (int i = 1; i <= 100; i++)
        str_addf(list, sizeof list, "%s{\"step\": %d, \"attempt\": 1, \"at_ns\": 0}",
                 i > 1 ? "," : "", i);
    snprintf(text, sizeof text,
             "{\"schema\": 1, \"job\": \"job\", \"attempt\": 1, \"attempts_without_commit\": 0, "
             "\"commits\": [%s]}",
             list);
    folder_put("commit.json", text);
    start();
    cr_expect_eq(history_last_step(&record.history), 100);
    cr_expect_leq(record.history.ncommits, HISTORY_COMMITS_MAX);
}

static void expect_advice(const char *name, const char *text, const char *why, const char *advice)
{
    folder_put(name, text);
    record_free(&record);
    cr_expect(!record_init(&record, &config, folder, &reap, &err), "%s was taken: %s", name, text);
    cr_expect(strstr(err.text, folder) && strstr(err.text, why) && strstr(err.text, advice),
              "%s: '%s'", text, err.text);
    cr_expect(!strchr(err.text, '\n'));
    cr_expect(strstr(advice, "away") || !strstr(err.text, "away"), "'%s'", err.text);
}

static void expect_refused(const char *name, const char *text, const char *why)
{
    expect_advice(name, text, why, "move the state directory away");
}

static const char *const commits_bad[] = {
    "",
    "{",
    "\x80\xff",
    "[]",
    "{\"schema\": 1, \"job\": \"job\"}",
    "{\"schema\": 1, \"job\": \"job\", \"attempt\": 1, \"attempts_without_commit\": 0}",
    "{\"schema\": 1, \"job\": \"job\", \"attempt\": 1, \"commits\": []}",
    "{\"schema\": 1, \"job\": \"job\", \"attempts_without_commit\": 0, \"commits\": []}",
    "{\"schema\": 1, \"job\": \"job\", \"attempt\": 1, \"attempts_without_commit\": 0, "
    "\"attempts_without_step\": -1, \"commits\": []}",
    "{\"schema\": 1, \"job\": \"job\", \"attempt\": 1, \"attempts_without_commit\": 0, "
    "\"commits\": {}}",
    COMMITS("1", "0", "3"),
    COMMITS("1", "0", "{}"),
    COMMITS("1", "0", COMMIT("0", "1")),
    COMMITS("1", "0", COMMIT("-5", "1")),
    COMMITS("1", "0", COMMIT("\"10\"", "1")),
    COMMITS("1", "0", COMMIT("20", "1") "," COMMIT("10", "1")),
    COMMITS("1", "0", COMMIT("20", "1") "," COMMIT("20", "1")),
    COMMITS("1", "0", "{\"step\": 10, \"at_ns\": 5}"),
    COMMITS("1", "0", "{\"step\": 10, \"attempt\": 1}"),
    COMMITS("-1", "0", ""),
    COMMITS("4294967296", "0", ""),
    COMMITS("1", "-1", ""),
    COMMITS("1", "99999999999", ""),
    COMMITS("1", "0", "") "x",
    OF_EPOCH("-1"),
    OF_EPOCH("true"),
};

Test(record, a_damaged_record_of_commits_is_refused)
{
    for (size_t i = 0; i < ARRAY_LEN(commits_bad); i++)
        expect_refused("commit.json", commits_bad[i], "commit.json");
}

/* To write at least {} into it, as into a file of options, would drop all commits. */
Test(record, a_record_that_is_cut_off_is_not_to_be_mended)
{
    expect_refused("commit.json", "{\"schema\": 1, \"job", "; the file is damaged");
    cr_assert(!strstr(err.text, "write at least"), "%s", err.text);
}

Test(record, a_damaged_record_of_our_ranks_is_refused)
{
    static const char *const bad[] = {
        "",
        "{\"schema\": 1, \"job\": \"job\"}",
        "{\"schema\": 1, \"job\": \"job\", \"saves\": []}",
        "{\"schema\": 1, \"job\": \"job\", \"attempt\": 1}",
        RANKS("-1", ""),
        RANKS("1", "7"),
        RANKS("1", SAVE("10", "7")),
        RANKS("1", SAVE("10", RANK("0", "true"))),
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        expect_refused("ranks.0.json", bad[i], "ranks.0.json");
}

/* A node does not judge the damaged file of another node. It reads the other files, or finds
 * nothing. */
Test(record, another_node_s_damaged_record_is_passed_over)
{
    folder_put("commit.json", COMMITS("1", "0", COMMIT("20", "1")));
    folder_put("ranks.1.json", "damaged");
    folder_put("ranks.2.json", RANKS("1", SAVE("20", RANK("1", "\"/one\""))));
    start();
    expect_path(1, 20, "/one");
}

/* The other job may be running. */
Test(record, another_job_s_record_is_refused_and_not_to_be_moved)
{
    static const char text[] =
        "{\"schema\": 1, \"job\": \"other\", \"attempt\": 1, \"attempts_without_commit\": 0, "
        "\"commits\": [], \"saves\": []}";
    static const char advice[] = "give each job a checkpoint.dir or state_dir of its own";
    expect_advice("commit.json", text, "\"other\"", advice);
    expect_advice("commit.json", text, "this start is of job \"job\". If it is the same job, add",
                  "--job other");
    folder_put("commit.json", COMMITS("1", "0", ""));
    expect_advice("ranks.0.json", text, "\"other\"", advice);
}

static void expect_no_file(const char *name, const char *why)
{
    record_free(&record);
    cr_expect(!record_init(&record, &config, folder, &reap, &err), "%s was taken", name);
    cr_expect(strstr(err.text, name) && strstr(err.text, why), "%s", err.text);
}

Test(record, a_file_that_is_none_is_refused)
{
    char path[128];
    for (int i = 0; i < 2; i++) {
        const char *name = i ? "ranks.0.json" : "commit.json";
        snprintf(path, sizeof path, "%s/%s", folder, name);
        cr_assert_eq(mkdir(path, 0700), 0);
        expect_no_file(name, "Is a directory");
        cr_assert_eq(rmdir(path), 0);
        cr_assert_eq(mkfifo(path, 0600), 0);
        expect_no_file(name, "not a regular file");
        cr_assert_eq(unlink(path), 0);
        cr_assert_eq(symlink(name, path), 0);
        expect_no_file(name, "Too many levels");
        cr_assert_eq(unlink(path), 0);
    }
}

Test(record, a_state_directory_beyond_a_path_is_refused)
{
    char longest[5000];
    memset(longest, 'd', sizeof longest);
    longest[0] = '/';
    longest[sizeof longest - 1] = '\0';
    cr_expect(!record_init(&record, &config, longest, &reap, &err));
    cr_expect(strstr(err.text, "state_dir"), "%s", err.text);
}

/* --- what is lost --- */

static void expect_lost(int rank, const char *why)
{
    bool is_there = record_check_rank(&record, rank, &err);
    cr_expect_eq(is_there, !why, "rank %d: %s", rank, err.text);
    if (why && !is_there)
        cr_expect(strstr(err.text, why) && strstr(err.text, "put that file back"), "%s", err.text);
}

Test(record, a_rank_whose_save_is_lost_is_told)
{
    folder_put("commit.json", COMMITS("1", "0", COMMIT("20", "1")));
    folder_put("ranks.0.json",
               RANKS("1", OF_WORLD("20", "3", RANK("0", "\"/zero\"") "," RANK("1", "null"))));
    start();
    expect_lost(RECORD_ANY_RANK, NULL);
    expect_lost(0, NULL);
    expect_lost(1, NULL);
    expect_lost(2, "ranks.0.json does not tell where rank 2 of 3 saved it");
    expect_path(2, 20, NULL);
    expect_lost(3, NULL); /* this rank is new, and had no part */
    expect_path(3, 20, "/zero");
    folder_put("ranks.1.json", RANKS("1", OF_WORLD("20", "3", RANK("2", "null"))));
    record_free(&record);
    start();
    expect_lost(2, NULL);
    expect_path(2, 20, "/zero");
}

/* The node is new in a smaller or a larger job: the other files must have everything. */
Test(record, a_node_without_a_file_looks_at_the_others)
{
    folder_put("commit.json", COMMITS("1", "0", COMMIT("20", "1")));
    folder_put("ranks.0.json", RANKS("1", OF_WORLD("20", "2", RANK("0", "\"/zero\""))));
    config.cluster.node_rank = 3;
    start();
    expect_lost(RECORD_ANY_RANK, "ranks.3.json does not tell where rank 1 of 2 saved it");
    folder_put("ranks.1.json", RANKS("1", OF_WORLD("20", "2", RANK("1", "\"/one\""))));
    record_free(&record);
    start();
    expect_lost(RECORD_ANY_RANK, NULL);
    record_free(&record);
    config.checkpoint.shared = false;
    start();
    expect_lost(RECORD_ANY_RANK, "checkpoint.shared is off");
}

/* --- one rank's save is the whole checkpoint --- */

#define WHOLE(step, attempt, rank) \
    "{\"step\": " step ", \"attempt\": " attempt ", \"at_ns\": 5, \"whole_rank\": " rank "}"

/* Rank 2 and its node were lost in the save. A part that another rank named is none. */
Test(record, every_rank_resumes_from_the_save_that_is_whole)
{
    folder_put("commit.json", COMMITS("1", "0", WHOLE("20", "1", "0")));
    folder_put("ranks.0.json",
               RANKS("1", OF_WORLD("20", "3", RANK("0", "\"/zero\"") "," RANK("1", "\"/one\""))));
    for (int node = 0; node < 3; node++) {
        config.cluster.node_rank = node;
        start();
        for (int rank = 0; rank < 4; rank++) {
            expect_lost(rank, NULL);
            expect_path(rank, 20, "/zero");
        }
        expect_lost(RECORD_ANY_RANK, NULL);
        int world;
        cr_expect_eq(record_least_world(&record, &world), 0);
        record_free(&record);
    }
    start();
}

Test(record, the_save_that_is_whole_is_lost)
{
    folder_put("commit.json", COMMITS("1", "0", WHOLE("20", "1", "2")));
    folder_put("ranks.0.json", RANKS("1", OF_WORLD("20", "3", RANK("0", "\"/zero\""))));
    start();
    expect_lost(0, "ranks.0.json does not tell where rank 2 saved it");
    expect_path(0, 20, NULL);
    folder_put("ranks.1.json", RANKS("1", OF_WORLD("20", "3", RANK("2", "\"/two\""))));
    record_free(&record);
    start();
    expect_lost(0, NULL);
    expect_path(0, 20, "/two");
}

/* The job has committed since the start, and begins again in place. The file is older. */
Test(record, a_node_is_told_whose_save_is_whole)
{
    folder_put("commit.json", COMMITS("1", "0", COMMIT("20", "1")));
    folder_put("ranks.0.json",
               RANKS("1", SAVE("20", RANK("0", "\"/a\"")) "," SAVE("30", RANK("0", "\"/zero\""))));
    config.cluster.node_rank = 1;
    start();
    record_saved(&record, 1, 30, "/one");
    record_committed(&record, 30, 1);
    folder_put("commit.json", COMMITS("2", "0", COMMIT("20", "1") "," WHOLE("30", "2", "0")));
    folder_put("ranks.0.json", RANKS("2", SAVE("30", RANK("0", "\"/zero\""))));
    record_begin(&record, 2, 0, 30);
    expect_path(1, 30, "/zero");
}

/* --- whose it is --- */

#define OWNED(attempt, owner)                                                                \
    "{\"schema\": 1, \"job\": \"job\", \"attempt\": " attempt                                \
    ", \"attempts_without_commit\": 1, \"owner\": {\"host\": \"n7\", \"pid\": 123, \"id\": " \
    "\"" owner "\"}, \"commits\": []}"

static void expect_owner(const char *name, const char *text, const char *why)
{
    folder_put(name, text);
    const struct statefile *file = name[0] == 'c' ? &record.commits.file : &record.ranks.file;
    bool is_ours = file->check(&record, &err);
    cr_expect_eq(is_ours, !why, "%s: %s", text, err.text);
    if (why && !is_ours)
        cr_expect(strstr(err.text, why), "%s: %s", text, err.text);
}

/* Two attempts that began at the same instant have the same number. The file says which of them
 * owns the record. */
Test(record, a_later_attempt_has_taken_over)
{
    folder_put("commit.json", COMMITS("4", "0", ""));
    start();
    str_copy(record.history.owner.id, sizeof record.history.owner.id, "aa");
    cr_expect(record.commits.file.check(&record, &err), "%s", err.text);
    expect_owner("commit.json", OWNED("5", "aa"), NULL);
    expect_owner("commit.json", OWNED("5", "bb"), "attempt 5 (process 123 on n7) has taken over");
    expect_owner("commit.json", OWNED("6", "bb"), "attempt 6 (process 123 on n7) has taken over");
    expect_owner("commit.json", OWNED("4", "bb"), NULL);
    expect_owner("commit.json", "{", "cannot tell whether another attempt has taken over");
    expect_owner("ranks.0.json", RANKS("5", ""), NULL);
    expect_owner("ranks.0.json", RANKS("6", ""), "attempt 6 has taken over");
    cr_assert_eq(unlink(record.commits.file.path), 0);
    cr_expect(record.commits.file.check(&record, &err), "moved away: %s", err.text);
}

/* Within an attempt the newest node 0 owns the record. A file without an epoch is of the first. */
Test(record, another_node_0_has_taken_over)
{
    folder_put("commit.json", COMMITS("4", "0", ""));
    start();
    expect_owner("commit.json", OF_EPOCH("0"), NULL);
    expect_owner("commit.json", OF_EPOCH("3"), "another node 0, of epoch 3, has taken over");
    expect_owner("commit.json", OF_EPOCH("-1"), "cannot tell whether another attempt");
    record.history.epoch = 3;
    expect_owner("commit.json", COMMITS("5", "0", ""), NULL);
    expect_owner("commit.json", OF_EPOCH("2"), NULL);
    expect_owner("commit.json", OF_EPOCH("3"), NULL);
    expect_owner("commit.json", OF_EPOCH("4"), "of epoch 4");
    expect_owner("commit.json", COMMITS("6", "0", ""), "attempt 6 has taken over");
}

/* A file of node 1, of attempt 2 and this generation, by the pchrun "aa". */
#define OF_GENERATION(generation, list)                                             \
    "{\"schema\": 1, \"job\": \"job\", \"attempt\": 2, \"generation\": " generation \
    ", \"owner\": {\"host\": \"n7\", \"pid\": 123, \"id\": \"aa\"}, \"saves\": [" list "]}"

/* The supervisor of node 1 was killed in generation 1, and another one takes its place. */
Test(record, a_replacement_takes_its_node_s_file_over)
{
    folder_put("commit.json", COMMITS("2", "0", COMMIT("20", "2")));
    folder_put("ranks.1.json", OF_GENERATION("1", SAVE("20", RANK("1", "\"/a\"")) "," SAVE(
                                                      "30", RANK("1", "\"/never committed\""))));
    config.cluster.node_rank = 1;
    cr_assert(record_init(&record, &config, folder, &reap, &err), "%s", err.text);
    str_copy(record.history.owner.id, sizeof record.history.owner.id, "bb");
    record_begin(&record, 2, 2, 20);
    cr_expect(record_check_rank(&record, 1, &err), "%s", err.text);
    expect_path(1, 20, "/a");
    expect_path(1, 30, NULL);
    cr_expect(record.ranks.file.check(&record, &err), "%s", err.text);
}

/* The supervisor of node 1 that was given up still runs, and the file is the replacement's. */
Test(record, a_replacement_has_taken_over)
{
    config.cluster.node_rank = 1;
    start();
    str_copy(record.history.owner.id, sizeof record.history.owner.id, "bb");
    record_begin(&record, 2, 1, 0);
    expect_owner("ranks.1.json", OF_GENERATION("0", ""), NULL);
    expect_owner("ranks.1.json", OF_GENERATION("1", ""), "another pchrun (process 123 on n7) has");
    expect_owner("ranks.1.json", OF_GENERATION("2", ""), "this node's place in generation 2");
    expect_owner("ranks.1.json", OF_GENERATION("-1", ""), "cannot tell whether another attempt");
    str_copy(record.history.owner.id, sizeof record.history.owner.id, "aa");
    expect_owner("ranks.1.json", OF_GENERATION("1", ""), NULL);
}

/* A replacement begins only in a later generation. So this file is of an attempt that node 0 does
 * not know. */
Test(record, a_file_of_this_generation_is_of_another_attempt)
{
    folder_put("commit.json", COMMITS("1", "0", ""));
    folder_put("ranks.1.json", OF_GENERATION("1", ""));
    config.cluster.node_rank = 1;
    cr_assert(record_init(&record, &config, folder, &reap, &err), "%s", err.text);
    record_begin(&record, 2, 1, 0);
    cr_expect(!record_check_rank(&record, 1, &err));
    cr_expect(strstr(err.text, "has lost its commit.json"), "%s", err.text);
}

/* The scheduler's start of an attempt makes its node 0, whatever the last attempt came to. */
Test(record, a_new_attempt_begins_at_the_first_epoch)
{
    folder_put("commit.json", OF_EPOCH("3"));
    start();
    cr_expect_eq(record.history.attempt, 6);
    cr_expect_eq(record.history.epoch, 0);
}

/* --- what was removed under a running job --- */

static void expect_there(const char *name, bool is_there)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    cr_expect_eq(access(path, F_OK) == 0, is_there, "%s", name);
}

static void remove_files(void)
{
    unlink(record.commits.file.path);
    unlink(record.ranks.file.path);
}

/* commit.json is about to be written, and the file that it needs is gone. */
Test(record, a_commit_brings_back_the_ranks)
{
    start();
    record.world = 1;
    record_saved(&record, 0, 10, "/a");
    cr_assert(record.commits.file.check(&record, &err), "%s", err.text);
    expect_there("ranks.0.json", false); /* no step is being committed */
    record.commits.step = 10;
    cr_assert(record.commits.file.check(&record, &err), "%s", err.text);
    record_free(&record);
    folder_put("commit.json", COMMITS("1", "0", COMMIT("10", "1")));
    start();
    expect_lost(RECORD_ANY_RANK, NULL);
    expect_path(0, 10, "/a");
}

/* Another writer of ours was faster: its content is newer. */
Test(record, what_is_there_by_now_stays)
{
    char text[8] = "";
    start();
    folder_put("ranks.0.json", "newer");
    cr_expect(statefile_put_back(&record.ranks.file, "older", 5, &err), "%s", err.text);
    FILE *file = fopen(record.ranks.file.path, "re");
    cr_assert(file && fgets(text, sizeof text, file) && fclose(file) == 0);
    cr_expect_str_eq(text, "newer");
}

Test(record, ranks_bring_back_the_commits)
{
    folder_put("commit.json", COMMITS("3", "1", COMMIT("10", "1")));
    folder_put("ranks.0.json", RANKS("1", SAVE("10", RANK("0", "\"/a\""))));
    start();
    unlink(record.commits.file.path);
    cr_assert(record.ranks.file.check(&record, &err), "%s", err.text);
    record_free(&record);
    start();
    cr_expect_eq(history_last_step(&record.history), 10);
    cr_expect_eq(record.history.attempt, 5);
    cr_expect_eq(record.history.attempts_without_commit, 2);
    cr_expect_str_eq(err.text, "", "nothing is lost");
    remove_files();
    cr_assert(record.ranks.file.check(&record, &err), "%s", err.text);
    cr_expect(strstr(err.text, "emptied while the job ran"), "%s", err.text);
    record_free(&record);
    start(); /* as if the write had ended here */
    cr_expect_eq(history_last_step(&record.history), 0);
    cr_expect_eq(record.history.attempt, 6);
    remove_files();
    record.commits.step = 20; /* the attempt that writes it */
    cr_assert(record.ranks.file.check(&record, &err), "%s", err.text);
    expect_there("commit.json", false);
}

static struct loop loop;

static void open_node_0(void)
{
    struct core_params params = {.host = "n0"};
    loop.base = watch_open(&err);
    cr_assert(loop.base, "%s", err.text);
    start();
    cr_assert(record_open(&record, &loop, &params, &err), "%s", err.text);
}

static bool commits_are_awaited(void)
{
    return statefile_is_awaited(&record.commits.file);
}

static void close_node_0(void)
{
    while (commits_are_awaited())
        cr_assert(watch_turn(loop.base));
    cr_expect_eq(record.commits.deadline.at, CLOCK_NEVER);
    record_free(&record);
    unit_reap_all();
    watch_close(loop.base);
}

/* Two writes at the end of a run: the second begins when the first has ended, and may hang as well.
 */
Test(record, a_write_that_waited_has_a_deadline_of_its_own)
{
    open_node_0();
    record_note_end(&record, 1);
    record_note_end(&record, 2);
    cr_assert(record.commits.file.next);
    while (record.commits.file.next)
        cr_assert(watch_turn(loop.base));
    cr_assert(commits_are_awaited());
    cr_expect_neq(record.commits.deadline.at, CLOCK_NEVER);
    close_node_0();
}

/* Strikes are written with the next commit or count, and not once more at the end. */
Test(record, the_end_writes_only_what_is_new)
{
    open_node_0();
    strikes_add(&record.history.strikes, "n7", "gpu3", 5);
    record_note_end(&record, 1);
    record_end(&record, CLOCK_NEVER);
    cr_expect(!record.commits.file.next);
    while (commits_are_awaited())
        cr_assert(watch_turn(loop.base));
    strikes_add(&record.history.strikes, "n8", "gpu0", 6);
    record_end(&record, CLOCK_NEVER);
    cr_expect(commits_are_awaited());
    close_node_0();
}

Test(record, only_node_0_writes_the_commits)
{
    config.cluster.node_rank = 1;
    start();
    cr_assert(record.ranks.file.check(&record, &err), "%s", err.text);
    expect_there("commit.json", false);
}

/* Node 1's file is gone after a commit of attempt 4. Is the file written anew? */
static void expect_put_back(const char *commits, bool is_shared, bool is_put_back)
{
    config.cluster.node_rank = 1;
    config.checkpoint.shared = is_shared;
    start();
    record_begin(&record, 4, 0, 0);
    record_saved(&record, 1, 10, "/a");
    if (commits)
        folder_put("commit.json", commits);
    record_committed(&record, 10, 0);
    statefile_wait(&record.ranks.file, (int64_t)UNIT_DEADLINE_MS * NS_PER_MS);
    expect_there("ranks.1.json", is_put_back);
    remove_files();
    record_free(&record); /* ends the writer */
    unit_reap_all();
}

Test(record, another_node_s_ranks_come_back_for_their_own_commit)
{
    expect_put_back(COMMITS("4", "0", COMMIT("10", "4")), true, true);
    expect_put_back(NULL, true, false);
    expect_put_back(NULL, false, true);
    expect_put_back(COMMITS("1", "0", ""), true, false); /* of a start from scratch */
    expect_put_back(COMMITS("5", "0", COMMIT("10", "4")), true, false);
    expect_put_back("{\"schema\": 1, \"job\": \"other\", \"attempt\": 4}", true, false);
}
