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

/* Our SIGKILL must be over before the platform's, or pchrun dies before it reports the outcome. */
static int64_t last_kill_at(int64_t now, int64_t deadline, int64_t kill_wait)
{
    if (deadline == CLOCK_NEVER)
        return CLOCK_NEVER;
    return deadline <= now ? now : deadline - clock_min((deadline - now) / 8, kill_wait);
}

/* TERM at `at`, KILL after term_wait or at kill_by, then a bounded wait. */
static void add_term_kill(struct ladder *ladder, int64_t at)
{
    int64_t kill_at = clock_min(at + ladder->params->term_wait_ns, ladder->kill_by);
    if (at < kill_at)
        add(ladder, at, SIGTERM, TARGET_TREE);
    add(ladder, kill_at, SIGKILL, TARGET_TREE);
    add(ladder, kill_at + ladder->params->kill_wait_ns, 0, TARGET_TREE);
}

static void ladder_begin(struct ladder *ladder, int64_t now, int64_t deadline)
{
    *ladder = (struct ladder){.params = ladder->params};
    ladder->kill_by = last_kill_at(now, deadline, ladder->params->kill_wait_ns);
}

void ladder_start(struct ladder *ladder, enum peer_manner manner, int signal, int64_t now,
                  int64_t deadline)
{
    int64_t left_at = now + ladder->params->exit_wait_ns;
    /* Without a deadline, a program that is asked by a signal gets exit_wait, like an attached
     * program. */
    int64_t asked_until = deadline == CLOCK_NEVER ? left_at : deadline - (deadline - now) / 8;
    ladder_begin(ladder, now, deadline);
    switch (manner) {
    case MANNER_LEAVE:
        add_term_kill(ladder, clock_min(left_at, asked_until));
        break;
    case MANNER_STOP:
        add_term_kill(ladder, now);
        break;
    case MANNER_FORWARD:
        add(ladder, now, signal, TARGET_CHILDREN);
        add_term_kill(ladder, asked_until);
        break;
    case MANNER_ASK:
        add(ladder, now, signal, TARGET_RANKS);
        add_term_kill(ladder, asked_until);
        break;
    }
}

void ladder_sweep(struct ladder *ladder, int64_t now, int64_t deadline)
{
    ladder_begin(ladder, now, deadline);
    add_term_kill(ladder, now + SWEEP_PAUSE_NS);
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
            clock_min(ladder->kill_by, last_kill_at(now, deadline, ladder->params->kill_wait_ns));
        move_up(ladder, i, ladder->rungs[i].at - ladder->kill_by);
    }
}

void ladder_forgive(struct ladder *ladder, int64_t now, int64_t away)
{
    put_off(ladder, away);
    if (ladder_is_active(ladder) && ladder->rungs[ladder->next].signal == 0)
        put_off(ladder, now + ladder->params->kill_wait_ns - ladder->rungs[ladder->next].at);
}

void ladder_stop(struct ladder *ladder)
{
    ladder->next = ladder->n;
}
