/* SPDX-License-Identifier: Apache-2.0
 * The STATUS that a node sends to the chief whenever its state has changed. See node_parts.h.
 */
#include "base/clock.h"
#include "base/str.h"
#include "core/common/slowness.h"
#include "core/node/node_parts.h"

#define INTERRUPTED_NS (60 * NS_PER_S)

/* Before the start there are no steps, and while the job stops they no longer matter to the notice.
 */
static bool notice_waits(const struct node *node)
{
    return node->gen.notice_wants_steps && node->state == NODE_RUNNING;
}

/* A failure is reported after the steps, and after a notice that waits for them. While the job
 * stops it does not wait: the chief may leave once this node is gone. */
static bool fault_waits(const struct node *node)
{
    return (node->gen.fault_wants_steps && node->state <= NODE_RUNNING) || notice_waits(node);
}

static enum peer_life life_of(const struct node *node)
{
    if (node->state >= NODE_LEAVING)
        return LIFE_GONE;
    if (node->gen.fault.kind != FAULT_NONE)
        return fault_waits(node) ? LIFE_RUNNING : LIFE_FAILED;
    if (node->state == NODE_WAITING)
        return LIFE_WAITING;
    /* A pending notice and the last messages of attached processes are reported before the end. */
    bool has_ended = node_commands_have_ended(node);
    if (!has_ended || node->gen.notice_wants_steps || node_is_settling(node))
        return node_is_over(node) ? LIFE_DONE : LIFE_RUNNING;
    return node_is_finished(node) ? LIFE_FINISHED : LIFE_ENDED;
}

static void fill_notice(const struct node *node, struct peer_status *status)
{
    const struct grace *g = &node->grace;
    status->checkpoint_asked = node->checkpoint_asked;
    status->stop_asked = node->stop_asked;
    status->has_notice = g->is_live && !notice_waits(node);
    status->knows_notice = node->notice.is_live && !node->gen.notice_wants_steps;
    if (!status->has_notice)
        return;
    const struct grace_notice *n = grace_first(g);
    status->notice_left_ns = n->deadline - node->out->now;
    status->notice_lead_ns = n->lead;
    status->notice_is_guess = n->is_guess;
    status->notice_has_signal = grace_has_signal(g);
    status->notice_version = g->version;
    status->notice_hurry = g->hurry;
    status->notice = n->label;
}

static void fill_fault(const struct node *node, struct peer_cause *cause)
{
    const struct node_fault *f = &node->gen.fault;
    if (f->kind == FAULT_NONE || fault_waits(node))
        return;
    int64_t at = node_counts_from(f);
    node_describe_fault(node, cause);
    uplink_clock(&node->uplink, at, &cause->at_ns, &cause->error_ns);
    cause->ago_ns = node->out->now - at;
}

/* No process has attached, and all commands have returned by themselves. After a signal from
 * outside this is unknown, because the signal may have reached them, too. */
static bool have_returned(const struct node *node, uint8_t life)
{
    bool has_ended = life == LIFE_ENDED || life == LIFE_FINISHED;
    return has_ended && node->gen.ranks.n == 0 && !grace_has_signal(&node->grace);
}

static void fill_declared(const struct ranks *ranks, struct peer_status *status)
{
    for (int i = 0; i < ranks->n; i++) {
        const struct member *m = &ranks->members[i];
        uint32_t *lowest = &status->need.declares[m->needs], rank = (uint32_t)m->rank + 1;
        *lowest = *lowest && *lowest < rank ? *lowest : rank;
    }
}

static void fill_ranks(const struct node *node, struct peer_status *status)
{
    const struct ranks *r = &node->gen.ranks;
    struct ranks_steps steps = ranks_steps_of(r);
    status->expected = r->expected == RANKS_UNKNOWN ? PEERMSG_UNKNOWN : (uint16_t)r->expected;
    status->attached = (uint16_t)r->n;
    status->highest = steps.highest;
    status->lowest = steps.lowest;
    status->stepped = steps.have_stepped;
    status->loading_ns = ranks_longest_loading(r);
    status->done = have_returned(node, status->life);
    fill_declared(r, status);
    for (int i = 0; i < r->n; i++) {
        status->done += node_rank_is_done(node, &r->members[i]);
        status->live += !r->members[i].is_ended;
    }
    status->first_step = r->stride.offset;
    status->stride = r->stride.period;
    status->last_step = steps.last;
    status->world_size = (uint32_t)r->world_size;
    if (!node->gen.has_roster && ranks_are_complete(r) &&
        !ranks_roster(r, status->roster, sizeof status->roster))
        str_copy(status->roster, sizeof status->roster, "?");
}

/* A failure soon after an interrupt most likely comes from it; a later one has another cause. */
static bool is_interrupted(const struct node *node)
{
    int64_t at = node->state >= NODE_STOPPING ? node->gen.stopped_at : node->out->now;
    return node->interrupted_at && at - node->interrupted_at < INTERRUPTED_NS;
}

void node_flush(struct node *node)
{
    if (!node->is_dirty)
        return;
    node->is_dirty = false;
    if (node->told_state != node_stands(node)) {
        node->told_state = node_stands(node);
        out_simple(node->out, ACT_STATE);
    }
    struct peermsg msg = {.type = PEERMSG_STATUS,
                          .stamp = {.round = node->gen.round.id, .ballot = node->gen.round.ballot}};
    msg.status.life = (uint8_t)life_of(node);
    fill_ranks(node, &msg.status);
    /* A rank that is still attached then is held by a process that trains nothing. */
    round_status(&node->gen.round, !node_is_finished(node), &msg.status);
    fill_notice(node, &msg.status);
    fill_fault(node, &msg.cause);
    msg.status.interrupted_by = is_interrupted(node) ? node->interrupted_by : 0;
    msg.status.interrupted = msg.status.interrupted_by || node->stopped_by[0];
    msg.status.left = node->state >= NODE_LEAVING && node->gen.has_given_up;
    msg.status.end_ns = node->gen.end_ns;
    msg.status.end_cut = node->gen.end_cut;
    msg.status.dir = (uint8_t)node->dir;
    msg.status.checking = node->is_checking;
    msg.status.link = node->link;
    msg.status.paths = (uint8_t)node->gen.paths;
    node_fill_motion(node, &msg.status);
    if (msg.status.life == LIFE_DONE)
        node_name_those_who_stay(node, &msg.status.watch);
    msg.status.own = node->gen.own = slowness_view(&node->gen.ranks, &node->gen.own);
    uplink_send_status(&node->uplink, &msg);
}
