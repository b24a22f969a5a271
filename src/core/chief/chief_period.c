/* SPDX-License-Identifier: Apache-2.0
 * When the next save without a notice is due: a number of steps, or a time, after the last commit.
 * A commit of the program's own save counts, too. See chief_parts.h.
 *
 * A bell is a gate that opens when the first process comes to it. It tells the chief that this step
 * is reached, so no node polls. A process stops at the gate once for each save. For a period in
 * time the chief reads the clock, then sets a bell for the next step: without a further step there
 * is nothing to save.
 */
#include "core/chief/chief_parts.h"

#include "base/clock.h"
#include "base/str.h"
#include "core/common/interval.h"

/* With checkpoint.every auto the job counts as one that has run this many of the longest periods
 * before, and failed once. So there is a figure from the start, and one early failure is not all
 * that counts. */
#define ASSUMED_PERIODS 6

/* So many failures show how often they come, so nothing is assumed any more. */
#define FAILURES_KNOWN 3

/* A choice that differs by less than this part from the period in force would only fill the log. */
#define REAL_CHANGE 8

/* The bell rings this many steps early, so that the agreement costs no training time. */
#define BELL_STEPS 2

static bool is_wanted(const struct chief *chief)
{
    const struct core_params *p = chief->params;
    return (p->every_steps || p->every_ns) && p->save_mode == SAVE_ATTACH;
}

int64_t chief_has_run(const struct chief *chief)
{
    return chief->params->ran_ns + (chief->began_at ? chief->out->now - chief->began_at : 0);
}

static bool is_known(const struct chief *chief)
{
    return chief->params->failures + chief->failures >= FAILURES_KNOWN;
}

/* Attempts in a row without a commit count only until there is one: most often a start failed,
 * before there was anything to lose. But if failures come faster than saves, the saves must. */
static int64_t time_between_failures(const struct chief *chief)
{
    const struct core_params *p = chief->params;
    int64_t fruitless = chief->has_committed || !p->has_record ? 0 : p->attempts_without_commit;
    int64_t failures = p->failures + chief->failures + fruitless, ran = chief_has_run(chief);
    return is_known(chief) ? ran / failures
                           : (ran + ASSUMED_PERIODS * p->every_most_ns) / (1 + failures);
}

static int64_t best_period(const struct chief *chief)
{
    const struct core_params *p = chief->params;
    int64_t between = time_between_failures(chief);
    return is_known(chief)
               ? interval_best(chief->save_ns, between, p->known_least_ns, p->known_most_ns)
               : interval_best(chief->save_ns, between, p->every_ns, p->every_most_ns);
}

/* "23 min", and not "23.4 min". */
static char *roughly(int64_t ns, char *text, size_t size)
{
    const int64_t minute = 60 * NS_PER_S, hour = 60 * minute;
    int64_t unit = ns >= 10 * hour ? hour : ns >= 5 * minute ? minute : 1;
    return str_about(ns / unit * unit, text, size);
}

void chief_choose_period(struct chief *chief)
{
    const struct core_params *p = chief->params;
    char every[32], save[32], failure[32];
    if (!p->every_most_ns || !is_wanted(chief) || !chief->save_ns)
        return;
    int64_t best = best_period(chief);
    int64_t change = best > chief->every_ns ? best - chief->every_ns : chief->every_ns - best;
    if (chief->has_chosen && change <= chief->every_ns / REAL_CHANGE)
        return;
    chief->has_chosen = true;
    chief->every_ns = best;
    out_log(chief->out, LOG_NOTICE, "save",
            "checkpoint.every auto: every %s (a save takes %s, and a failure comes every %s)",
            roughly(best, every, sizeof every), str_about(chief->save_ns, save, sizeof save),
            roughly(time_between_failures(chief), failure, sizeof failure));
}

static uint64_t due_step(const struct chief *chief)
{
    return stride_up(chief->gen.stride, chief->gen.period.from_step + chief->params->every_steps);
}

static uint64_t bell_step(const struct chief *chief)
{
    uint64_t due = due_step(chief), early = BELL_STEPS * chief->gen.stride.period;
    return due > early ? due - early : 1;
}

/* A bell at a step that is already finished would tell nothing. */
static void hang_bell(struct chief *chief, uint64_t step)
{
    uint64_t bell = step > chief->highest ? step : 0;
    chief->gen.period.rings_at = step;
    chief->is_changed = chief->is_changed || bell != chief->order.bell;
    chief->order.bell = bell;
}

void chief_count_anew(struct chief *chief, uint64_t step)
{
    if (!chief->gen.period.is_counting)
        return;
    chief->gen.period.from_at = chief->out->now;
    if (step > chief->gen.period.from_step)
        chief->gen.period.from_step = step;
    hang_bell(chief, chief->params->every_steps ? bell_step(chief) : 0);
}

void chief_begin_period(struct chief *chief)
{
    /* So far nothing was trained beyond the commit that the job resumes from. */
    chief->kept_at = chief->out->now;
    chief_choose_period(chief);
    chief->gen.period.is_counting = is_wanted(chief);
    chief->gen.period.from_step = chief->order.commit_step;
    chief_count_anew(chief, chief->highest);
}

int64_t chief_period_until(const struct chief *chief)
{
    bool waits = chief->gen.period.is_counting && !chief->gen.period.rings_at;
    return waits ? chief->gen.period.from_at + chief->every_ns : CLOCK_NEVER;
}

bool chief_period_is_over(struct chief *chief)
{
    if (chief_period_until(chief) <= chief->out->now)
        hang_bell(chief, chief->highest + 1);
    return chief->gen.period.rings_at && chief->highest >= chief->gen.period.rings_at;
}

uint64_t chief_period_step(const struct chief *chief)
{
    return chief->params->every_steps ? due_step(chief) : 0;
}
