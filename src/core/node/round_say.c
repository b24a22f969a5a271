/* SPDX-License-Identifier: Apache-2.0
 * See round_say.h.
 */
#include "core/node/round_say.h"

#include "base/clock.h"
#include "base/str.h"
#include "wire/page.h"

void round_say_wait(struct out *out, const struct ranks *ranks, const struct member *m)
{
    char missing[64] = "";
    for (const struct member *one = NULL; (one = ranks_after(ranks, one));)
        if (!ranks_has_own(one, m->wait_step))
            ranks_add_name(one, missing, sizeof missing);
    out_log(out, LOG_WARN, "save",
            "rank %d has waited %d s in pch_saved for the commit of step %llu; the save of %s%s "
            "is missing; " RANKS_HOW_TO_REPORT,
            m->rank, (int)(ROUND_TOLD_NS / NS_PER_S), ull(m->wait_step),
            missing[0] ? "rank " : "another node", missing);
}

void round_say_past(struct out *out, const struct member *m, uint64_t step)
{
    out_log(out, LOG_WARN, "commit",
            "step %llu is not committed: rank %d has not saved it; that rank waits for the commit "
            "of its step %llu",
            ull(step), m->rank, ull(m->wait_step));
}

/* Ranks that have not saved the step of a round. */
struct unsaved {
    int n;
    const struct member *first;
    char text[96];
};

static bool is_unsaved(const struct member *m, uint32_t round)
{
    return !m->is_ended && m->saved_round != round && m->failed_round != round;
}

static bool has_come(const struct member *m, uint32_t round, uint64_t step)
{
    return m->step >= step || m->served_round == round;
}

static void add_unsaved(const struct member *m, struct unsaved *list)
{
    if (list->n++ == 0)
        list->first = m;
    ranks_add_name(m, list->text, sizeof list->text);
}

void round_say_unsaved(struct out *out, const struct ranks *ranks, uint32_t round, uint64_t step)
{
    struct unsaved there = {.n = 0}, behind = {.n = 0};
    for (const struct member *m = NULL; (m = ranks_after(ranks, m));)
        if (is_unsaved(m, round))
            add_unsaved(m, has_come(m, round, step) ? &there : &behind);
    if (there.n > 0)
        out_log(out, LOG_NOTICE, "save",
                "rank%s %s had not reported a save of step %llu: the save is too slow, or is never "
                "reported; " RANKS_HOW_TO_REPORT,
                there.n == 1 ? "" : "s", there.text, ull(step));
    if (behind.n > 0)
        out_log(out, LOG_NOTICE, "save",
                "rank%s %s had not come to step %llu, which every rank saves: rank %d stood at "
                "step %llu, phase %s",
                behind.n == 1 ? "" : "s", behind.text, ull(step), behind.first->rank,
                ull(behind.first->step), page_phase_name(behind.first->stand.phase));
}

void round_say_return(struct out *out, const struct member *m, uint64_t step, uint64_t commit_step)
{
    out_log(out, LOG_WARN, "save",
            "rank %d saves step %llu, below the last commit at step %llu: it is not committed; did "
            "the training go back to an earlier step?",
            m->rank, ull(step), ull(commit_step));
}
