/* SPDX-License-Identifier: Apache-2.0
 * Checks that the ranks of all nodes form one world. See chief_parts.h.
 */
#include "core/chief/chief_parts.h"

#include "base/str.h"
#include "core/common/verdict.h"

#include <stdio.h>
#include <stdlib.h>

struct roster {
    uint8_t seen[CORE_WORLD_MAX / 8];
    char text[192];
    bool is_bad;
};

static void complain(struct roster *roster, const char *fmt, ...) PRINTF_LIKE(2, 3);

static void complain(struct roster *roster, const char *fmt, ...)
{
    char text[96];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    str_addf(roster->text, sizeof roster->text, "%s%s", roster->is_bad ? "; " : "", text);
    roster->is_bad = true;
}

static void see(struct roster *roster, long rank, int node)
{
    if (roster->seen[rank / 8] & (1U << (rank % 8)))
        complain(roster, "two processes have rank %ld, one of them on node %d; each needs its own",
                 rank, node);
    else
        roster->seen[rank / 8] |= (uint8_t)(1U << (rank % 8));
}

/* "0-3,8" */
static void see_list(struct roster *roster, const char *list, uint32_t world, int node)
{
    while (*list) {
        char *end;
        long from = strtol(list, &end, 10), to = from;
        if (end == list) {
            complain(roster, "node %d sends a bad list of ranks: \"%s\"", node, list);
            return;
        }
        if (*end == '-')
            to = strtol(end + 1, &end, 10);
        if (from < 0 || to < from || to >= (long)world) {
            complain(roster, "node %d has ranks %ld to %ld", node, from, to);
            return;
        }
        for (long rank = from; rank <= to; rank++)
            see(roster, rank, node);
        list = *end == ',' ? end + 1 : end;
        if (list == end && *end)
            return;
    }
}

static void see_holes(struct roster *roster, uint32_t world)
{
    for (uint32_t rank = 0; rank < world; rank++)
        if (!(roster->seen[rank / 8] & (1U << (rank % 8))))
            complain(roster, "rank %u is missing", rank);
}

/* Every rank of the world is there once, and all can stop at a common step. */
static void check_world(struct chief *chief, struct roster *roster)
{
    uint32_t world = 0;
    int first = 0;
    chief->gen.stride = stride_make(0, 1);
    for (int i = 0; i < chief->params->nnodes; i++) {
        const struct peer_status *s = &chief->peers[i].status;
        if (s->expected == 0)
            continue;
        if (!world)
            first = i;
        if (world && s->world_size != world)
            complain(roster, "node %d says that the world has %u ranks, node %d says %u", i,
                     s->world_size, first, world);
        world = world ? world : s->world_size;
        if (!stride_join(&chief->gen.stride, stride_make(s->first_step, s->stride)))
            complain(roster, "node %d and node %d have no common step at which both can save",
                     first, i);
    }
    if (world > CORE_WORLD_MAX)
        complain(roster, "node %d says that the world has %u ranks", first, world);
    if (roster->is_bad)
        return;
    for (int i = 0; i < chief->params->nnodes; i++)
        see_list(roster, chief->peers[i].status.roster, world, i);
    see_holes(roster, world);
}

/* Once in a generation: a rank's process may be replaced at any time. */
static void say_attached(struct chief *chief)
{
    char took[32], nodes[48] = "";
    uint32_t world = chief_world(chief);
    if (chief->gen.has_told_attached || world == 0)
        return;
    chief->gen.has_told_attached = true;
    if (chief->params->nnodes > 1)
        snprintf(nodes, sizeof nodes, " on %d nodes", chief->params->nnodes);
    str_about(chief->out->now - chief->gen.began_at, took, sizeof took);
    if (world == 1)
        out_log(chief->out, LOG_INFO, "start", "the only rank has attached after %s", took);
    else
        out_log(chief->out, LOG_INFO, "start", "all %u ranks%s have attached after %s", world,
                nodes, took);
}

bool chief_check_roster(struct chief *chief)
{
    if (chief->order.roster || !all_are(chief, FACT_COMPLETE) || !all_are(chief, FACT_LISTED))
        return true;
    struct roster roster = {0};
    check_world(chief, &roster);
    if (!roster.is_bad) {
        chief->order.roster = true;
        chief_begin_period(chief);
        chief->is_changed = true;
        say_attached(chief);
        return true;
    }
    char why[224];
    snprintf(why, sizeof why, "the ranks do not fit together: %s", roster.text);
    chief_stop(chief, OUTCOME_FAILED, EXIT_OWN_ERROR, why);
    return false;
}
