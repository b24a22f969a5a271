/* SPDX-License-Identifier: Apache-2.0
 *
 * test_core_parts: the small parts of the core that decide by themselves: verdict, ladder, grace,
 * stride.
 */
#include "core/common/grace.h"
#include "core/common/stride.h"
#include "core/common/verdict.h"
#include "core/node/ladder.h"

#include "unit.h"

#include "base/clock.h"
#include "base/sigtext.h"
#include "base/str.h"

#include <stdio.h>

#define S NS_PER_S

/* --- verdict --- */

static const struct exit_codes codes = {.preempted = 42,
                                        .preempted_unsaved = 44,
                                        .node_lost = 45,
                                        .hang = 46,
                                        .no_progress = 43,
                                        .stopped = 47,
                                        .unhealthy = 48};

Test(core_verdict, each_outcome_has_its_code)
{
    static const struct {
        enum outcome outcome;
        int code, expected;
        bool is_restart, gives_way;
        const char *name;
    } rows[] = {
        {OUTCOME_UNKNOWN, 0, 125, false, false, "unknown"},
        {OUTCOME_COMPLETED, 7, 0, false, false, "completed"},
        {OUTCOME_PREEMPTED, 7, 42, true, false, "preempted"},
        {OUTCOME_PREEMPTED_UNSAVED, 7, 44, true, true, "preempted_unsaved"},
        {OUTCOME_PREEMPTED_UNKNOWN, 7, 42, false, true, "preempted_unknown"},
        {OUTCOME_FAILED, 7, 7, false, false, "failed"},
        {OUTCOME_NODE_LOST, 7, 45, true, true, "node_lost"},
        {OUTCOME_HANG, 7, 46, true, true, "hang"},
        {OUTCOME_NO_PROGRESS, 7, 43, false, true, "no_progress"},
        {OUTCOME_NOT_STARTED, 127, 127, false, false, "not_started"},
        {OUTCOME_STOPPED, 7, 47, false, false, "stopped"},
        {OUTCOME_INTERRUPTED, 130, 130, false, false, "interrupted"},
        {OUTCOME_UNHEALTHY, 48, 45, true, true, "unhealthy"},
    };
    cr_assert_eq(ARRAY_LEN(rows), OUTCOME__COUNT);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        cr_assert_eq(verdict_code(&codes, rows[i].outcome, rows[i].code), rows[i].expected, "%s",
                     rows[i].name);
        cr_assert_eq(verdict_is_restart(rows[i].outcome), rows[i].is_restart, "%s", rows[i].name);
        cr_assert_eq(verdict_gives_way(rows[i].outcome), rows[i].gives_way, "%s", rows[i].name);
        cr_assert_str_eq(verdict_name(rows[i].outcome), rows[i].name);
    }
}

Test(core_verdict, a_failure_is_never_success)
{
    static const int absurd[] = {0, -1, 256, 512, INT32_MIN};
    for (size_t i = 0; i < ARRAY_LEN(absurd); i++) {
        cr_assert_eq(verdict_code(&codes, OUTCOME_FAILED, absurd[i]), 125);
        cr_assert_eq(verdict_of_order(OUTCOME_FAILED, absurd[i]), 125);
    }
    cr_assert_eq(verdict_of_order(OUTCOME_PREEMPTED, 42), 42);
    cr_assert_eq(verdict_of_order(OUTCOME_COMPLETED, 0), 0);
    cr_assert_eq(verdict_of_order(OUTCOME_COMPLETED, 9), 9, "ranks were killed when all were done");
    cr_assert_eq(verdict_of_order(OUTCOME_COMPLETED, 256), 125);
    struct exit_codes own = codes;
    own.done_killed = 9;
    cr_assert_eq(verdict_code(&own, OUTCOME_COMPLETED, 9), 9);
    cr_assert_eq(verdict_code(&own, OUTCOME_COMPLETED, 0), 0);
    cr_assert_eq(verdict_code(&codes, OUTCOME__COUNT, 0), 125);
    cr_assert_str_eq(verdict_name(OUTCOME__COUNT), "unknown");
}

Test(core_verdict, of_a_status)
{
    char text[80];
    cr_assert_eq(verdict_of_status(0), 0);
    cr_assert_eq(verdict_of_status(7 << 8), 7);
    cr_assert_eq(verdict_of_status(SIGKILL), 128 + SIGKILL);
    cr_assert_eq(verdict_of_status(0x7f | SIGSTOP << 8), 125); /* stopped: not an end */
    cr_assert_str_eq(sigtext_of_status(7 << 8, text, sizeof text), "exit code 7");
    cr_assert(str_starts(sigtext_of_status(SIGKILL, text, sizeof text), "signal 9 (Killed"));
    cr_assert(str_starts(sigtext_of_status(0x137f, text, sizeof text), "unknown status"));
}

/* --- ladder --- */

struct rung {
    int64_t at;
    int signal;
    enum signal_target target;
};

static const struct core_params waits = {
    .exit_wait_ns = 10 * S, .term_wait_ns = 8 * S, .kill_wait_ns = 4 * S};

/* Climbs to the end, and never before the time. */
static void assert_rungs(struct ladder *ladder, const struct rung *rungs, size_t n)
{
    struct ladder_rung rung;
    for (size_t i = 0; i < n; i++) {
        cr_assert_eq(ladder_wake_at(ladder), rungs[i].at, "rung %zu: at %lld", i,
                     (long long)ladder_wake_at(ladder));
        cr_assert(!ladder_climb(ladder, rungs[i].at - 1, &rung));
        cr_assert(ladder_climb(ladder, rungs[i].at, &rung));
        cr_assert_eq(rung.signal, rungs[i].signal, "rung %zu: signal %d", i, rung.signal);
        cr_assert_eq(rung.target, rungs[i].target, "rung %zu: target %d", i, (int)rung.target);
    }
    cr_assert(!ladder_is_active(ladder));
    cr_assert_eq(ladder_wake_at(ladder), CLOCK_NEVER);
    cr_assert(!ladder_climb(ladder, CLOCK_NEVER, &rung));
}

#define ASSERT_RUNGS(ladder, ...)                          \
    do {                                                   \
        static const struct rung rungs_[] = {__VA_ARGS__}; \
        assert_rungs(ladder, rungs_, ARRAY_LEN(rungs_));   \
    } while (0)

Test(core_ladder, each_manner)
{
    struct ladder ladder = {.params = &waits};
    int64_t deadline = CLOCK_NEVER;
    ladder_start(&ladder, MANNER_STOP, SIGUSR1, 100 * S, deadline);
    ASSERT_RUNGS(&ladder, {100 * S, SIGTERM, TARGET_TREE}, {108 * S, SIGKILL, TARGET_TREE},
                 {112 * S, 0, TARGET_TREE});
    ladder_start(&ladder, MANNER_LEAVE, SIGUSR1, 100 * S, deadline);
    ASSERT_RUNGS(&ladder, {110 * S, SIGTERM, TARGET_TREE}, {118 * S, SIGKILL, TARGET_TREE},
                 {122 * S, 0, TARGET_TREE});
    ladder_start(&ladder, MANNER_FORWARD, SIGTERM, 100 * S, deadline);
    ASSERT_RUNGS(&ladder, {100 * S, SIGTERM, TARGET_CHILDREN}, {110 * S, SIGTERM, TARGET_TREE},
                 {118 * S, SIGKILL, TARGET_TREE}, {122 * S, 0, TARGET_TREE});
    ladder_start(&ladder, MANNER_ASK, SIGUSR1, 100 * S, deadline);
    ASSERT_RUNGS(&ladder, {100 * S, SIGUSR1, TARGET_RANKS}, {110 * S, SIGTERM, TARGET_TREE},
                 {118 * S, SIGKILL, TARGET_TREE}, {122 * S, 0, TARGET_TREE});
}

/* The kill comes an eighth of what is left before the deadline, at most kill_wait. */
Test(core_ladder, comes_before_the_deadline)
{
    struct ladder ladder = {.params = &waits};
    int64_t deadline = 108 * S;
    ladder_start(&ladder, MANNER_STOP, SIGTERM, 100 * S, deadline);
    ASSERT_RUNGS(&ladder, {100 * S, SIGTERM, TARGET_TREE}, {107 * S, SIGKILL, TARGET_TREE},
                 {111 * S, 0, TARGET_TREE});
    ladder_start(&ladder, MANNER_FORWARD, SIGTERM, 100 * S,
                 deadline); /* the process has the time until then */
    ASSERT_RUNGS(&ladder, {100 * S, SIGTERM, TARGET_CHILDREN}, {107 * S, SIGKILL, TARGET_TREE},
                 {111 * S, 0, TARGET_TREE});
    deadline = 164 * S;
    ladder_start(&ladder, MANNER_FORWARD, SIGTERM, 100 * S, deadline);
    ASSERT_RUNGS(&ladder, {100 * S, SIGTERM, TARGET_CHILDREN}, {156 * S, SIGTERM, TARGET_TREE},
                 {160 * S, SIGKILL, TARGET_TREE}, {164 * S, 0, TARGET_TREE});
    deadline = 90 * S; /* over already: no time for SIGTERM, but for SIGKILL to act */
    ladder_start(&ladder, MANNER_STOP, SIGTERM, 100 * S, deadline);
    ASSERT_RUNGS(&ladder, {100 * S, SIGKILL, TARGET_TREE}, {104 * S, 0, TARGET_TREE});
}

Test(core_ladder, sweeps_at_once)
{
    struct ladder ladder = {.params = &waits};
    int64_t deadline = CLOCK_NEVER;
    ladder_sweep(&ladder, 100 * S, deadline);
    ASSERT_RUNGS(&ladder, {100 * S + 2 * NS_PER_MS, SIGTERM, TARGET_TREE},
                 {108 * S + 2 * NS_PER_MS, SIGKILL, TARGET_TREE},
                 {112 * S + 2 * NS_PER_MS, 0, TARGET_TREE});
}

Test(core_ladder, hurries)
{
    struct ladder ladder = {.params = &waits};
    struct ladder_rung rung;
    int64_t deadline = CLOCK_NEVER;
    ladder_start(&ladder, MANNER_STOP, SIGTERM, 100 * S, deadline);
    cr_assert(ladder_climb(&ladder, 100 * S, &rung));
    ladder_hurry(&ladder, 101 * S);
    ASSERT_RUNGS(&ladder, {101 * S, SIGKILL, TARGET_TREE}, {105 * S, 0, TARGET_TREE});
    ladder_start(&ladder, MANNER_STOP, SIGTERM, 100 * S, deadline);
    cr_assert(ladder_climb(&ladder, 100 * S, &rung) && ladder_climb(&ladder, 108 * S, &rung));
    ladder_hurry(&ladder, 109 * S); /* no signal is left to send: a killed process gets its time */
    ASSERT_RUNGS(&ladder, {112 * S, 0, TARGET_TREE});
}

Test(core_ladder, a_later_notice_limits_it)
{
    struct ladder ladder = {.params = &waits};
    struct ladder_rung rung;
    int64_t deadline = CLOCK_NEVER;
    ladder_start(&ladder, MANNER_STOP, SIGTERM, 100 * S, deadline);
    cr_assert(ladder_climb(&ladder, 100 * S, &rung));
    ladder_limit(&ladder, 101 * S, 200 * S);
    cr_assert_eq(ladder_wake_at(&ladder), 108 * S);
    ladder_limit(&ladder, 101 * S, 105 * S);
    ASSERT_RUNGS(&ladder, {104 * S + S / 2, SIGKILL, TARGET_TREE},
                 {108 * S + S / 2, 0, TARGET_TREE});
}

/* After a suspend all rungs are due: each rung still leaves time for the rung before. */
Test(core_ladder, is_patient_when_it_comes_late)
{
    struct ladder ladder = {.params = &waits};
    struct ladder_rung rung;
    int64_t deadline = CLOCK_NEVER;
    ladder_start(&ladder, MANNER_LEAVE, SIGTERM, 100 * S, deadline);
    cr_assert(ladder_climb(&ladder, 200 * S, &rung));
    cr_assert_eq(rung.signal, SIGTERM);
    ASSERT_RUNGS(&ladder, {208 * S, SIGKILL, TARGET_TREE}, {212 * S, 0, TARGET_TREE});
    deadline = 132 * S; /* the deadline holds, whatever happened */
    ladder_start(&ladder, MANNER_LEAVE, SIGTERM, 100 * S, deadline);
    cr_assert(ladder_climb(&ladder, 125 * S, &rung) && rung.signal == SIGTERM);
    cr_assert_eq(ladder_wake_at(&ladder), 128 * S);
    cr_assert(ladder_climb(&ladder, 130 * S, &rung) && rung.signal == SIGKILL);
    ASSERT_RUNGS(&ladder, {134 * S, 0, TARGET_TREE});
}

/* --- grace --- */

#define KNOWN(time) ((struct grace_left){.ns = (time)})
#define GUESS(time) ((struct grace_left){.ns = (time), .is_guess = true})

Test(core_grace, a_repeat_within_a_second_is_the_same)
{
    struct grace grace = {0};
    cr_assert_eq(grace_signal(&grace, SIGTERM, 10 * S, KNOWN(25 * S)), GRACE_NEW);
    cr_assert(grace.is_live && grace_deadline(&grace) == 35 * S && grace.at == 10 * S);
    cr_assert_str_eq(grace_first(&grace)->label.source, "SIGTERM");
    cr_assert_eq(grace_signal(&grace, SIGTERM, 11 * S, KNOWN(25 * S)), GRACE_SAME);
    cr_assert_eq(grace.hurry, HURRY_NONE);
    cr_assert_eq(grace_signal(&grace, SIGTERM, 11 * S + 1, KNOWN(25 * S)), GRACE_HURRIED);
    cr_assert_eq(grace.hurry, HURRY_SAVE);
    cr_assert_eq(grace_signal(&grace, SIGTERM, 12 * S + 1, KNOWN(25 * S)), GRACE_SAME);
    cr_assert_eq(grace_signal(&grace, SIGTERM, 13 * S + 2, KNOWN(25 * S)), GRACE_HURRIED);
    cr_assert_eq(grace.hurry, HURRY_STOP);
    cr_assert_eq(grace_signal(&grace, SIGTERM, 20 * S, KNOWN(25 * S)), GRACE_SAME);
    cr_assert_eq(grace_deadline(&grace), 35 * S, "a repeat moved the deadline");
}

Test(core_grace, the_earlier_deadline_wins)
{
    struct grace grace = {0};
    cr_assert_eq(grace_signal(&grace, SIGUSR1, 10 * S, KNOWN(240 * S)), GRACE_NEW);
    cr_assert_eq(grace_signal(&grace, SIGTERM, 11 * S, KNOWN(25 * S)), GRACE_SOONER);
    cr_assert_eq(grace_deadline(&grace), 36 * S);
    cr_assert_str_eq(grace_first(&grace)->label.source, "SIGTERM");
    cr_assert_eq(grace_signal(&grace, SIGUSR1, 12 * S, KNOWN(240 * S)), GRACE_SAME);
    cr_assert_eq(grace_deadline(&grace), 36 * S);
    cr_assert_eq(grace.hurry, HURRY_NONE);
}

Test(core_grace, of_a_shielded_process)
{
    struct grace grace = {0};
    cr_assert_eq(grace_shield(&grace, SIGTERM, 10 * S, KNOWN(25 * S)), GRACE_NEW);
    cr_assert_str_eq(grace_first(&grace)->label.text, "sent to a training process");
    cr_assert_eq(grace_shield(&grace, SIGTERM, 20 * S, KNOWN(25 * S)), GRACE_SAME,
                 "eight ranks say it");
    cr_assert_eq(grace.hurry, HURRY_NONE);
}

static enum grace_change source(struct grace *grace, enum notice_type type, const char *id,
                                int64_t now, int64_t left)
{
    struct notice notice = {.type = type, .source = "cloud", .left_ns = left};
    str_copy(notice.id, sizeof notice.id, id);
    return grace_notice(grace, &notice, now, KNOWN(25 * S));
}

Test(core_grace, notices_of_a_source)
{
    struct grace grace = {0};
    cr_assert_eq(source(&grace, NOTICE_TERMINATE, "a", 10 * S, 100 * S), GRACE_NEW);
    cr_assert_eq(source(&grace, NOTICE_TERMINATE, "a", 20 * S, 90 * S), GRACE_SAME,
                 "it counts down");
    cr_assert_eq(source(&grace, NOTICE_TERMINATE, "a", 20 * S, NOTICE_LEFT_UNKNOWN), GRACE_SAME);
    cr_assert_eq(source(&grace, NOTICE_TERMINATE, "a", 20 * S, 100 * S), GRACE_SAME, "it repeats");
    cr_assert_eq(grace_deadline(&grace), 110 * S);
    cr_assert_eq(source(&grace, NOTICE_TERMINATE, "a", 20 * S, 50 * S), GRACE_SOONER);
    cr_assert_eq(source(&grace, NOTICE_TERMINATE, "b", 20 * S, 60 * S), GRACE_SAME);
    cr_assert_eq(grace_deadline(&grace), 70 * S);
    cr_assert_eq(source(&grace, NOTICE_CANCEL, "a", 21 * S, 0), GRACE_LATER);
    cr_assert_eq(grace_deadline(&grace), 80 * S);
    cr_assert_eq(grace.at, 10 * S, "it has been threatened since");
    cr_assert_eq(source(&grace, NOTICE_CANCEL, "a", 21 * S, 0), GRACE_SAME);
    cr_assert_eq(grace_signal(&grace, SIGTERM, 22 * S, KNOWN(25 * S)), GRACE_SOONER);
    cr_assert_eq(source(&grace, NOTICE_CANCEL, "", 23 * S, 0), GRACE_SAME, "a signal stays");
    cr_assert_eq(grace_deadline(&grace), 47 * S);
    cr_assert_eq(grace.n, 1);
}

/* The deadline that decides is known, or it is not. */
Test(core_grace, a_guess_is_one_until_a_source_names_an_earlier_deadline)
{
    struct grace grace = {0};
    struct notice notice = {.type = NOTICE_TERMINATE, .source = "cloud", .left_ns = 20 * S};
    cr_assert_eq(grace_signal(&grace, SIGTERM, 10 * S, GUESS(25 * S)), GRACE_NEW);
    cr_assert(grace_first(&grace)->is_guess);
    cr_assert_eq(grace_notice(&grace, &notice, 11 * S, GUESS(25 * S)), GRACE_SOONER);
    cr_assert(!grace_first(&grace)->is_guess, "the source has named it");
    notice.type = NOTICE_CANCEL;
    cr_assert_eq(grace_notice(&grace, &notice, 12 * S, GUESS(25 * S)), GRACE_LATER);
    cr_assert(grace_first(&grace)->is_guess, "only the signal is left");
}

Test(core_grace, what_a_source_does_not_name_is_as_the_grace)
{
    static const struct {
        int64_t left;
        bool assumes, grace, is_guess; /* is a guess: what the source names, the grace, the end */
    } rows[] = {
        {NOTICE_LEFT_UNKNOWN, false, true, true},
        {NOTICE_LEFT_UNKNOWN, false, false, false},
        {-5 * S, false, true, true},
        {-5 * S, false, false, false},
        {60 * S, false, true, false},
        {60 * S, true, false, true},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct grace grace = {0};
        struct notice notice = {.type = NOTICE_TERMINATE,
                                .source = "cloud",
                                .left_ns = rows[i].left,
                                .is_guess = rows[i].assumes};
        struct grace_left left = {.ns = 25 * S, .is_guess = rows[i].grace};
        cr_expect_eq(grace_notice(&grace, &notice, 10 * S, left), GRACE_NEW);
        cr_expect_eq(grace_first(&grace)->is_guess, rows[i].is_guess, "row %zu", i);
    }
}

Test(core_grace, of_many_notices_those_that_matter_are_kept)
{
    struct grace grace = {0};
    char id[12];
    for (int i = 0; i < 3 * GRACE_NOTICES_MAX; i++) {
        snprintf(id, sizeof id, "%d", i);
        source(&grace, i % 3 ? NOTICE_TERMINATE : NOTICE_CHECKPOINT, id, 10 * S, (200 - i) * S);
    }
    cr_assert_eq(grace.n, GRACE_NOTICES_MAX);
    cr_assert_eq(grace_deadline(&grace), (10 + 200 - 47) * S);
    cr_assert_eq(source(&grace, NOTICE_TERMINATE, "late", 10 * S, 1000 * S), GRACE_SAME);
    cr_assert_eq(source(&grace, NOTICE_CANCEL, "", 11 * S, 0), GRACE_OVER);
    cr_assert_eq(grace.n, 0);
    cr_assert(!grace.is_live);
}

Test(core_grace, margins_and_bounds)
{
    cr_assert_eq(grace_margin(16 * S), S);
    cr_assert_eq(grace_margin(60 * S), 3 * S);
    cr_assert_eq(grace_margin(3600 * S), 3 * S);
    cr_assert_eq(grace_margin(-5 * S), 0);
    cr_assert_eq(grace_clamp(7 * S), 7 * S);
    cr_assert_eq(grace_clamp(INT64_MAX), GRACE_MAX_NS);
    cr_assert_eq(grace_clamp(INT64_MIN), -GRACE_MAX_NS);
    cr_assert_eq(grace_clamp(-S), -S);
}

/* --- stride --- */

/* The steps common to two strides, found by looking at each. */
static bool first_common(uint64_t o1, uint64_t p1, uint64_t o2, uint64_t p2, uint64_t *ret)
{
    for (*ret = 0; *ret < p1 * p2; ++*ret)
        if (*ret % p1 == o1 % p1 && *ret % p2 == o2 % p2)
            return true;
    return false;
}

Test(core_stride, joined_as_by_trying_all)
{
    for (uint64_t p1 = 1; p1 <= 12; p1++)
        for (uint64_t p2 = 1; p2 <= 12; p2++)
            for (uint64_t o = 0; o < p1 * p2; o++) {
                uint64_t o1 = o % (p1 + 3), o2 = o / 2, first;
                struct stride s = stride_make(o1, p1), before = s;
                bool is_common = first_common(o1, p1, o2, p2, &first);
                cr_assert_eq(stride_join(&s, stride_make(o2, p2)), is_common);
                if (is_common)
                    cr_assert(s.offset == first && s.period > first && p1 * p2 % s.period == 0 &&
                              s.period % p1 == 0 && s.period % p2 == 0);
                else
                    cr_assert(s.offset == before.offset && s.period == before.period);
            }
}

Test(core_stride, up_to_the_next_step)
{
    for (uint64_t period = 1; period <= 9; period++)
        for (uint64_t offset = 0; offset < period; offset++)
            for (uint64_t step = 0; step < 40; step++) {
                uint64_t up = step;
                while (up % period != offset)
                    up++;
                cr_assert_eq(stride_up((struct stride){offset, period}, step), up);
            }
}

Test(core_stride, what_is_too_long_does_not_join)
{
    struct stride s = stride_make(0, 999999937), every = stride_make(0, 0);
    cr_assert_eq(every.period, 1);
    cr_assert(stride_join(&s, every));
    cr_assert(!stride_join(&s, stride_make(0, 1000)), "a common step every 10^12");
    cr_assert_eq(s.period, 999999937);
    cr_assert(!stride_join(&s, stride_make(UINT64_MAX, UINT64_MAX)));
    s = stride_make(5, UINT64_MAX);
    cr_assert(!stride_join(&s, every));
    cr_assert(stride_join(&s, stride_make(5, UINT64_MAX)));
}
