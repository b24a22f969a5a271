/* SPDX-License-Identifier: Apache-2.0
 * See needed.h.
 */
#include "core/node/needed.h"

static bool has_saved(const struct round *round, const struct member *m)
{
    return round->id > 0 && m->saved_round == round->id;
}

int needed_count_saved(const struct round *round, uint64_t *ret_step, bool *ret_mismatch)
{
    int n = 0;
    *ret_mismatch = false;
    *ret_step = 0;
    for (int i = 0; i < round->ranks->n; i++) {
        const struct member *m = &round->ranks->members[i];
        if (!has_saved(round, m))
            continue;
        if (n++ > 0 && m->saved_step != *ret_step)
            *ret_mismatch = true;
        else
            *ret_step = m->saved_step;
    }
    return n;
}

static bool needed_has_failed(const struct round *round, const struct member *m)
{
    return round->id > 0 && m->failed_round == round->id && !has_saved(round, m);
}

/* Its process died, and did not save. A rank that left by itself is not gone: it trained to an
 * earlier step, and pchrun cannot know why. */
static bool needed_is_gone(const struct round *round, const struct member *m)
{
    return ranks_is_silent(m) && !has_saved(round, m);
}

static bool needed_has_come(const struct round *round, const struct member *m)
{
    return m->served_round == round->id || ranks_is_silent(m);
}

/* This rank's save would be the whole checkpoint. Before the decision any rank's may be. */
static bool is_enough(const struct round *round, const struct member *m)
{
    return round->needs != NEEDS_RANK0 || m->rank == 0;
}

static int count_come(const struct round *round)
{
    int n = 0;
    for (int i = 0; i < round->ranks->n; i++)
        n += needed_has_come(round, &round->ranks->members[i]);
    return n;
}

/* can_save: the commands of this node still run. */
static int count_hopes(const struct round *round, bool can_save)
{
    int n = 0;
    for (int i = 0; i < round->ranks->n; i++) {
        const struct member *m = &round->ranks->members[i];
        bool may_save = can_save && !m->is_ended && !needed_has_failed(round, m);
        n += is_enough(round, m) && (has_saved(round, m) || may_save);
    }
    return n;
}

bool needed_spares(const struct round *round, const struct member *member)
{
    if (round->needs == NEEDS_RANK0)
        return member->rank != 0;
    return round->needs == NEEDS_ANY && count_hopes(round, true) > 0;
}

uint32_t needed_whole(const struct round *round)
{
    uint32_t whole = 0;
    for (int i = 0; i < round->ranks->n && round->needs != NEEDS_ALL; i++) {
        const struct member *m = &round->ranks->members[i];
        uint32_t rank = (uint32_t)m->rank + 1;
        if (has_saved(round, m) && is_enough(round, m) && (!whole || rank < whole))
            whole = rank;
    }
    return whole;
}

/* When every rank has come, no other save is waited for. A record that is written earlier would be
 * written twice. */
bool needed_may_record(const struct round *round, int saved)
{
    if (saved == round->ranks->n)
        return true;
    return needed_whole(round) && count_come(round) == round->ranks->n;
}

static void needed_name_missing(const struct round *round, struct peer_status *status)
{
    if (round->needs == NEEDS_ALL)
        return;
    for (const struct member *m = NULL; (m = ranks_after(round->ranks, m));) {
        if (needed_has_failed(round, m))
            ranks_add_name(m, status->need.unsaved, sizeof status->need.unsaved);
        else if (needed_is_gone(round, m))
            ranks_add_name(m, status->need.gone, sizeof status->need.gone);
    }
}

void needed_fill(const struct round *round, bool can_save, struct peer_status *status)
{
    bool is_recorded = round->id > 0 && round->prepared_round == round->id;
    status->need.came = (uint16_t)count_come(round);
    status->need.hopes = round->save_error[0] ? 0 : (uint16_t)count_hopes(round, can_save);
    status->need.whole = is_recorded ? round->prepared_whole : 0;
    needed_name_missing(round, status);
}
