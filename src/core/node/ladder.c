/* SPDX-License-Identifier: Apache-2.0
 * See ladder.h.
 */
#include "core/node/ladder.h"

#include "base/clock.h"

#include <assert.h>
#include <signal.h>

/* A leftover process may be ending already: this pause spares it the signal. */
#define SWEEP_PAUSE_NS (2 * NS_PER_MS)

static void add(struct ladder *ladder, int64_t at, int signal, enum signal_target target)
{
    assert(ladder->n < LADDER_RUNGS);
    ladder->rungs[ladder->n++] = (struct ladder_rung){.at = at, .signal = signal, .target = target};
}

/* Our SIGKILL must be over before the platform's, or pchrun dies before it tells the outcome. */
static int64_t last_kill_at(int64_t now, int64_t deadline, int64_t kill_wait)
{
    if (deadline == CLOCK_NEVER)
        return CLOCK_NEVER;
    return deadline <= now ? now : deadline - clock_min((deadline - now) / 8, kill_wait);
}

/* TERM at `at`, KILL after term_wait, or in time before the deadline, then a bounded wait. */
static void add_term_kill(struct ladder *ladder, int64_t at, const struct ladder_times *times)
{
    ladder->kill_wait = times->kill_wait;
    ladder->kill_by = last_kill_at(times->now, times->deadline, times->kill_wait);
    int64_t kill_at = clock_min(at + times->term_wait, ladder->kill_by);
    if (at < kill_at)
        add(ladder, at, SIGTERM, TARGET_TREE);
    add(ladder, kill_at, SIGKILL, TARGET_TREE);
    add(ladder, kill_at + times->kill_wait, 0, TARGET_TREE);
}

void ladder_start(struct ladder *ladder, enum peer_manner manner, int signal,
                  const struct ladder_times *times)
{
    *ladder = (struct ladder){0};
    /* Without a deadline, a program that is asked by signal gets exit_wait, as an attached one. */
    int64_t asked_until = times->deadline == CLOCK_NEVER
                              ? times->now + times->exit_wait
                              : times->deadline - (times->deadline - times->now) / 8;
    switch (manner) {
    case MANNER_LEAVE:
        add_term_kill(ladder, clock_min(times->now + times->exit_wait, asked_until), times);
        break;
    case MANNER_STOP:
        add_term_kill(ladder, times->now, times);
        break;
    case MANNER_FORWARD:
        add(ladder, times->now, signal, TARGET_CHILDREN);
        add_term_kill(ladder, asked_until, times);
        break;
    case MANNER_ASK:
        add(ladder, times->now, signal, TARGET_RANKS);
        add_term_kill(ladder, asked_until, times);
        break;
    }
}

void ladder_sweep(struct ladder *ladder, const struct ladder_times *times)
{
    *ladder = (struct ladder){0};
    add_term_kill(ladder, times->now + SWEEP_PAUSE_NS, times);
}

bool ladder_is_active(const struct ladder *ladder)
{
    return ladder->next < ladder->n;
}

int64_t ladder_wake_at(const struct ladder *ladder)
{
    return ladder_is_active(ladder) ? ladder->rungs[ladder->next].at : CLOCK_NEVER;
}

static void put_off(struct ladder *ladder, int64_t late)
{
    for (int i = ladder->next; i < ladder->n; i++) {
        struct ladder_rung *rung = &ladder->rungs[i];
        if (rung->signal == SIGKILL && rung->at + late > ladder->kill_by)
            late = ladder->kill_by > rung->at ? ladder->kill_by - rung->at : 0;
        rung->at += late;
    }
}

bool ladder_climb(struct ladder *ladder, int64_t now, struct ladder_rung *ret)
{
    if (!ladder_is_active(ladder) || ladder->rungs[ladder->next].at > now)
        return false;
    *ret = ladder->rungs[ladder->next++];
    put_off(ladder, now - ret->at);
    return true;
}

/* The rung `from` and all later rungs come earlier by `early`. */
static void move_up(struct ladder *ladder, int from, int64_t early)
{
    for (int i = from; early > 0 && i < ladder->n; i++)
        ladder->rungs[i].at -= early;
}

void ladder_hurry(struct ladder *ladder, int64_t now)
{
    if (!ladder_is_active(ladder) || ladder->rungs[ladder->next].signal == 0)
        return;
    move_up(ladder, ladder->next, ladder->rungs[ladder->next].at - now);
}

void ladder_limit(struct ladder *ladder, int64_t now, int64_t deadline)
{
    for (int i = ladder->next; i + 1 < ladder->n; i++) {
        if (ladder->rungs[i].signal != SIGKILL)
            continue;
        ladder->kill_by =
            clock_min(ladder->kill_by, last_kill_at(now, deadline, ladder->kill_wait));
        move_up(ladder, i, ladder->rungs[i].at - ladder->kill_by);
    }
}

void ladder_forgive(struct ladder *ladder, int64_t now, int64_t away)
{
    put_off(ladder, away);
    if (ladder_is_active(ladder) && ladder->rungs[ladder->next].signal == 0)
        put_off(ladder, now + ladder->kill_wait - ladder->rungs[ladder->next].at);
}

void ladder_stop(struct ladder *ladder)
{
    ladder->next = ladder->n;
}
