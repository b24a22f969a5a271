/* SPDX-License-Identifier: Apache-2.0
 * test_cause: which of several failures was the first, in whatever order they are reported; and how
 * far apart two clocks are.
 */
#include "base/clock.h"
#include "base/str.h"
#include "core/common/cause.h"
#include "core/node/uplink.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>

#define NOW (1000 * NS_PER_S)

static struct peer_cause failure(int node, int64_t at, int64_t error, const char *text)
{
    struct peer_cause cause = {
        .fault = FAULT_EXIT, .node = node, .code = 7, .at_ns = at, .error_ns = error, .wall_ns = 1};
    str_copy(cause.text, sizeof cause.text, text);
    return cause;
}

static struct causes causes;

static void take(int64_t now, struct peer_cause cause)
{
    causes_take(&causes, now, &cause);
}

Test(cause, each_kind_has_a_name)
{
    for (unsigned fault = FAULT_NONE; fault <= FAULT_UNFIT; fault++)
        cr_expect(cause_kind(fault) && !str_is(cause_kind(fault), "unknown"), "%u", fault);
    cr_expect_str_eq(cause_kind(FAULT_UNFIT + 1), "unknown");
}

Test(cause, none)
{
    cr_assert_null(causes_first(&causes));
}

/* The failure that is heard last may have been the first. */
Test(cause, the_earliest_is_the_first)
{
    take(NOW, failure(1, NOW - 5, 0, "b"));
    take(NOW, failure(2, NOW - 3, 0, "c"));
    cr_assert_str_eq(causes_first(&causes)->text, "b");
    take(NOW, failure(0, NOW - 9, 0, "a"));
    cr_assert_str_eq(causes_first(&causes)->text, "a");
}

/* A scheduler may start a job again without an unhealthy node, but not a job that was stopped. So a
 * stop is not lost, however many nodes are unhealthy. */
Test(cause, a_stop_before_unhealthy_nodes)
{
    for (int i = 0; i < 2 * CAUSES_MAX; i++) {
        struct peer_cause unfit = failure(i, NOW - 100 + i, 0, "unfit");
        unfit.fault = FAULT_UNFIT;
        take(NOW, unfit);
    }
    cr_assert_eq(causes_first(&causes)->node, 0);
    struct peer_cause stopped = failure(99, NOW, 0, "stopped");
    stopped.fault = FAULT_STOPPED;
    take(NOW, stopped);
    cr_assert_eq(causes_first(&causes)->node, 99);
}

/* A thousand nodes fail at once, and report it in the worst order. */
Test(cause, of_many_the_first_is_kept)
{
    for (int node = 1000; node > 0; node--)
        take(NOW, failure(node, NOW - 2000 + node, 0, "x"));
    cr_assert_eq(causes_first(&causes)->node, 1);
    cr_assert_leq(causes.n, CAUSES_MAX);
    for (int node = 1; node <= 1000; node++)
        take(NOW, failure(node, NOW - 2000 + node, 0, "x"));
    cr_assert_eq(causes_first(&causes)->node, 1);
}

static struct peer_cause death(int node, int64_t at, int number)
{
    struct peer_cause cause = failure(node, at, 0, "death");
    cause.fault = FAULT_SIGNAL;
    cause.code = 128 + number;
    return cause;
}

/* Processes that miss the dead process exit before its death is seen, on many nodes at once. */
Test(cause, a_crash_before_those_who_miss_it)
{
    int64_t crash = cause_counts_from(FAULT_SIGNAL, 128 + SIGSEGV, NOW);
    for (int node = 1; node <= 100; node++)
        take(NOW, failure(node, NOW - 50 * NS_PER_MS + node, 0, "I miss it"));
    take(NOW, death(0, crash, SIGSEGV));
    cr_assert_eq(causes_first(&causes)->node, 0);
    for (int node = 101; node <= 200; node++)
        take(NOW, failure(node, NOW - 49 * NS_PER_MS, 0, "I miss it"));
    cr_assert_eq(causes_first(&causes)->node, 0);
    take(NOW, failure(201, NOW - 51 * NS_PER_MS, 0, "long before it"));
    cr_assert_eq(causes_first(&causes)->node, 201);
}

Test(cause, of_crashes_the_earliest)
{
    take(NOW, death(1, NOW - 5, SIGKILL));
    take(NOW, death(2, NOW - 6, SIGBUS));
    take(NOW, death(3, NOW - 4, SIGFPE));
    cr_assert_eq(causes_first(&causes)->node, 2);
}

static int first_of(struct peer_cause exit, struct peer_cause crash)
{
    causes = (struct causes){0};
    take(NOW, exit);
    take(NOW, crash);
    int first = causes_first(&causes)->node;
    causes = (struct causes){0};
    take(NOW, crash);
    take(NOW, exit);
    cr_expect_eq(causes_first(&causes)->node, first, "the order of the reports does not count");
    return first;
}

/* The clocks do not show which of the two was earlier: a crash makes other processes exit. */
Test(cause, a_crash_before_exits_if_the_clocks_allow_it)
{
    struct peer_cause exit = failure(1, NOW - 100, 10, "I miss it"), crash = death(2, 0, SIGKILL);
    crash.at_ns = NOW - 80;
    crash.error_ns = 10;
    cr_expect_eq(first_of(exit, crash), 2);
    crash.error_ns = 9;
    cr_expect_eq(first_of(exit, crash), 1, "it was later");
    exit.error_ns = crash.error_ns = 10;
    crash.code = 128 + SIGABRT;
    cr_expect_eq(first_of(exit, crash), 1, "an abort may be a victim's");
    crash.code = 128 + SIGKILL;
    exit.fault = FAULT_START;
    cr_expect_eq(first_of(exit, crash), 1, "no crash keeps a process from its start");
    struct peer_cause other = crash;
    other.node = 3;
    other.at_ns--;
    other.error_ns = 100;
    cr_expect_eq(first_of(other, crash), 3, "of two crashes the earlier");
}

/* Without an error the time of a failure is the latest that is possible. */
Test(cause, a_crash_without_a_clock)
{
    struct peer_cause exit = failure(1, NOW - 100, 0, "I miss it"), crash = death(2, 0, SIGKILL);
    crash.error_ns = -1;
    crash.ago_ns = 80;
    cr_expect_eq(first_of(exit, crash), 1);
    crash.ago_ns = 100;
    cr_expect_eq(first_of(exit, crash), 2);
    exit.error_ns = -1;
    exit.ago_ns = 100;
    crash = death(2, NOW - 90, SIGKILL);
    crash.error_ns = 10;
    cr_expect_eq(first_of(exit, crash), 2);
    crash.error_ns = 9;
    cr_expect_eq(first_of(exit, crash), 1);
}

/* The processes of many nodes seem to have ended before the crash that they follow from. */
Test(cause, a_crash_among_many_exits)
{
    for (int node = 1; node <= 100; node++)
        take(NOW, failure(node, NOW - 1000 + node, 0, "I miss it"));
    struct peer_cause crash = death(0, NOW - 500, SIGSEGV);
    crash.error_ns = 499;
    take(NOW, crash);
    cr_assert_eq(causes_first(&causes)->node, 0);
    for (int node = 101; node <= 200; node++)
        take(NOW, failure(node, NOW - 1100 + node, 0, "I miss it"));
    cr_assert_eq(causes_first(&causes)->node, 0);
    for (int node = 201; node <= 300; node++)
        take(NOW, death(node, NOW - 400, SIGSEGV));
    cr_assert_eq(causes_first(&causes)->node, 0);
    take(NOW, failure(301, NOW - 1001, 0, "before it"));
    cr_assert_eq(causes_first(&causes)->node, 301, "and its clock is exact");
    cr_assert_leq(causes.n, 2 * CAUSES_MAX);
}

/* Programs that abort or are ended when they miss another are no crash. */
Test(cause, an_abort_may_be_a_victims)
{
    static const int signals[] = {SIGABRT, SIGTERM, SIGINT, SIGPIPE};
    for (size_t i = 0; i < ARRAY_LEN(signals); i++)
        cr_assert_eq(cause_counts_from(FAULT_SIGNAL, 128 + signals[i], NOW), NOW);
}

/* A node that does not know node 0's clock tells how long ago the failure was. Node 0 believes it.
 */
Test(cause, without_a_clock)
{
    struct peer_cause cause = failure(1, 0, -1, "b");
    cause.ago_ns = 100;
    take(NOW, cause);
    cr_assert_eq(causes_first(&causes)->at_ns, NOW - 100);
    /* A repeated report is faster on its way: so the failure was earlier. */
    cause.ago_ns = 250;
    take(NOW + 100, cause);
    cr_assert_eq(causes_first(&causes)->at_ns, NOW - 150);
    cause.ago_ns = 300;
    take(NOW + 300, cause);
    cr_assert_eq(causes_first(&causes)->at_ns, NOW - 150, "this one came late");
    /* Now the node knows node 0's clock. */
    cause.at_ns = NOW - 170;
    cause.error_ns = 5;
    take(NOW + 400, cause);
    cr_assert_eq(causes_first(&causes)->at_ns, NOW - 170);
    cause.at_ns = NOW - 180;
    cause.error_ns = 50;
    take(NOW + 500, cause);
    cr_assert_eq(causes_first(&causes)->at_ns, NOW - 170, "that was known better");
}

/* No failure is later than its report. */
Test(cause, absurd_times)
{
    struct peer_cause cause = failure(1, INT64_MAX, INT64_MAX, "x");
    take(NOW, cause);
    cr_assert_eq(causes_first(&causes)->at_ns, NOW);
    cause.ago_ns = INT64_MAX;
    cause.error_ns = -1;
    cause.node = 2;
    take(NOW, cause);
    cr_assert_eq(causes_first(&causes)->at_ns, 0);
}

/* A node finds that another process of it had failed before, or has more to report about the same
 * failure. */
Test(cause, a_node_changes_its_word)
{
    struct peer_cause told = failure(1, NOW - 5, 0, "exit code 7");
    take(NOW, told);
    struct peer_cause more = failure(1, NOW - 5, 0, "exit code 7: no memory");
    cr_assert(cause_is_same(&told, &told) && !cause_is_same(&told, &more));
    take(NOW, more);
    cr_assert_str_eq(causes_first(&causes)->text, "exit code 7: no memory");
    struct peer_cause other = failure(1, NOW - 50, 9, "another");
    other.pid = 4711;
    take(NOW, other);
    cr_assert_str_eq(causes_first(&causes)->text, "another");
    cr_assert_eq(causes_first(&causes)->at_ns, NOW - 50);
    cr_assert_eq(causes.n, 1);
    more = told;
    more.at_ns++;
    more.ago_ns++;
    cr_assert(cause_is_same(&told, &more), "only its time is known better");
}

/* --- clocks --- */

Test(clockoff, nothing_is_known)
{
    struct clockoff off = {0};
    int64_t theirs, error;
    cr_assert(!clockoff_theirs(&off, NOW, NOW, &theirs, &error));
    clockoff_take(&off, NOW, NOW - 1, 5);
    clockoff_take(&off, NOW, NOW + 1, -5);
    clockoff_take(&off, NOW, NOW + 1, INT64_MAX);
    cr_assert(!clockoff_theirs(&off, NOW, NOW, &theirs, &error), "none of that can be");
}

/* The true offset is 500 s; each of the two ways may take any time. */
static void beat(struct clockoff *off, int64_t sent, int64_t there, int64_t back)
{
    clockoff_take(off, sent, sent + there + back, sent + there + 500 * NS_PER_S);
}

static void expect_within(const struct clockoff *off, int64_t now, int64_t most)
{
    int64_t theirs, error;
    cr_assert(clockoff_theirs(off, now, NOW, &theirs, &error));
    int64_t wrong = theirs - NOW - 500 * NS_PER_S;
    cr_assert(wrong <= error && wrong >= -error, "%lld ns, and at most %lld", (long long)wrong,
              (long long)error);
    cr_assert_leq(error, most);
}

Test(clockoff, the_soonest_answer_counts)
{
    struct clockoff off = {0};
    beat(&off, NOW, 8 * NS_PER_MS, NS_PER_MS);
    expect_within(&off, NOW, 5 * NS_PER_MS);
    beat(&off, NOW, 10000, 90000);
    expect_within(&off, NOW, 60000);
    for (int i = 0; i < CLOCKOFF_SAMPLES - 1; i++)
        beat(&off, NOW, NS_PER_MS, 300 * NS_PER_MS);
    expect_within(&off, NOW, 60000);
    beat(&off, NOW, NS_PER_MS, 300 * NS_PER_MS);
    expect_within(&off, NOW, 151 * NS_PER_MS);
}

/* A measurement loses its accuracy with time: the clocks drift. */
Test(clockoff, what_is_old_is_less_exact)
{
    struct clockoff off = {0};
    int64_t theirs, then, later;
    beat(&off, NOW, 10000, 10000);
    cr_assert(clockoff_theirs(&off, NOW + 20000, NOW, &theirs, &then));
    cr_assert(clockoff_theirs(&off, NOW + 100 * NS_PER_S, NOW, &theirs, &later));
    cr_assert_geq(later, then + 9 * NS_PER_MS);
    beat(&off, NOW + 100 * NS_PER_S, 100000, 100000);
    expect_within(&off, NOW + 100 * NS_PER_S, 200000);
}

/* A machine was suspended, and its clock stood still. Earlier measurements are not true any more,
 * however exact they were. */
Test(clockoff, a_clock_that_stood_still)
{
    struct clockoff off = {0};
    int64_t at = NOW - 10 * NS_PER_S;
    clockoff_take(&off, at, at + 2000, at + 1000 + 503 * NS_PER_S);
    beat(&off, NOW, NS_PER_MS, 50 * NS_PER_MS);
    expect_within(&off, NOW, 30 * NS_PER_MS);
}
