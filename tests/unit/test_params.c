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

Test(params, without_n_the_first_process_says_how_many)
{
    struct core_params params;
    load_l_ok("true", "");
    cr_assert(params_fill(&params, &l.config, &l.err));
    cr_assert_eq(params.children, 1);
    cr_assert_eq(params.expected_procs, -1);
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
