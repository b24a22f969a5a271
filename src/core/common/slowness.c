/* SPDX-License-Identifier: Apache-2.0
 * See slowness.h.
 */
#include "core/common/slowness.h"

uint64_t slowness_median(slowness_count_fn *count, const void *of)
{
    uint64_t below = 0, most = PAGE_OWN_MAX, all = count(of, most);
    while (all > 0 && most - below > 1) {
        uint64_t middle = below + (most - below) / 2;
        if (2 * count(of, middle) >= all)
            most = middle;
        else
            below = middle;
    }
    return all > 0 ? most : 0;
}

static bool seems_slow(const struct member *m, uint64_t median)
{
    uint64_t own = m->pace.own_ns;
    if (median == 0 || own <= median || m->slot < 0 || m->is_ended)
        return false;
    if (m->is_slow)
        return 10 * own >= 12 * median;
    return 10 * own >= 13 * median && 10 * (own - median) >= m->pace.whole_ns;
}

/* Two ranks do not measure at the same time. When all of them slow down, for a while only one has
 * measured that. When its next time comes, the median has the new times of the others. */
static void judge(struct member *m, uint64_t median)
{
    uint64_t own = m->pace.own_ns;
    if (!seems_slow(m, median))
        m->over_ns = 0;
    else if (m->over_ns == 0)
        m->over_ns = own;
    m->is_slow = m->over_ns > 0 && (m->is_slow || own != m->over_ns);
}

uint16_t slowness_of(const struct member *m, uint64_t median_ns)
{
    uint64_t percent = m->is_slow ? 100 * m->pace.own_ns / median_ns : 0;
    return percent < UINT16_MAX ? (uint16_t)percent : UINT16_MAX;
}

void slowness_judge(struct ranks *ranks, uint64_t median_ns)
{
    struct member *m;
    for (int i = 0; (m = ranks_at(ranks, i)); i++)
        judge(m, median_ns);
}

void slowness_read(struct ranks *ranks, const struct event *event, uint64_t median_ns)
{
    struct member *m;
    for (int i = 0; event->steps.own_by_slot && (m = ranks_at(ranks, i)); i++)
        if (m->slot >= 0)
            m->pace = event->steps.own_by_slot[m->slot];
    slowness_judge(ranks, median_ns);
}

static uint64_t count_ranks(const void *of, uint64_t most)
{
    const struct ranks *ranks = of;
    const struct member *m;
    uint64_t n = 0;
    for (int i = 0; (m = ranks_at(ranks, i)); i++)
        n += m->slot >= 0 && !m->is_ended && m->pace.own_ns > 0 && m->pace.own_ns <= most;
    return n;
}

bool slowness_is_known(const struct ranks *ranks)
{
    return count_ranks(ranks, PAGE_OWN_MAX) > 0;
}

struct peer_own slowness_view(const struct ranks *ranks, const struct peer_own *before)
{
    struct peer_own view = {.known = (uint16_t)count_ranks(ranks, PAGE_OWN_MAX),
                            .median_ns = slowness_median(count_ranks, ranks)};
    const struct member *m, *named = NULL;
    for (int i = 0; (m = ranks_at(ranks, i)); i++) {
        bool was_named = before->slow > 0 && m->rank == before->rank;
        view.slow += m->is_slow;
        if (m->is_slow && (!named || was_named ||
                           (named->rank != before->rank && m->pace.own_ns > named->pace.own_ns)))
            named = m;
    }
    view.rank = named ? named->rank : 0;
    view.local_rank = named ? named->local_rank : 0;
    view.rank_ns = named ? named->pace.own_ns : 0;
    return view;
}
