/* SPDX-License-Identifier: Apache-2.0
 *
 * test_core_every: checkpoint.every auto. The formula by itself, and walks of jobs that save, fail
 * and start again.
 */
#include "base/str.h"
#include "core/common/interval.h"
#include "walk.h"
#include "wire/gate.h"

#include <math.h>

TestSuite(core_every, .fini = walks_end);

#define MINUTE (60 * S)
#define HOUR   (60 * MINUTE)
#define DAY    (24 * HOUR)

/* --- the formula --- */

static int64_t best(int64_t save, int64_t between)
{
    return interval_best(save, between, 0, INT64_MAX);
}

static void expect_about(int64_t have, int64_t want)
{
    cr_expect_leq(llabs(have - want), want / 100 + MS, "%lld ms instead of %lld",
                  (long long)(have / MS), (long long)(want / MS));
}

/* Young: the root of 2 C M. Daly: a third of C and more above it, less C. */
Test(core_every, is_the_one_of_young_and_daly)
{
    expect_about(best(41 * S, 6 * HOUR), 1331 * S - 27 * S);
    expect_about(best(S, DAY), 415 * S);
    expect_about(best(10 * MINUTE, 8 * HOUR), 5485 * S);
    expect_about(best(4 * MINUTE, HOUR), 1164 * S);
}

/* The share of the time that trains the job: an interval of `train`, then a save of `save`, where
 * failures come at random, one in `between`, and each costs a new start of `start` besides. */
static double share(double train, double save, double between, double start)
{
    return train / ((between + start) * expm1((train + save) / between));
}

/* By brute force no other interval trains more, however long a start takes. */
Test(core_every, trains_the_most)
{
    static const int64_t saves[] = {S, 41 * S, 5 * MINUTE}, fails[] = {HOUR, 6 * HOUR, 30 * DAY},
                         starts[] = {0, 5 * MINUTE, 15 * MINUTE};
    for (size_t i = 0; i < 27; i++) {
        double c = (double)saves[i / 9], m = (double)fails[i / 3 % 3], r = (double)starts[i % 3];
        double most = 0, at = 0;
        for (double w = 1e9; w < 2 * m; w *= 1.01)
            if (share(w, c, m, r) > most)
                most = share(at = w, c, m, r);
        double w = (double)best(saves[i / 9], fails[i / 3 % 3]), have = share(w, c, m, r);
        cr_expect_geq(have, 0.999 * most, "%g s trains %g, %g s %g", w / 1e9, have, at / 1e9, most);
    }
}

Test(core_every, grows_with_both)
{
    for (int64_t save = MS; save < HOUR; save *= 3)
        for (int64_t between = 3 * save; between < 1000 * DAY; between *= 3) {
            cr_expect_leq(best(save, between), best(2 * save, 8 * between));
            cr_expect_leq(best(save, between), best(save, 2 * between));
        }
}

Test(core_every, takes_any_numbers)
{
    static const int64_t any[] = {INT64_MIN, -1, 0, 1, MS, S, 10000 * S, DAY, 400 * DAY, INT64_MAX};
    for (size_t i = 0; i < ARRAY_LEN(any); i++)
        for (size_t j = 0; j < ARRAY_LEN(any); j++) {
            int64_t bounded = interval_best(any[i], any[j], 5 * MINUTE, 2 * HOUR);
            cr_expect(bounded >= 5 * MINUTE && bounded <= 2 * HOUR);
            cr_expect_geq(best(any[i], any[j]), 0);
        }
    cr_expect_eq(best(HOUR, 10 * MINUTE), 10 * MINUTE, "saves take longer than there is");
}

/* --- walks --- */

static struct core_params params_of_auto(void)
{
    struct core_params p = params_of(0, 1, 1);
    p.every_ns = 5 * MINUTE;
    p.every_most_ns = 2 * HOUR;
    p.known_least_ns = 10 * S;
    p.known_most_ns = DAY;
    p.restart = (struct restart_policy){.max = 9, .start_max = 9, .window_ns = DAY};
    return p;
}

static int64_t every(const struct walk *w)
{
    return report_of(w).job.save_every_ns;
}

static void read_all(struct walk *w)
{
    while (strstr(w->acts, "read")) {
        w->acts[0] = '\0';
        steps_are_read(w);
    }
}

/* Waits for the save that is due; returns for how long. The rank comes to the bell at its next
 * step. */
static int64_t await_save(struct walk *w)
{
    int64_t since = now;
    while (!gate_is_decided(w->gate)) {
        wake(w);
        read_all(w);
        if (gate_is_bell(w->gate)) {
            steps[0] = gate_step(w->gate);
            says(w, 0,
                 (struct procmsg){.type = PROCMSG_WAITING, .step = steps[0], .word = w->gate});
            read_all(w);
        }
        cr_assert_lt(now - since, 3 * HOUR, "no save: %s", w->log);
    }
    return now - since;
}

/* The save that is agreed on, which takes so long. */
static void save(struct walk *w, uint32_t round, int64_t takes)
{
    uint64_t step = report_of(w).round.save_step;
    serves(w, 0, step, round);
    now += takes;
    saves_and_waits(w, 0, step, round);
    committed(w);
    steps[0] = step;
}

static void crash(struct walk *w)
{
    gone(w, 0);
    exited(w, 0, 1 << 8);
    steps_are_read(w);
    tree_empty(w);
    started(w, 0);
    attaches(w, 0, 0, 1);
}

/* Before the first save, its time is unknown. After it, a failure in 12 h is assumed. */
Test(core_every, begins_with_the_shortest)
{
    struct core_params p = params_of_auto();
    struct walk *w = begin_ranks(&p);
    cr_expect_eq(every(w), 5 * MINUTE);
    int64_t first = await_save(w);
    cr_expect(first >= 5 * MINUTE && first < 5 * MINUTE + 10 * S, "%lld", (long long)first);
    save(w, 1, 40 * S);
    expect_about(every(w), interval_best(40 * S, 12 * HOUR + first, 0, DAY));
    assert_said(w,
                "save: checkpoint.every auto: every 30 min (a save takes 40 s, and a failure comes "
                "every 12 h)");
    int64_t second = await_save(w);
    cr_expect(second >= every(w) && second < every(w) + 10 * S, "%lld", (long long)second);
}

/* The log has a real change only. Failures make the interval shorter, slower saves longer. */
Test(core_every, adapts_to_failures_and_to_slower_saves)
{
    struct core_params p = params_of_auto();
    struct walk *w = begin_ranks(&p);
    int64_t began = now;
    await_save(w);
    save(w, 1, 40 * S);
    int64_t before = every(w);
    w->log[0] = '\0';
    await_save(w);
    save(w, 2, 41 * S);
    cr_expect_eq(every(w), before);
    assert_not_said(w, "checkpoint.every auto");
    for (int i = 0; i < 2; i++) {
        steps[0] += 2;
        crash(w);
    }
    expect_about(every(w), interval_best(41 * S, (12 * HOUR + now - began) / 3, 0, DAY));
    assert_said(w, "checkpoint.every auto: every 18");
    before = every(w);
    await_save(w);
    save(w, 1, 160 * S);
    cr_expect_gt(every(w), before * 7 / 4);
}

/* Three failures show how often they come. The bounds of a young job hold no more. */
Test(core_every, has_wider_bounds_when_it_has_seen_failures)
{
    struct core_params p = params_of_auto();
    p.save_ns = S;
    p.ran_ns = HOUR;
    p.failures = 2;
    struct walk *w = begin_ranks(&p);
    cr_expect_eq(every(w), 5 * MINUTE, "two are few");
    steps[0] += 2;
    crash(w);
    expect_about(every(w), interval_best(S, HOUR / 3, 0, DAY));
    p.failures = 3;
    p.ran_ns = MINUTE;
    cr_expect_eq(every(begin_ranks(&p)), 10 * S);
    p.ran_ns = 90 * DAY;
    p.save_ns = 5 * MINUTE;
    expect_about(every(begin_ranks(&p)), interval_best(5 * MINUTE, 30 * DAY, 0, DAY));
    p.ran_ns = 9000 * DAY;
    cr_expect_eq(every(begin_ranks(&p)), DAY);
}

/* A job that fails before its first step loses no training. */
Test(core_every, a_start_that_fails_costs_nothing)
{
    struct core_params p = params_of_auto();
    p.save_ns = 40 * S;
    struct walk *w = begin_ranks(&p);
    int64_t before = every(w);
    for (int i = 0; i < 5; i++)
        crash(w);
    cr_expect_eq(every(w), before);
}

/* The record has the failures of earlier attempts, and how long they ran. An attempt in a row
 * without a commit counts until there is a commit. */
Test(core_every, earlier_attempts_count)
{
    struct core_params p = params_of_auto();
    p.save_ns = 40 * S;
    p.ran_ns = 36 * HOUR;
    p.failures = 3;
    struct walk *w = begin_ranks(&p);
    expect_about(every(w), interval_best(40 * S, 12 * HOUR, 0, DAY));
    p.attempts_without_commit = 4;
    w = begin_ranks(&p);
    expect_about(every(w), interval_best(40 * S, 12 * HOUR, 0, DAY)); /* the scheduler's count */
    p.has_record = true;
    w = begin_ranks(&p);
    expect_about(every(w), interval_best(40 * S, 36 * HOUR / 7, 0, DAY));
    await_save(w);
    save(w, 1, 40 * S);
    expect_about(every(w), interval_best(40 * S, 12 * HOUR, 0, DAY));
}

/* The record counts this attempt as a failure, until its last save. */
Test(core_every, the_record_is_told_of_failures)
{
    struct core_params p = params_of_auto();
    p.failures = 3;
    p.ran_ns = HOUR;
    struct walk *w = begin_ranks(&p);
    int64_t began = now;
    await_save(w);
    save(w, 1, 40 * S);
    cr_expect_eq(w->commit.failures, 4);
    cr_expect_eq(w->commit.ran_ns, HOUR + now - began);
    steps[0] += 2;
    crash(w);
    await_save(w);
    save(w, 1, 40 * S);
    cr_expect_eq(w->commit.failures, 5);
    terminated(w);
    read_all(w);
    save(w, 2, S);
    cr_expect_eq(w->commit.failures, 4, "preempted, and saved: %s", w->acts);
}

/* A number of steps, or a time, stays as the user gave it. */
Test(core_every, a_given_time_stays)
{
    struct core_params p = params_of_auto();
    p.every_most_ns = 0;
    p.save_ns = 40 * S;
    struct walk *w = begin_ranks(&p);
    await_save(w);
    save(w, 1, 40 * S);
    cr_expect_eq(every(w), 5 * MINUTE);
    assert_not_said(w, "auto");
    p.every_steps = 10;
    p.every_ns = 0;
    w = begin_ranks(&p);
    cr_expect_eq(every(w), 0);
}
