/* SPDX-License-Identifier: Apache-2.0
 *
 * test_counts: what the counters of the metrics make of the core's reports.
 */
#include "status/counts.h"

#include "unit.h"

#include "base/clock.h"

#include <string.h>

static struct counts counts;
static struct core_report report;

static void told(void)
{
    counts_take(&counts, &report);
}

static void set_round(uint32_t id, const char *phase, int64_t opened, int64_t decided,
                      int64_t committed)
{
    report.round.id = id;
    report.round.phase = phase;
    report.round.opened_at = opened * NS_PER_MS;
    report.round.decided_at = decided * NS_PER_MS;
    report.round.committed_at = committed * NS_PER_MS;
    told();
    told(); /* the same again counts nothing */
}

static void start(void)
{
    counts = (struct counts){0};
    report = (struct core_report){.round.phase = "idle", .state = NODE_RUNNING, .attempt = 1};
    told();
}

static void set_notice(bool is_live, const char *source, const char *id)
{
    report.notice = (struct core_notice){.is_live = is_live};
    strcpy(report.notice.label.source, source);
    strcpy(report.notice.label.id, id);
    told();
    told();
}

TestSuite(counts, .init = start);

Test(counts, a_round_that_commits)
{
    set_round(1, "proposed", 1000, 0, 0);
    cr_assert_eq(counts.agreement.n, 0);
    set_round(1, "decided", 1000, 1300, 0);
    cr_assert_eq(counts.agreement.n, 1);
    cr_assert_eq(counts.agreement.in[2], 1, "0.3 s is above 0.25 and not above 0.5");
    cr_assert_float_eq(counts.agreement.sum_s, 0.3, 1e-9);
    set_round(1, "committed", 1000, 1300, 701300);
    cr_assert_eq(counts.save.n, 1);
    cr_assert_eq(counts.save.in[COUNTS_BUCKETS - 1], 1);
    cr_assert_float_eq(counts.save.sum_s, 700, 1e-9);
    cr_assert_eq(counts.failed + counts.aborted, 0);
}

/* One event can bring both. */
Test(counts, a_round_that_is_seen_only_at_its_end)
{
    set_round(1, "committed", 1000, 1050, 1100);
    cr_assert_eq(counts.agreement.n, 1);
    cr_assert_eq(counts.save.n, 1);
    set_round(2, "committed", 2000, 2050, 2100);
    cr_assert_eq(counts.save.n, 2);
    cr_assert_eq(counts.save.in[0], 2);
}

/* Node 0 tells it of the last commit, which is older than this pchrun. */
Test(counts, a_node_that_replaces_a_lost_one)
{
    counts = (struct counts){0};
    report.attempt = 0;
    told();
    report.attempt = 1;
    report.generation = 2;
    set_round(0, "idle", 0, 0, 900);
    cr_assert_eq(counts.save.n, 0);
    cr_assert_eq(counts.restarts[OUTCOME_UNKNOWN], 0);
    report.restarts_after = OUTCOME_NODE_LOST;
    told();
    report.generation = 3;
    set_round(1, "committed", 1000, 1050, 1100);
    cr_assert_eq(counts.save.n, 1);
    cr_assert_eq(counts.restarts[OUTCOME_NODE_LOST], 1);
}

Test(counts, rounds_without_a_commit)
{
    set_round(1, "failed", 1000, 1100, 0);
    set_round(2, "aborted", 2000, 0, 0);
    set_round(3, "failed", 3000, 3100, 0);
    cr_assert_eq(counts.failed, 2);
    cr_assert_eq(counts.aborted, 1);
    cr_assert_eq(counts.save.n, 0);
    cr_assert_eq(counts.agreement.n, 2);
}

Test(counts, a_restart_loses_the_steps_after_the_commit)
{
    report.resumed_step = report.commit_step = 40;
    report.last_step = 90;
    told();
    report.commit_step = 70;
    report.last_step = 95;
    report.restarts_after = OUTCOME_HANG;
    report.state = NODE_RESTARTING;
    told();
    cr_assert_eq(counts_steps(&counts, 95), 55);
    report.generation = 1; /* the next one has not begun: it has no step yet */
    report.last_step = 0;
    report.restarts_after = OUTCOME_UNKNOWN;
    told();
    cr_assert_eq(counts.restarts[OUTCOME_HANG], 1);
    cr_assert_eq(counts.lost, 25);
    cr_assert_eq(counts_steps(&counts, 0), 55);
    report.resumed_step = 70;
    report.last_step = 100;
    told();
    cr_assert_eq(counts_steps(&counts, 100), 85);
    cr_assert_eq(counts.lost, 25);
    cr_assert_eq(counts.restarts[OUTCOME_HANG], 1);
}

/* A failure before the first step, and a commit that is newer than the last seen step. */
Test(counts, a_restart_that_loses_nothing)
{
    report.resumed_step = report.commit_step = 40;
    told();
    report.restarts_after = OUTCOME_FAILED;
    told();
    report.generation = 1;
    told();
    cr_assert_eq(counts.lost, 0);
    cr_assert_eq(counts_steps(&counts, 41), 1);
    cr_assert_eq(counts.restarts[OUTCOME_FAILED], 1);
}

Test(counts, notices_by_source)
{
    set_notice(true, "gce", "");
    set_notice(false, "", "");
    set_notice(true, "gce", "");
    set_notice(true, "file", "a");
    set_notice(true, "file", "b");
    cr_assert_str_eq(counts.notices[0].source, "gce");
    cr_assert_eq(counts.notices[0].n, 2);
    cr_assert_str_eq(counts.notices[1].source, "file");
    cr_assert_eq(counts.notices[1].n, 2);
    cr_assert_eq(counts.notices[2].n, 0);
}

Test(counts, more_sources_than_there_is_room_for)
{
    char name[] = "a";
    for (int i = 0; i < COUNTS_SOURCES + 3; i++, name[0]++)
        set_notice(true, name, "");
    cr_assert_str_eq(counts.notices[COUNTS_SOURCES].source, "other");
    cr_assert_eq(counts.notices[COUNTS_SOURCES].n, 3);
    cr_assert_eq(counts.notices[0].n, 1);
}
