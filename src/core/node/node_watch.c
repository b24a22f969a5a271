/* SPDX-License-Identifier: Apache-2.0
 * The watchdog of a node: its facts about the node, and its part of the STATUS. See node_parts.h.
 */
#include "core/node/node_parts.h"

static struct watchdog_node facts_of(const struct node *node)
{
    return (struct watchdog_node){.is_running = node->state == NODE_RUNNING &&
                                                !node_commands_have_ended(node),
                                  .is_quiet = node_notice_is_near(node),
                                  .round = node->gen.round.is_closed ? 0 : node->gen.round.id};
}

void node_note_steps(struct node *node, const struct event *event)
{
    struct watchdog *dog = &node->watchdog;
    struct watchdog_node facts = facts_of(node);
    uint32_t examined = dog->examined;
    watchdog_read(dog, &node->gen.ranks, event, &facts);
    enum peer_motion motion = watchdog_view(dog, &node->gen.ranks, &facts).motion;
    if (motion != dog->told || examined != dog->examined)
        node->is_dirty = true;
}

void node_on_examined(struct node *node, const struct event *event)
{
    watchdog_examined(&node->watchdog, &node->gen.ranks, event);
}

void node_fill_motion(struct node *node, struct peer_status *status)
{
    struct watchdog_node facts = facts_of(node);
    struct watchdog_view view = watchdog_view(&node->watchdog, &node->gen.ranks, &facts);
    node->watchdog.told = view.motion;
    status->motion = (uint8_t)view.motion;
    status->examined = node->watchdog.examined;
    status->behind_rank = -1;
    status->still_ns = node->out->now - view.still_since;
    status->limit_ns = view.limit;
    if (view.motion < MOTION_ABSENT)
        return;
    status->absent = (uint16_t)view.absent;
    status->behind_count = (uint16_t)view.count;
    status->behind_ago_ns = node->out->now - view.since;
    status->behind_phase = (uint8_t)view.phase;
    if (!view.behind)
        return;
    status->behind_rank = view.behind->rank;
    status->behind_pid = view.behind->pid;
    status->behind_step = view.behind->stand.step;
    status->behind_stopped = view.is_stopped;
}

void node_watch(struct node *node)
{
    watchdog_look(&node->watchdog);
}

int64_t node_watches_at(const struct node *node)
{
    struct watchdog_node facts = facts_of(node);
    return watchdog_wake_at(&node->watchdog, &node->gen.ranks, &facts);
}
