/* SPDX-License-Identifier: Apache-2.0
 *
 * test_params: what the core and the report follow from the configuration.
 */
#include "run/params.h"

#include "unit.h"

#include "base/clock.h"

#include <signal.h>
#include <stdlib.h>

static void load(struct config *config, char **argv)
{
    struct err err;
    char *env[] = {NULL};
    cr_assert_eq(config_load(argv, env, stdout, config, &err), ARGS_RUN, "%s", err.text);
}

Test(params, follow_the_configuration)
{
    struct config config;
    struct core_params params;
    struct err err;
    char *argv[] = {"pchrun",           "-n",    "4",  "--grace", "90s",
                    "--stop-leftovers", "leave", "--", "true",    NULL};
    load(&config, argv);
    cr_assert(params_fill(&params, &config, &err), "%s", err.text);
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
    config_free(&config);
}

Test(params, without_n_the_first_process_says_how_many)
{
    struct config config;
    struct core_params params;
    struct err err;
    char *argv[] = {"pchrun", "true", NULL};
    load(&config, argv);
    cr_assert(params_fill(&params, &config, &err));
    cr_assert_eq(params.children, 1);
    cr_assert_eq(params.expected_procs, -1);
    config_free(&config);
}

static void assert_report_path(char **argv, const char *expected)
{
    struct config config;
    struct err err;
    char *dir, *path;
    load(&config, argv);
    config.cluster.node_rank = 3;
    cr_assert(paths_state_dir(&config, &dir, &err));
    cr_assert(paths_expand(&config, config.report, dir, &path, &err), "%s", err.text);
    if (expected)
        cr_assert(path && strcmp(path, expected) == 0, "%s", path);
    else
        cr_assert_null(path);
    free(path);
    free(dir);
    config_free(&config);
}

Test(params, the_report_is_in_the_state_directory)
{
    char *none[] = {"pchrun", "true", NULL};
    assert_report_path(none, NULL);
    char *checkpoint[] = {"pchrun", "--checkpoint-dir", "/c", "true", NULL};
    assert_report_path(checkpoint, "/c/.pchrun/report.3.json");
    char *state[] = {"pchrun", "--checkpoint-dir", "/c", "--state-dir", "/s", "true", NULL};
    assert_report_path(state, "/s/report.3.json");
    char *named[] = {"pchrun", "--report", "/r/{node_rank}-{node_rank}.json", "true", NULL};
    assert_report_path(named, "/r/3-3.json");
}
