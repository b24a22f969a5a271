/* SPDX-License-Identifier: Apache-2.0
 *
 * test_goodput: the lines of a ledger, and the spans and sums that follow from them. Times are in
 * seconds; a run's monotonic clock begins at 1000 s with each run.
 */
#include "goodput/goodput.h"

#include "unit.h"

#include "base/str.h"

#include <stdio.h>
#include <string.h>

enum { S = 1000 }; /* milliseconds */

static struct goodput g;
static int64_t run_at, attempt, generation; /* of the run that writes */

static void begin(void)
{
    g = (struct goodput){0};
    attempt = generation = 0;
}

static void end(void)
{
    goodput_free(&g);
}

TestSuite(goodput, .init = begin, .fini = end);

/* A mark `at` seconds after the begin of its run. */
static struct mark mark_of(enum mark_kind kind, double at, uint64_t step)
{
    int64_t ms = (int64_t)(at * S);
    return (struct mark){.kind = kind,
                         .at_ms = run_at + ms,
                         .mono_ms = 1000 * S + ms,
                         .attempt = attempt,
                         .generation = generation,
                         .step = step};
}

static void mark(enum mark_kind kind, double at, uint64_t step)
{
    struct mark m = mark_of(kind, at, step);
    goodput_mark(&g, &m);
}

/* `job_start`: when the scheduler started the job; 0: it does not say. */
static void begin_job_run(double job_start, double wall, uint64_t resumes)
{
    run_at = (int64_t)(wall * S);
    attempt++;
    generation = 0;
    struct mark m = mark_of(MARK_STARTING, 0, resumes);
    m.job_start_ms = (int64_t)(job_start * S);
    snprintf(m.job, sizeof m.job, "run7");
    goodput_mark(&g, &m);
}

static void begin_run(double wall, uint64_t resumes)
{
    begin_job_run(0, wall, resumes);
}

static void end_run(const char *outcome, double at, uint64_t step)
{
    struct mark m = mark_of(MARK_ENDED, at, step);
    snprintf(m.outcome, sizeof m.outcome, "%s", outcome);
    goodput_mark(&g, &m);
}

/* "starting 10 training_kept 5": the sums that are not 0, in seconds, in the order of the kinds. */
static const char *sums(int run)
{
    static char text[400];
    struct goodput_sums sum = goodput_sum(&g, run);
    int64_t all = 0;
    text[0] = '\0';
    for (int i = 0; i < GOODPUT__COUNT; i++) {
        if (sum.ms[i])
            str_addf(text, sizeof text, "%s%s %g", text[0] ? " " : "",
                     goodput_name((enum goodput_kind)i), (double)sum.ms[i] / S);
        all += i == GOODPUT_EXCLUDED ? 0 : sum.ms[i];
    }
    cr_assert_eq(all, sum.wall_ms);
    return text;
}

static void expect(int run, const char *wanted)
{
    cr_assert_str_eq(sums(run), wanted, "%s, not %s", sums(run), wanted);
}

/* `loading`: the seconds that a rank has waited for data in this generation. */
static void loaded_mark(enum mark_kind kind, double at, uint64_t step, double loading)
{
    struct mark m = mark_of(kind, at, step);
    m.loading_ms = (int64_t)(loading * S);
    goodput_mark(&g, &m);
}

/* The end of all marks, long after the last. */
static void finish(void)
{
    goodput_end(&g, run_at + INT64_C(1000000) * S);
    for (size_t i = 1; i < g.nspans; i++)
        cr_assert(g.spans[i].run != g.spans[i - 1].run || g.runs[g.spans[i].run].has_jumped ||
                      g.spans[i].at_ms == g.spans[i - 1].at_ms + g.spans[i - 1].ms,
                  "span %zu does not begin where the one before ends", i);
}

/* --- the kinds --- */

Test(goodput, a_job_that_completes_loses_nothing)
{
    begin_run(5000, 0);
    mark(MARK_TRAINING, 10, 0);
    mark(MARK_SAVING, 60, 50);
    mark(MARK_COMMIT, 62, 50);
    mark(MARK_TRAINING, 62, 50);
    mark(MARK_STOPPING, 100, 88);
    end_run("completed", 101.5, 88);
    finish();
    expect(-1, "training_kept 88 saving 2 starting 10 stopping 1.5");
    cr_assert_eq(goodput_sum(&g, -1).lost_steps, 0);
    cr_assert_str_eq(g.job, "run7");
    cr_assert_eq(g.runs[0].last_step, 88);
    cr_assert(!g.is_running);
}

Test(goodput, each_commit_is_kept_with_its_time)
{
    begin_run(5000, 0);
    mark(MARK_TRAINING, 10, 0);
    mark(MARK_COMMIT, 62, 50);
    mark(MARK_COMMIT, 93, 80);
    end_run("preempted", 100, 88);
    begin_run(5200, 80);
    mark(MARK_COMMIT, 30, 90);
    finish();
    cr_assert_eq(g.ncommits, 3);
    cr_assert(g.commits[1].run == 0 && g.commits[1].step == 80);
    cr_assert_eq(g.commits[1].at_ms, 5093 * S);
    cr_assert(g.commits[2].run == 1 && g.commits[2].at_ms == 5230 * S);
    cr_assert_eq(g.runs[0].commit, 80);
}

Test(goodput, a_preemption_with_a_save_loses_nothing_and_the_queue_is_of_the_next_run)
{
    begin_run(5000, 0);
    mark(MARK_TRAINING, 10, 0);
    mark(MARK_SAVING, 50, 40);
    mark(MARK_COMMIT, 51, 40);
    mark(MARK_STOPPING, 51, 40);
    end_run("preempted", 53, 40);
    begin_run(5153, 40);
    mark(MARK_WAITING, 0, 40);
    mark(MARK_STARTING, 20, 40);
    mark(MARK_TRAINING, 25, 40);
    mark(MARK_STOPPING, 35, 50);
    end_run("completed", 35, 50);
    finish();
    expect(0, "training_kept 40 saving 1 starting 10 stopping 2");
    expect(1, "training_kept 10 starting 5 waiting 20 queued 100");
    cr_assert_eq(goodput_sum(&g, -1).wall_ms, 188 * S);
}

Test(goodput, a_crash_loses_the_steps_after_the_last_commit)
{
    begin_run(5000, 0);
    mark(MARK_TRAINING, 10, 0);
    mark(MARK_SAVING, 50, 40);
    mark(MARK_COMMIT, 52, 40);
    mark(MARK_TRAINING, 52, 40);
    mark(MARK_STOPPING, 77, 65);
    end_run("failed", 78, 65);
    finish();
    expect(-1, "training_kept 40 training_lost 25 saving 2 starting 10 stopping 1");
    cr_assert_eq(goodput_sum(&g, -1).lost_steps, 25);
}

Test(goodput, a_job_without_a_commit_loses_all)
{
    begin_run(5000, 0);
    mark(MARK_TRAINING, 10, 0);
    mark(MARK_STOPPING, 50, 40);
    end_run("failed", 50, 40);
    finish();
    expect(-1, "training_lost 40 starting 10");
}

Test(goodput, a_restart_in_place_loses_the_steps_it_makes_again)
{
    begin_run(5000, 0);
    mark(MARK_TRAINING, 10, 0);
    mark(MARK_COMMIT, 30, 20);
    mark(MARK_RESTARTING, 45, 35);
    generation = 1;
    mark(MARK_STARTING, 47, 20);
    mark(MARK_TRAINING, 52, 20);
    mark(MARK_STOPPING, 82, 50);
    end_run("completed", 82, 50);
    finish();
    expect(-1, "training_kept 50 training_lost 15 starting 15 restarting 2");
    cr_assert_eq(g.runs[0].generations, 2);
    cr_assert_eq(goodput_sum(&g, -1).lost_steps, 15);
}

/* The step of a commit may be long past when its save is durable. */
Test(goodput, when_a_step_was_reached_is_interpolated)
{
    begin_run(5000, 0);
    mark(MARK_TRAINING, 0, 0);
    mark(MARK_TICK, 60, 30);  /* two seconds a step */
    mark(MARK_TICK, 120, 90); /* one second a step */
    mark(MARK_COMMIT, 120, 50);
    mark(MARK_STOPPING, 130, 100);
    end_run("failed", 130, 100);
    finish();
    expect(-1, "training_kept 80 training_lost 50");
}

Test(goodput, a_commit_that_is_missing_at_the_next_start_was_none)
{
    begin_run(5000, 0);
    mark(MARK_TRAINING, 0, 0);
    mark(MARK_COMMIT, 10, 10);
    mark(MARK_COMMIT, 20, 20);
    mark(MARK_STOPPING, 20, 20);
    end_run("preempted", 20, 20);
    begin_run(5020, 10);
    mark(MARK_TRAINING, 5, 10);
    mark(MARK_STOPPING, 15, 20);
    end_run("completed", 15, 20);
    finish();
    expect(0, "training_kept 10 training_lost 10");
    expect(1, "training_kept 10 starting 5");
}

Test(goodput, a_program_that_resumes_by_itself_shows_it_by_its_first_step)
{
    begin_run(5000, 0);
    mark(MARK_TRAINING, 0, 0);
    mark(MARK_STOPPING, 100, 100);
    end_run("failed", 100, 100);
    begin_run(5100, 0);
    mark(MARK_TRAINING, 10, 70);
    mark(MARK_STOPPING, 40, 100);
    end_run("completed", 40, 100);
    finish();
    expect(0, "training_kept 70 training_lost 30");
}

Test(goodput, a_completed_job_that_begins_anew_keeps_what_it_was)
{
    begin_run(5000, 0);
    mark(MARK_TRAINING, 0, 0);
    mark(MARK_STOPPING, 10, 10);
    end_run("completed", 10, 10);
    begin_run(6010, 0);
    mark(MARK_TRAINING, 0, 0);
    mark(MARK_STOPPING, 3, 3);
    end_run("failed", 3, 3);
    finish();
    expect(-1, "training_kept 10 training_lost 3 queued 1000");
}

Test(goodput, a_program_that_goes_back_by_itself_loses_these_steps)
{
    begin_run(5000, 0);
    mark(MARK_TRAINING, 0, 0);
    mark(MARK_TICK, 60, 60);
    mark(MARK_TICK, 120, 40);
    mark(MARK_STOPPING, 180, 100);
    end_run("completed", 180, 100);
    finish();
    expect(-1, "training_kept 100 training_lost 80");
}

/* The hang is told when it is over; then it has lasted for long. */
Test(goodput, a_hang_begins_when_no_rank_moved_any_more)
{
    begin_run(5000, 0);
    mark(MARK_TRAINING, 10, 0);
    mark(MARK_COMMIT, 40, 30);
    mark(MARK_TICK, 70, 40);
    mark(MARK_TICK, 130, 40);
    mark(MARK_HUNG, 50, 40);
    mark(MARK_RESTARTING, 150, 40);
    generation = 1;
    mark(MARK_STARTING, 152, 30);
    mark(MARK_TRAINING, 162, 30);
    mark(MARK_STOPPING, 172, 40);
    end_run("completed", 172, 40);
    finish();
    expect(-1, "training_kept 40 training_lost 10 hung 100 starting 20 restarting 2");
}

Test(goodput, a_hang_reaches_into_no_earlier_generation)
{
    begin_run(5000, 0);
    mark(MARK_RESTARTING, 10, 0);
    generation = 1;
    mark(MARK_STARTING, 20, 0);
    mark(MARK_HUNG, 5, 0);
    mark(MARK_STOPPING, 30, 0);
    end_run("hang", 30, 0);
    finish();
    expect(-1, "hung 10 starting 10 restarting 10");
}

Test(goodput, a_hang_after_which_the_training_goes_on_was_a_slow_step)
{
    begin_run(5000, 0);
    mark(MARK_TRAINING, 0, 0);
    mark(MARK_HUNG, 10, 10);
    mark(MARK_TRAINING, 50, 11);
    mark(MARK_STOPPING, 60, 21);
    end_run("completed", 60, 21);
    finish();
    expect(-1, "training_kept 60");
}

Test(goodput, ranks_that_train_on_during_a_save_lose_no_time)
{
    begin_run(5000, 0);
    mark(MARK_TRAINING, 0, 0);
    mark(MARK_SAVING, 10, 10);
    mark(MARK_COMMIT, 30, 10);
    mark(MARK_TRAINING, 30, 28);
    mark(MARK_STOPPING, 40, 38);
    end_run("failed", 40, 38);
    finish();
    expect(-1, "training_kept 10 training_lost 30");
}

/* --- data loading --- */

/* A wait before the first step is part of the start, and one in a save is part of the save. */
Test(goodput, data_loading_is_no_training)
{
    begin_run(5000, 0);
    loaded_mark(MARK_TRAINING, 10, 0, 7);
    loaded_mark(MARK_TICK, 70, 50, 17);
    loaded_mark(MARK_SAVING, 80, 60, 18);
    loaded_mark(MARK_COMMIT, 82, 60, 18.5);
    loaded_mark(MARK_TRAINING, 82, 60, 20);
    loaded_mark(MARK_STOPPING, 100, 78, 22.25);
    end_run("completed", 101, 78);
    finish();
    expect(-1, "training_kept 74.75 loading 13.25 saving 2 starting 10 stopping 1");
    cr_assert_eq(g.nspans, 5, "the ticks make no span");
}

/* A half of each part of the training was loading. A quarter of the steps are made again. */
Test(goodput, data_loading_for_steps_that_are_made_again_is_lost_training)
{
    begin_run(5000, 0);
    loaded_mark(MARK_TRAINING, 0, 0, 0);
    loaded_mark(MARK_COMMIT, 20, 20, 10);
    loaded_mark(MARK_RESTARTING, 60, 60, 30);
    generation = 1;
    mark(MARK_STARTING, 60, 20);
    loaded_mark(MARK_TRAINING, 60, 40, 0);
    loaded_mark(MARK_STOPPING, 80, 60, 4);
    end_run("failed", 80, 60);
    begin_run(5080, 60);
    loaded_mark(MARK_TRAINING, 0, 60, 0);
    loaded_mark(MARK_STOPPING, 10, 70, 1);
    end_run("completed", 10, 70);
    finish();
    expect(-1, "training_kept 45 training_lost 20 loading 25");
    expect(0, "training_kept 36 training_lost 20 loading 24");
}

/* The program may not tell more than the time that there was. */
Test(goodput, data_loading_is_at_most_the_training)
{
    begin_run(5000, 0);
    loaded_mark(MARK_TRAINING, 10, 0, 0);
    loaded_mark(MARK_TICK, 20, 10, 50);
    loaded_mark(MARK_TICK, 30, 20, 3);
    loaded_mark(MARK_STOPPING, 40, 30, 4);
    end_run("completed", 40, 30);
    finish();
    expect(-1, "training_kept 19 loading 11 starting 10");
}

/* The data never came: that is a hang. Its loading was in the ticks before it was told. */
Test(goodput, data_loading_that_hangs_is_a_hang)
{
    begin_run(5000, 0);
    loaded_mark(MARK_TRAINING, 10, 0, 0);
    loaded_mark(MARK_TICK, 70, 40, 0);
    loaded_mark(MARK_TICK, 130, 40, 60);
    loaded_mark(MARK_HUNG, 70, 40, 80);
    loaded_mark(MARK_STOPPING, 150, 40, 80);
    end_run("hang", 150, 40);
    begin_run(5150, 40);
    end_run("completed", 0, 40);
    finish();
    expect(-1, "training_kept 60 hung 80 starting 10");
}

/* The job went on, so it was a slow step, and its data was late. */
Test(goodput, data_that_comes_late_is_no_hang)
{
    begin_run(5000, 0);
    loaded_mark(MARK_TRAINING, 10, 0, 0);
    loaded_mark(MARK_TICK, 70, 40, 10);
    loaded_mark(MARK_TICK, 130, 44, 66);
    loaded_mark(MARK_HUNG, 74, 44, 86);
    loaded_mark(MARK_TICK, 190, 44, 126);
    loaded_mark(MARK_TRAINING, 200, 45, 136);
    loaded_mark(MARK_STOPPING, 210, 55, 136);
    end_run("completed", 210, 55);
    finish();
    expect(-1, "training_kept 64 loading 136 starting 10");
}

/* The hang begins after the last tick: the data was late in the hang, not in the steps before. */
Test(goodput, data_loading_before_a_hang)
{
    begin_run(5000, 0);
    loaded_mark(MARK_TRAINING, 10, 0, 0);
    loaded_mark(MARK_TICK, 70, 60, 10);
    loaded_mark(MARK_HUNG, 80, 70, 50);
    loaded_mark(MARK_TRAINING, 130, 71, 60);
    loaded_mark(MARK_STOPPING, 140, 81, 60);
    end_run("completed", 140, 81);
    finish();
    expect(-1, "training_kept 70 loading 60 starting 10");
}

Test(goodput, data_loading_until_now_and_since_a_moment)
{
    begin_run(5000, 0);
    loaded_mark(MARK_TRAINING, 0, 0, 0);
    loaded_mark(MARK_COMMIT, 40, 40, 20);
    loaded_mark(MARK_TICK, 80, 80, 60);
    goodput_end(&g, run_at + 100 * S);
    expect(-1, "training_kept 40 loading 60");
    cr_assert_eq(g.uncommitted_ms, 20 * S);
    goodput_exclude(&g, run_at + 90 * S, run_at + 200 * S, 0);
    expect(-1, "training_kept 30 loading 60 excluded 10");
    goodput_since(&g, run_at + 45 * S);
    expect(-1, "training_kept 10 loading 35 excluded 10");
}

Test(goodput, a_program_that_does_not_attach)
{
    begin_run(5000, 0);
    mark(MARK_UNATTACHED, 60, 0);
    mark(MARK_STOPPING, 600, 0);
    end_run("completed", 601, 0);
    finish();
    expect(-1, "starting 60 unattached 540 stopping 1");
}

/* --- ends that are missing --- */

Test(goodput, a_run_that_was_killed_ends_at_its_last_mark)
{
    begin_run(5000, 0);
    mark(MARK_TRAINING, 10, 0);
    mark(MARK_COMMIT, 40, 30);
    mark(MARK_TICK, 70, 60);
    begin_run(5100, 30);
    mark(MARK_TRAINING, 10, 30);
    mark(MARK_STOPPING, 20, 40);
    end_run("completed", 20, 40);
    finish();
    expect(0, "training_kept 30 training_lost 30 starting 10");
    expect(1, "training_kept 10 starting 10 queued 30");
    cr_assert_eq(g.runs[0].outcome[0], '\0');
}

Test(goodput, a_run_that_was_killed_in_its_start_has_started_until_its_last_tick)
{
    begin_run(5000, 0);
    mark(MARK_TICK, 60, 0);
    mark(MARK_TICK, 120, 0);
    begin_run(5200, 0);
    end_run("failed", 10, 0);
    finish();
    expect(0, "starting 120");
    expect(1, "starting 10 queued 80");
}

Test(goodput, a_run_without_an_end_still_runs_until_a_tick_is_late)
{
    begin_run(5000, 0);
    mark(MARK_TRAINING, 10, 0);
    mark(MARK_COMMIT, 40, 30);
    mark(MARK_TICK, 70, 60);
    goodput_end(&g, 5000 * S + 75 * S);
    expect(-1, "training_kept 65 starting 10");
    cr_assert(g.is_running);
    cr_assert_eq(g.uncommitted_ms, 35 * S);
}

/* The host that reads is a second behind the one that writes. */
Test(goodput, a_clock_that_is_behind_the_last_line)
{
    begin_run(5000, 0);
    mark(MARK_TRAINING, 10, 0);
    goodput_end(&g, 5000 * S + 9 * S);
    cr_assert(g.is_running);
    expect(-1, "starting 10");
}

Test(goodput, nothing_at_all)
{
    goodput_end(&g, 5000 * S);
    expect(-1, "");
    cr_assert_eq(g.nruns, 0);
}

/* --- clocks --- */

Test(goodput, a_wall_clock_that_is_set_within_a_run_changes_no_span)
{
    begin_run(5000, 0);
    mark(MARK_TRAINING, 10, 0);
    run_at += 3600 * S;
    mark(MARK_STOPPING, 20, 10);
    end_run("completed", 21, 10);
    int64_t ended = run_at + 21 * S;
    run_at = 0;
    begin_run((double)ended / S + 9, 10);
    end_run("completed", 1, 10);
    finish();
    expect(0, "training_kept 10 starting 10 stopping 1");
    expect(1, "starting 1 queued 9");
    cr_assert(g.runs[0].has_jumped && !g.runs[1].has_jumped);
}

Test(goodput, a_wall_clock_that_went_back_between_two_runs_makes_no_negative_queue)
{
    begin_run(5000, 0);
    end_run("failed", 10, 0);
    begin_run(4000, 0);
    end_run("failed", 10, 0);
    finish();
    expect(-1, "starting 20");
}

/* --- what is before a run --- */

Test(goodput, the_queue_ends_where_the_scheduler_starts_the_job)
{
    begin_job_run(4970, 5000, 0);
    end_run("preempted", 10, 0);
    begin_job_run(5090, 5110, 0);
    end_run("preempted", 10, 0);
    finish();
    expect(0, "starting 10 preparing 30");
    expect(1, "starting 10 preparing 20 queued 80");
    cr_assert_eq(g.spans[0].at_ms, 4970 * S);
    cr_assert_eq(g.runs[0].at_ms, 5000 * S);
}

Test(goodput, a_script_that_starts_pchrun_again_queues_for_nothing)
{
    begin_job_run(5000, 5000, 0);
    end_run("failed", 10, 0);
    begin_job_run(5000, 5015, 0);
    end_run("failed", 10, 0);
    finish();
    expect(-1, "starting 20 preparing 5");
}

Test(goodput, a_start_of_the_job_that_is_later_than_that_of_pchrun_does_not_count)
{
    begin_job_run(5001, 5000, 0);
    end_run("failed", 10, 0);
    begin_job_run(6000, 5100, 0);
    end_run("failed", 10, 0);
    finish();
    expect(-1, "starting 20 queued 90");
}

/* --- any marks --- */

static uint64_t drawn = 1;

static int draw(int below)
{
    drawn = drawn * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (int)((drawn >> 33) % (uint64_t)below);
}

/* A run with any marks, in any order. Returns the seconds until its last one. */
static int any_run(void)
{
    int at = 0, n = draw(12);
    for (int i = 0; i < n; i++) {
        enum mark_kind kind = (enum mark_kind)(MARK_STARTING + draw(MARK__COUNT - MARK_STARTING));
        generation += kind == MARK_STARTING && draw(3) == 0;
        at += draw(50);
        if (kind == MARK_ENDED)
            end_run(draw(2) ? "completed" : "failed", at, (uint64_t)draw(100));
        else
            loaded_mark(kind, kind == MARK_HUNG ? draw(at + 1) : at, (uint64_t)draw(100),
                        draw(200));
        if (kind == MARK_ENDED)
            break;
        if (kind == MARK_HUNG)
            mark(MARK_COMMIT, at, 0); /* the run has lasted so long */
    }
    return at;
}

Test(goodput, any_marks_add_up)
{
    for (int i = 0; i < 5000; i++) {
        begin();
        int64_t wall = 5000, spent = 0;
        for (int n = 1 + draw(4); n > 0; n--) {
            begin_job_run(spent ? draw(2) * (double)(wall - draw(200)) : 0, (double)wall,
                          (uint64_t)draw(100));
            int lasted = any_run(), queued = n > 1 ? draw(100) : 0;
            wall += lasted + queued;
            spent += lasted + queued;
        }
        goodput_end(&g, (wall + 1000000) * S);
        cr_assert_eq(goodput_sum(&g, -1).wall_ms, spent * S, "job %d", i);
        goodput_exclude(&g, 5010 * S, 5030 * S, 0);
        struct goodput_sums sums = goodput_sum(&g, -1);
        cr_assert_eq(sums.wall_ms + sums.ms[GOODPUT_EXCLUDED], spent * S);
        for (size_t k = 0; k < g.nspans; k++)
            cr_assert(g.spans[k].ms > 0 && g.spans[k].to_step >= g.spans[k].from_step &&
                      g.spans[k].loading_ms >= 0 && g.spans[k].loading_ms <= g.spans[k].ms &&
                      (g.spans[k].kind == GOODPUT_KEPT || g.spans[k].loading_ms == 0));
        goodput_free(&g);
    }
}

/* --- lines --- */

static void add_line(const struct mark *m, const char *old, const char *new)
{
    char text[MARK_LINE_MAX];
    size_t len = mark_compose(m, text);
    cr_assert(len > 0 && text[len - 1] == '\n');
    text[len - 1] = '\0';
    char *at = old ? strstr(text, old) : NULL;
    if (old)
        cr_assert(at && memcpy(at, new, strlen(new)));
    goodput_line(&g, text, strlen(text), true);
}

Test(goodput, a_line_comes_back_as_it_was)
{
    char text[MARK_LINE_MAX];
    struct mark got, m = {.kind = MARK_ENDED,
                          .at_ms = INT64_C(1764396000123),
                          .mono_ms = 77,
                          .attempt = 3,
                          .generation = 2,
                          .step = 48210,
                          .outcome = "preempted",
                          .job = "a \"job\" \xc3\xa4",
                          .job_start_ms = INT64_C(1764396000000),
                          .loading_ms = 4711};
    bool is_damaged;
    size_t len = mark_compose(&m, text);
    text[len - 1] = '\0';
    cr_assert(mark_parse(text, len - 1, &got, &is_damaged));
    cr_assert(got.kind == m.kind && got.at_ms == m.at_ms && got.mono_ms == 77 && got.attempt == 3 &&
              got.generation == 2 && got.step == 48210);
    cr_assert_str_eq(got.outcome, m.outcome);
    cr_assert_str_eq(got.job, m.job);
    cr_assert_eq(got.job_start_ms, m.job_start_ms);
    cr_assert_eq(got.loading_ms, 4711);
}

Test(goodput, every_kind_has_a_name_of_its_own)
{
    for (int i = 0; i < MARK__COUNT; i++)
        for (int k = 0; k < i; k++)
            cr_assert_str_neq(mark_name((enum mark_kind)i), mark_name((enum mark_kind)k));
}

Test(goodput, a_line_with_any_wrong_byte_is_damaged)
{
    struct mark got, m = {.kind = MARK_TICK, .at_ms = 123456, .mono_ms = 99, .attempt = 1};
    char text[MARK_LINE_MAX];
    bool is_damaged;
    size_t len = mark_compose(&m, text) - 1;
    text[len] = '\0';
    for (size_t i = 0; i < len; i++) {
        text[i] ^= 1;
        cr_assert(!mark_parse(text, len, &got, &is_damaged) && is_damaged, "byte %zu", i);
        text[i] ^= 1;
    }
    for (size_t n = 0; n < len; n++) {
        char was = text[n];
        text[n] = '\0';
        cr_assert(!mark_parse(text, n, &got, &is_damaged) && is_damaged, "%zu bytes", n);
        text[n] = was;
    }
    cr_assert(mark_parse(text, len, &got, &is_damaged));
}

Test(goodput, an_impossible_number_is_damage)
{
    struct mark got, m = {.kind = MARK_TICK, .at_ms = -5};
    char text[MARK_LINE_MAX];
    bool is_damaged;
    size_t len = mark_compose(&m, text) - 1;
    text[len] = '\0';
    cr_assert(!mark_parse(text, len, &got, &is_damaged) && is_damaged);
}

Test(goodput, a_damaged_line_is_skipped_and_counted)
{
    attempt = 1;
    run_at = 5000 * S;
    struct mark marks[] = {mark_of(MARK_STARTING, 0, 0), mark_of(MARK_TICK, 5, 0),
                           mark_of(MARK_TRAINING, 10, 0), mark_of(MARK_STOPPING, 20, 10),
                           mark_of(MARK_ENDED, 20, 10)};
    snprintf(marks[4].outcome, sizeof marks[4].outcome, "completed");
    add_line(&marks[0], NULL, NULL);
    add_line(&marks[1], "tick", "tock");
    for (int i = 2; i < 5; i++)
        add_line(&marks[i], NULL, NULL);
    goodput_line(&g, "{\"at_ms\": 50", 12, false);
    finish();
    expect(-1, "training_kept 10 starting 10");
    cr_assert(g.damaged == 1 && g.is_torn && g.strange == 0);
}

/* Its last line was written whole, but for the newline. */
Test(goodput, a_last_line_without_its_newline_counts_if_its_sum_is_right)
{
    attempt = 1;
    run_at = 5000 * S;
    struct mark m = mark_of(MARK_STARTING, 0, 0);
    char text[MARK_LINE_MAX];
    size_t len = mark_compose(&m, text) - 1;
    text[len] = '\0';
    goodput_line(&g, text, len, false);
    cr_assert(g.nruns == 1 && !g.is_torn);
}

Test(goodput, the_first_line_of_a_run_is_damaged)
{
    begin_run(5000, 0);
    mark(MARK_TRAINING, 10, 0);
    mark(MARK_STOPPING, 20, 10);
    end_run("failed", 20, 10);
    attempt++;
    run_at = 5100 * S;
    mark(MARK_TRAINING, 10, 5);
    mark(MARK_STOPPING, 20, 15);
    end_run("completed", 20, 15);
    finish();
    cr_assert_eq(g.nruns, 2);
    expect(1, "training_kept 10 queued 90");
}

Test(goodput, lines_of_an_older_run_that_still_writes_do_not_count)
{
    begin_run(5000, 0);
    mark(MARK_TRAINING, 10, 0);
    begin_run(5020, 0);
    attempt = 1;
    mark(MARK_STOPPING, 5, 9);
    attempt = 2;
    end_run("completed", 10, 0);
    mark(MARK_TICK, 11, 0);
    finish();
    cr_assert_eq(g.stray, 2);
    expect(-1, "starting 20 queued 10");
}

Test(goodput, lines_that_could_not_be_written_are_told)
{
    struct mark m = {.kind = MARK_NONE, .dropped = 3, .attempt = 1};
    add_line(&m, NULL, NULL);
    cr_assert(g.dropped == 3 && g.nruns == 0);
}

/* --- parts --- */

static void one_run(void)
{
    begin_run(5000, 0);
    mark(MARK_TRAINING, 10, 0);
    mark(MARK_STOPPING, 110, 100);
    end_run("completed", 120, 100);
    finish();
}

Test(goodput, since_a_moment)
{
    one_run();
    goodput_since(&g, 5060 * S);
    expect(-1, "training_kept 50 stopping 10");
    cr_assert_eq(g.spans[0].from_step, 50);
    goodput_since(&g, 9000 * S);
    expect(-1, "");
}

Test(goodput, what_is_excluded_is_shown_apart)
{
    one_run();
    goodput_exclude(&g, 5005 * S, 5030 * S, 0);
    goodput_exclude(&g, 5100 * S, 5115 * S, 1);
    expect(-1, "training_kept 70 starting 5 stopping 5 excluded 40");
    goodput_exclude(&g, 0, 9000 * S, 2);
    expect(-1, "excluded 120");
    cr_assert_eq(goodput_sum(&g, -1).wall_ms, 0);
}
