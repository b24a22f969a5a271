/* SPDX-License-Identifier: Apache-2.0
 *
 * test_core_interrupted: a signal that is forwarded and ends programs, as Ctrl-C sends it, and the
 * outcome of what the commands do then.
 */
#include "walk.h"

#include "base/str.h"

TestSuite(core_interrupted, .fini = walks_end);

static void expect_end(const struct walk *w, enum outcome outcome, int code, const char *why)
{
    struct core_report report = report_of(w);
    cr_expect(report.outcome == outcome && report.exit_code == code, "%d, %d: %s", report.outcome,
              report.exit_code, report.why);
    cr_expect(strstr(report.why, why), "%s", report.why);
}

/* Python exits with 1 or dies of the signal, and a shell exits with 130. All are one outcome. */
Test(core_interrupted, whatever_the_program_makes_of_it)
{
    static const int statuses[] = {SIGINT, 1 << 8, (128 + SIGINT) << 8, 0};
    for (size_t i = 0; i < ARRAY_LEN(statuses); i++) {
        struct walk *w = begin_attached(1);
        signalled(w, SIGINT);
        now += S;
        gone(w, 0);
        exits(w, statuses[i]);
        assert_did(w, "exit 130 interrupted");
        expect_end(w, OUTCOME_INTERRUPTED, 130, "interrupted on node 0 by SIGINT");
    }
}

Test(core_interrupted, a_program_that_handles_it)
{
    static const struct {
        int status, code;
    } rows[] = {{5 << 8, 5}, {SIGKILL, 137}, {(128 + SIGHUP) << 8, 129}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct walk *w = begin_alone(1);
        signalled(w, SIGINT);
        exits(w, rows[i].status);
        expect_end(w, OUTCOME_FAILED, rows[i].code, "process 1000 ended with ");
    }
    struct walk *w = begin_attached(1);
    signalled(w, SIGINT);
    says(w, 0, (struct procmsg){.type = PROCMSG_DONE, .step = 4});
    gone(w, 0);
    exits(w, 0);
    assert_did(w, "exit 0 completed");
}

/* A program may go on after the signal, and fail much later for another reason. */
Test(core_interrupted, long_ago)
{
    struct walk *w = begin_alone(1);
    signalled(w, SIGINT);
    now += 61 * S;
    exits(w, 1 << 8);
    expect_end(w, OUTCOME_FAILED, 1, "exit code 1");
}

Test(core_interrupted, after_the_failure)
{
    struct walk *w = begin_alone(2);
    exited(w, 1, 1 << 8);
    now += S;
    signalled(w, SIGINT);
    ends(w, SIGINT);
    expect_end(w, OUTCOME_FAILED, 1, "process 1001 ended with exit code 1");
}

Test(core_interrupted, by_another_signal)
{
    struct walk *w = begin_alone(1);
    signalled(w, SIGHUP);
    exits(w, 1 << 8);
    expect_end(w, OUTCOME_INTERRUPTED, 129, "by SIGHUP");
    struct core_params p = params_of(0, 1, 1);
    p.signals[SIGTERM].rule = SIGNAL_FORWARD;
    w = begin_started(&p);
    signalled(w, SIGTERM);
    exits(w, SIGTERM);
    expect_end(w, OUTCOME_INTERRUPTED, 143, "by SIGTERM");
}

Test(core_interrupted, before_the_start)
{
    struct core_params p = params_of(0, WALK_NODES, 1);
    struct walk *w = walk_begin(&p);
    signalled(w, SIGINT);
    assert_did(w, "exit 130 interrupted");
}

/* The other node's rank misses the interrupted one, and fails. That may be heard first. */
Test(core_interrupted, on_one_node_of_two)
{
    enum { FIRST_TOLD, FIRST_FAILED, LATE, ORDERS };
    for (int order = 0; order < ORDERS; order++) {
        begin_two();
        if (order == LATE) {
            exited(&walks[0], 0, 1 << 8);
            now += 100 * MS;
        }
        signalled(&walks[1], SIGINT);
        deliver();
        if (order == FIRST_FAILED)
            exited(&walks[0], 0, 1 << 8);
        now += 10 * MS;
        exits(&walks[1], SIGINT);
        deliver();
        if (order == FIRST_TOLD)
            exited(&walks[0], 0, SIGTERM);
        tree_empty(&walks[0]);
        deliver();
        assert_both_did("exit 130 interrupted");
        for (int i = 0; i < WALK_NODES; i++) {
            expect_end(&walks[i], OUTCOME_INTERRUPTED, 130, "interrupted on node 1 by SIGINT");
            assert_not_said(&walks[i], "the cause has changed");
        }
    }
}

/* A user who ends the job three times is not told that it makes no progress. */
Test(core_interrupted, it_does_not_count_as_an_attempt)
{
    static const int signals[] = {SIGINT, SIGHUP};
    for (size_t i = 0; i < ARRAY_LEN(signals); i++) {
        struct walk *w = begin_attached(1);
        signalled(w, signals[i]);
        gone(w, 0);
        exits(w, signals[i]);
        assert_said(w, "this attempt does not count");
    }
}
