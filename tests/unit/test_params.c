/* SPDX-License-Identifier: Apache-2.0
 *
 * test_params: what the core and the report follow from the configuration.
 */
#include "run/params.h"

#include "base/clock.h"
#include "configload.h"

static void end(void)
{
    unload(&l);
}

TestSuite(params, .fini = end);

Test(params, follow_the_configuration)
{
    struct core_params params;
    load_l_ok("-n 4 --grace 90s --stop-leftovers leave -- true", "");
    cr_assert(params_fill(&params, &l.config, &l.err), "%s", l.err.text);
    cr_assert_eq(params.children, 4);
    cr_assert_eq(params.expected_procs, 4);
    cr_assert_eq(params.nnodes, 1);
    cr_assert_eq(params.leftovers, LEFTOVERS_LEAVE);
    cr_assert_eq(params.signals[SIGTERM].rule, SIGNAL_PREEMPT);
    cr_assert_eq(params.signals[SIGTERM].grace_ns, 90 * NS_PER_S);
    cr_assert_eq(params.signals[SIGINT].rule, SIGNAL_FORWARD);
    cr_assert_eq(params.signals[SIGRTMAX].rule, SIGNAL_FORWARD);
    cr_assert_eq(params.exit.preempted, 42);
    cr_assert_neq(params.incarnation, 0);
}

Test(params, know_whether_the_grace_is_a_guess)
{
    struct core_params params;
    load_l_ok("--signals USR1=preempt:240s -- true", "");
    cr_assert(params_fill(&params, &l.config, &l.err));
    cr_assert_eq(params.train_on, TRAIN_ON_AUTO);
    cr_assert(params.is_guess && params.signals[SIGTERM].is_guess);
    cr_assert(!params.signals[SIGUSR1].is_guess);
    load_l_ok("--grace 25s --no-save-train-on -- true", "");
    cr_assert(params_fill(&params, &l.config, &l.err));
    cr_assert_eq(params.train_on, TRAIN_ON_NEVER);
    cr_assert(!params.is_guess && !params.signals[SIGTERM].is_guess);
}

Test(params, without_n_the_first_process_says_how_many)
{
    struct core_params params;
    load_l_ok("true", "");
    cr_assert(params_fill(&params, &l.config, &l.err));
    cr_assert_eq(params.children, 1);
    cr_assert_eq(params.expected_procs, -1);
}

/* Auto is a time that the core chooses within these. */
Test(params, how_often_to_save)
{
    static const struct {
        const char *args;
        uint64_t steps;
        int64_t ns, most_ns;
    } rows[] = {{"true", 0, 0, 0},
                {"--checkpoint-every 70 true", 70, 0, 0},
                {"--checkpoint-every 10m true", 0, 600 * NS_PER_S, 0},
                {"--checkpoint-every auto true", 0, 300 * NS_PER_S, 7200 * NS_PER_S}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct core_params params;
        load_l_ok(rows[i].args, "");
        cr_assert(params_fill(&params, &l.config, &l.err));
        cr_expect_eq(params.every_steps, rows[i].steps, "%s", rows[i].args);
        cr_expect_eq(params.every_ns, rows[i].ns, "%s", rows[i].args);
        cr_expect_eq(params.every_most_ns, rows[i].most_ns, "%s", rows[i].args);
    }
}

/* A damaged record must not make the core compute with numbers without bounds. */
Test(params, the_numbers_of_a_record_are_bounded)
{
    struct core_params params = {0};
    struct history history = {.ran_ns = INT64_MAX,
                              .failures = INT64_MAX,
                              .save_ns = INT64_MAX,
                              .end_ns = INT64_MAX,
                              .attempt = 1};
    params_of_history(&params, &history);
    cr_expect_leq(params.ran_ns, INT64_MAX / 16);
    cr_expect(params.failures > 0 && params.failures <= 1000000);
    cr_expect_leq(params.save_ns, 24 * 3600 * NS_PER_S);
    cr_expect_leq(params.end_ns, 24 * 3600 * NS_PER_S);
}

/* The record counts the attempts. Without one, only the scheduler does, if it starts this pchrun.
 */
Test(params, who_counts_the_attempts)
{
    static const struct {
        const char *env, *dir;
        uint32_t attempt;
        int before;
    } rows[] = {{"SLURM_JOB_ID=9 SLURM_RESTART_COUNT=2", "/c/.pchrun", 7, 1},
                {"SLURM_JOB_ID=9 SLURM_RESTART_COUNT=2", NULL, 3, 2},
                {"SLURM_JOB_ID=9 SLURM_RESTART_COUNT=2 PCH_SOCKET=/s", NULL, 1, 0},
                {"SLURM_JOB_ID=9", NULL, 1, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct core_params params = {0};
        struct history history = {.attempt = rows[i].dir ? 7 : 1,
                                  .attempts_without_commit = rows[i].dir != NULL};
        load_l_ok("true", rows[i].env);
        params_of_history(&params, &history);
        params_of_dir(&params, &l.config, rows[i].dir);
        cr_expect_eq(params.attempt, rows[i].attempt, "%zu", i);
        cr_expect_eq(params.attempts_without_commit, rows[i].before, "%zu", i);
    }
}

static void assert_report_path(const char *args, const char *expected)
{
    struct err err;
    char *dir, *path;
    load_l_ok(args, "");
    l.config.cluster.node_rank = 3;
    cr_assert(paths_state_dir(&l.config, &dir, &err));
    cr_assert(paths_expand(&l.config, l.config.report, dir, &path, &err), "%s", err.text);
    if (expected)
        cr_assert(path && strcmp(path, expected) == 0, "%s", path);
    else
        cr_assert_null(path);
    free(path);
    free(dir);
}

Test(params, the_report_is_in_the_state_directory)
{
    assert_report_path("true", NULL);
    assert_report_path("--checkpoint-dir /c true", "/c/.pchrun/report.3.json");
    assert_report_path("--checkpoint-dir /c --state-dir /s true", "/s/report.3.json");
    assert_report_path("--report /r/{node_rank}-{node_rank}.json true", "/r/3-3.json");
}
