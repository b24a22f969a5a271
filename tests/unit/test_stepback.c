/* SPDX-License-Identifier: Apache-2.0
 *
 * test_stepback: the commit that a start resumes from, when some saves of three commits are gone.
 * In the test's folder, "ckpt" is checkpoint.dir.
 */
#include "record/stepback.h"

#include "folder.h"

#include "base/str.h"

static char ckpt[80], state[96];
static struct config config;
static struct reap reap;
static uint32_t whole; /* of the newest commit */

static void shell(const char *command)
{
    char line[512];
    snprintf(line, sizeof line, "cd '%s' && %s", folder, command);
    cr_assert_eq(system(line), 0, "%s", line);
}

static void begin(void)
{
    unit_block_sigchld();
    folder_make();
    shell("mkdir -p ckpt/.pchrun ckpt2 outside && ln -s ckpt link && "
          "touch ckpt/a1 ckpt/b1 ckpt/a2 ckpt/b2 ckpt/a3 ckpt/b3");
    snprintf(ckpt, sizeof ckpt, "%s/ckpt", folder);
    snprintf(state, sizeof state, "%s/ckpt/.pchrun", folder);
    config = (struct config){.job = "job"};
    config.checkpoint.dir = ckpt;
    config.checkpoint.shared = true;
    config.cluster.nnodes = 1;
}

static void end(void)
{
    folder_remove();
    cr_assert(unit_no_children());
}

TestSuite(stepback, .init = begin);

/* The save of the node's only rank at each of the three commits: a path within folder; after ": ",
 * the JSON as it is; NULL: no path was named. */
static void put(int node, const char *first, const char *second, const char *third)
{
    const char *const paths[] = {first, second, third};
    char name[160];
    snprintf(name, sizeof name, "%s/ranks.%d.json", state, node);
    FILE *file = fopen(name, "we");
    cr_assert(file);
    fprintf(file, "{\"schema\": 1, \"job\": \"job\", \"attempt\": 1, \"saves\": [");
    for (int i = 0; i < 3; i++) {
        const char *path = paths[i] ? paths[i] : ": null";
        bool is_raw = str_starts(path, ": ");
        fprintf(file, "%s{\"step\": %d, \"ranks\": [{\"rank\": %d, \"path\": ", i ? "," : "",
                10 * (i + 1), node);
        fprintf(file, is_raw ? "%.0s%s}]}" : "\"%s/%s\"}]}", folder, is_raw ? path + 2 : path);
    }
    fprintf(file, "]}");
    cr_assert_eq(fclose(file), 0);
}

/* The step to resume from. */
static uint64_t found(void)
{
    struct history history = {.job = "job", .attempt = 2, .ncommits = 3};
    for (int i = 0; i < 3; i++)
        history.commits[i] = (struct history_commit){.step = 10 * (uint64_t)(i + 1), .attempt = 1};
    history.commits[2].whole = whole;
    stepback(&history, &config, state, &reap);
    UNIT_SETTLE(reap);
    return history_last_step(&history);
}

EndedTest(stepback, to_the_newest_commit_that_is_whole, end)
{
    put(0, "ckpt/a1", "ckpt/a2", "ckpt/a3");
    put(1, "ckpt/b1", "ckpt/b2", "ckpt/b3");
    cr_expect_eq(found(), 30);
    shell("rm ckpt/b3");
    cr_expect_eq(found(), 20);
    shell("rm ckpt/a2 && ln -s gone ckpt/a2");
    cr_expect_eq(found(), 10, "a link that leads nowhere is no checkpoint");
    shell("rm ckpt/b1");
    cr_expect_eq(found(), 30, "there is nothing to go back to");
}

/* Rank 0's save is the whole checkpoint of the newest commit, so the others do not matter. */
EndedTest(stepback, by_the_save_that_is_whole, end)
{
    whole = 1;
    put(0, "ckpt/a1", "ckpt/a2", "ckpt/a3");
    put(1, "ckpt/b1", "ckpt/b2", "ckpt/b3");
    shell("rm ckpt/b3");
    cr_expect_eq(found(), 30);
    shell("rm ckpt/a3");
    cr_expect_eq(found(), 20);
}

EndedTest(stepback, by_whatever_name_the_folder_goes, end)
{
    static const char *const forms[][2] = {
        {"ckpt/", ""}, {"link/", ""}, {"ckpt//", ""}, {".//ckpt/./", ""}, {"ckpt/", "/"}};
    char link[80];
    snprintf(link, sizeof link, "%s/link", folder);
    shell("rm ckpt/a3");
    for (size_t i = 0; i < 2 * ARRAY_LEN(forms); i++) {
        char second[64], third[64];
        const char *const *form = forms[i / 2];
        snprintf(second, sizeof second, "%sa2%s", form[0], form[1]);
        snprintf(third, sizeof third, "%sa3%s", form[0], form[1]);
        config.checkpoint.dir = i % 2 ? link : ckpt;
        put(0, "ckpt/a1", second, third);
        cr_expect_eq(found(), 20, "%s within %s", third, config.checkpoint.dir);
    }
}

/* A program may save anywhere: its node finds the path again, or the ranks fail at each start. */
EndedTest(stepback, for_a_path_elsewhere, end)
{
    put(0, "ckpt/a1", "ckpt/a2", "ckpt2/a3");
    cr_expect_eq(found(), 20);
    shell("touch ckpt2/a1 ckpt2/a3");
    cr_expect_eq(found(), 30);
    put(0, "ckpt2/a1", "ckpt2/a2", "ckpt2/gone");
    cr_expect_eq(found(), 10);
    put(0, "ckpt2/gone", "ckpt2/gone", "ckpt2/gone");
    cr_expect_eq(found(), 30, "there is nothing to go back to");
}

/* Nothing is known of another node's path elsewhere. */
EndedTest(stepback, not_for_another_node_s_path_elsewhere, end)
{
    put(0, "ckpt/a1", "ckpt/a2", "ckpt/a3");
    put(1, "ckpt/b1", "ckpt/b2", "ckpt2/gone");
    cr_expect_eq(found(), 30);
}

EndedTest(stepback, not_for_what_is_no_path, end)
{
    put(0, "ckpt/a1", "ckpt/a2", ": \"gs://bucket/a3\"");
    cr_expect_eq(found(), 30);
    put(0, "ckpt/a1", "ckpt/a2", ": \"ckpt/a9\"");
    cr_expect_eq(found(), 30);
    put(0, "ckpt/a1", "ckpt/a2", NULL);
    cr_expect_eq(found(), 30);
}

/* An unknown save counts neither way. But an older commit is taken only if some of its saves are
 * there. */
EndedTest(stepback, what_is_not_known, end)
{
    put(0, "ckpt/a1", ": \"gs://bucket/a2\"", "ckpt/gone");
    put(1, NULL, NULL, NULL);
    cr_expect_eq(found(), 10);
    put(1, NULL, "ckpt/b2", NULL);
    cr_expect_eq(found(), 20);
    put(0, "ckpt/a1", "ckpt/a2", "ckpt2/a3");
    put(1, "ckpt/b1", "ckpt/b2", "ckpt/gone");
    cr_expect_eq(found(), 20);
}

/* The job has one node by now; it had eight when it saved. */
EndedTest(stepback, for_a_node_that_the_job_had_then, end)
{
    put(0, "ckpt/a1", "ckpt/a2", "ckpt/a3");
    put(7, "ckpt/b1", "ckpt/b2", "ckpt/gone");
    cr_expect_eq(found(), 20);
}

/* Another node's paths lie on a disk of its own, as far as is known. */
EndedTest(stepback, not_for_a_node_whose_disk_is_not_seen, end)
{
    put(0, "ckpt/a1", "ckpt/a2", "ckpt/a3");
    put(1, "ckpt/b1", "ckpt/b2", "ckpt/gone");
    config.checkpoint.shared = false;
    cr_expect_eq(found(), 30);
    put(0, "ckpt/a1", "ckpt/a2", "ckpt/gone");
    cr_expect_eq(found(), 20);
    config.checkpoint.shared = true;
    snprintf(state, sizeof state, "%s/outside", folder);
    put(0, "ckpt/a1", "ckpt/a2", "ckpt/a3");
    put(1, "ckpt/b1", "ckpt/b2", "ckpt/gone");
    cr_expect_eq(found(), 30);
    put(0, "ckpt/a1", "ckpt/a2", "ckpt/gone");
    cr_expect_eq(found(), 20);
}

EndedTest(stepback, on_node_0_alone_and_not_without_the_folder, end)
{
    put(0, "ckpt/a1", "ckpt/a2", "ckpt/gone");
    config.cluster.node_rank = 1;
    cr_expect_eq(found(), 30);
    config.cluster.node_rank = 0;
    config.checkpoint.dir = NULL;
    cr_expect_eq(found(), 20, "all its paths lie elsewhere then");
    config.checkpoint.dir = "/not/there";
    cr_expect_eq(found(), 30);
    config.checkpoint.dir = ckpt;
    cr_expect_eq(found(), 20);
}
