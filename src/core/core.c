/* SPDX-License-Identifier: Apache-2.0
 * See core.h. Joins node and chief: events to both, messages between them, timers.
 */
#include "core/core.h"

#include "base/clock.h"
#include "base/str.h"
#include "core/chief/chief.h"
#include "core/common/slowness.h"
#include "core/common/verdict.h"
#include "core/node/node_state.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct core {
    struct core_params params;
    struct out out;
    struct node node;
    struct chief chief; /* on node 0 */
    struct peer *peers; /* the chief's */
    bool is_chief, is_busy, has_told_broken;
    int64_t wake_at;
};

struct core *core_new(const struct core_params *params, core_act_fn *act, void *shell)
{
    struct core *core = calloc(1, sizeof *core);
    if (!core)
        return NULL;
    core->params = *params;
    core->out.params = &core->params;
    core->out.act = act;
    core->out.shell = shell;
    core->is_chief = params->node_rank == 0;
    core->wake_at = CLOCK_NEVER;
    node_init(&core->node, &core->params, &core->out);
    if (!core->is_chief)
        return core;
    core->peers = malloc((size_t)params->nnodes * sizeof core->peers[0]);
    if (params->spares > 0)
        core->chief.spares =
            calloc((size_t)params->nnodes + (size_t)params->spares, sizeof core->chief.spares[0]);
    if (!core->peers || (params->spares > 0 && !core->chief.spares)) {
        core_free(core);
        return NULL;
    }
    chief_init(&core->chief, &core->params, core->peers, &core->out);
    return core;
}

void core_free(struct core *core)
{
    if (!core)
        return;
    free(core->chief.spares);
    free(core->peers);
    free(core);
}

/* A timer that comes later than the limit means that pchrun, or the machine, stood still. */
static void forgive_absence(struct core *core)
{
    int64_t now = core->out.now;
    int64_t limit = clock_min(core->params.heartbeat_timeout_ns, core->params.reconnect_ns) / 4;
    if (core->wake_at == CLOCK_NEVER || now - core->wake_at <= limit)
        return;
    int64_t away = now - core->wake_at;
    char text[32];
    out_log(&core->out, LOG_WARN, "time",
            "pchrun did not run for %s: no rank or node is blamed for that time",
            str_duration(away / NS_PER_MS * NS_PER_MS, text, sizeof text));
    node_forgive(&core->node, away);
    if (core->is_chief)
        chief_forgive(&core->chief, away);
}

/* A promise is broken, so no decision of this core can be trusted. */
static void end_for_broken(struct core *core)
{
    const struct node *node = &core->node;
    const struct round *r = &node->gen.round;
    struct ranks_steps steps = ranks_steps_of(&node->gen.ranks);
    if (!core->out.broken || core->has_told_broken)
        return;
    core->has_told_broken = true;
    out_log(&core->out, LOG_ERROR, "bug",
            "%s, attempt %u, generation %u, round %u, ballot %u, %s, step %llu, gate %#llx, "
            "ranks %d of %d at %llu to %llu, commit %llu, round %u of the job",
            node_state_name(node_stands(node)), node->uplink.attempt, node->generation, r->id,
            r->ballot, peermsg_phase_name(r->phase), ull(r->save_step), ull(r->word),
            node->gen.ranks.n, node->gen.ranks.expected, ull(steps.lowest), ull(steps.highest),
            ull(node->commit_step), core->is_chief ? core->chief.gen.round : 0);
    node_break(&core->node, core->out.broken);
}

/* Node and chief answer each other until neither has a message left. */
static void settle(struct core *core)
{
    enum { ROUNDS_MAX = 100 };
    struct peermsg msg;
    bool is_quiet = false;
    for (int i = 0; !is_quiet; i++) {
        is_quiet = true;
        if (i == ROUNDS_MAX) {
            out_log(&core->out, LOG_ERROR, "bug",
                    "this pchrun sends itself messages without end; please report it at %s",
                    PCHRUN_BUGS);
            return;
        }
        end_for_broken(core);
        node_flush(&core->node);
        if (core->is_chief) {
            chief_decide(&core->chief);
            chief_report_wait(&core->chief, &core->node.gen.wait);
        }
        while (out_next(&core->out, &msg)) {
            is_quiet = false;
            if (msg.type == PEERMSG_HELLO || msg.type == PEERMSG_STATUS)
                chief_message(&core->chief, CONN_SELF, &msg, NULL);
            else
                node_message(&core->node, &msg);
        }
    }
}

static void dispatch(struct core *core, const struct event *event)
{
    bool is_for_chief = core->is_chief && event->peer.conn != CONN_CHIEF;
    if (event->type == EV_PEER_MESSAGE && is_for_chief) {
        chief_message(&core->chief, event->peer.conn, event->peer.msg, event->peer.from);
    } else if (event->type == EV_PEER_MESSAGE) {
        node_message(&core->node, event->peer.msg);
    } else {
        if (core->is_chief)
            chief_event(&core->chief, event);
        node_event(&core->node, event);
    }
}

void core_handle(struct core *core, const struct event *event)
{
    assert(!core->is_busy);
    assert(event->now >= core->out.now);
    core->is_busy = true;
    core->out.now = event->now;
    core->out.wall = event->wall;
    forgive_absence(core);
    dispatch(core, event);
    settle(core);
    node_timers(&core->node);
    settle(core);
    core->wake_at = node_wake_at(&core->node);
    if (core->is_chief)
        core->wake_at = clock_min(core->wake_at, chief_wake_at(&core->chief));
    core->is_busy = false;
}

int64_t core_wake_at(const struct core *core)
{
    return core->wake_at;
}

static void report_round(const struct core *core, struct core_report *ret)
{
    const struct round *r = &core->node.gen.round;
    ret->round.id = r->id;
    ret->round.phase = peermsg_phase_name(r->phase);
    ret->round.save_step = r->save_step;
    ret->round.opened_at = r->opened_at;
    ret->round.decided_at = r->decided_at;
    ret->round.saved_at = r->saved_at;
    ret->round.committed_at = r->phase == PHASE_COMMITTED ? r->closed_at : 0;
}

/* The job's notice; if the chief has sent none, this node's own notice. */
static void report_notice(const struct core *core, struct core_report *ret)
{
    const struct grace *g = &core->node.grace;
    if (core->node.notice.is_live)
        ret->notice = core->node.notice;
    else if (g->is_live)
        ret->notice = (struct core_notice){.is_live = true,
                                           .node_rank = core->params.node_rank,
                                           .deadline = grace_deadline(g),
                                           .label = grace_first(g)->label};
    ret->notice.at = g->is_live ? g->at : 0;
}

/* Only node 0 has a view of all nodes. */
static void report_job(const struct core *core, struct core_report *ret)
{
    if (!core->is_chief)
        return;
    uint64_t told = chief_last_step(&core->chief);
    ret->job.last_step = told > ret->last_step ? told : ret->last_step;
    ret->job.final_step = chief_final_step(&core->chief);
    if (chief_longest_loading(&core->chief) > ret->loading_ns)
        ret->loading_ns = chief_longest_loading(&core->chief);
    ret->job.has_ranks = chief_has_ranks(&core->chief);
    ret->job.save_every_ns = chief_saves_every(&core->chief);
    ret->job.end_ns = chief_took_to_end(&core->chief, &ret->job.end_cut);
    ret->job.hang = *chief_hang(&core->chief);
    ret->job.network = core->chief.network;
    ret->uncommitted_step = chief_uncommitted(&core->chief);
    str_copy(ret->without, sizeof ret->without, core->chief.without);
}

/* A program that neither attached nor ever committed may resume by itself. A drill is no attempt.
 * If a later attempt has taken the job over, the commits belong to that. */
static bool tells_next(const struct core *core, const struct core_report *report)
{
    bool is_known = report->commit_step > 0 || report->job.has_ranks;
    return core->is_chief && is_known && verdict_may_resume(report->outcome) &&
           report->first_cause.fault != FAULT_REPLACED && !core->params.is_drill;
}

void core_report(const struct core *core, struct core_report *ret)
{
    const struct node *node = &core->node;
    memset(ret, 0, sizeof *ret);
    ret->state = node_stands(node);
    ret->attempt = node->uplink.attempt;
    ret->generation = node->uplink.generation;
    ret->commit_step = node->commit_step;
    ret->commit_at = node->commit_at;
    ret->resumed_step = node->resumed_step;
    ret->last_step = ranks_steps_of(&node->gen.ranks).highest;
    ret->loading_ns = ranks_longest_loading(&node->gen.ranks);
    ret->ranks_expected = node->gen.ranks.expected;
    if (!node->gen.end.restarts) { /* with restarts, only the generation ends, not the job */
        ret->outcome = node->gen.end.outcome;
        ret->exit_code = node->gen.end.exit_code;
        str_copy(ret->why, sizeof ret->why, node->gen.end.why);
    }
    if (node->gen.end.restarts)
        ret->restarts_after = node->gen.end.outcome;
    ret->stops_given_up = node->stops_given_up;
    str_copy(ret->why_given_up, sizeof ret->why_given_up, node->why_given_up);
    ret->wait = node->gen.wait;
    report_round(core, ret);
    report_notice(core, ret);
    report_job(core, ret);
    node_cause(node, &ret->first_cause);
    ret->tells_next = tells_next(core, ret);
    ret->is_cause_here =
        ret->first_cause.fault != FAULT_NONE && ret->first_cause.node == core->params.node_rank;
}

static bool is_listed(const struct core_rank_report *list, int n, int rank, int pid)
{
    for (int i = 0; i < n; i++)
        if (list[i].rank == rank || list[i].pid == pid)
            return true;
    return false;
}

/* A departed rank's page is not read; it had finished at least the step it saved. */
static uint64_t last_step_of(const struct member *m)
{
    if (m->slot >= 0)
        return m->stand.step;
    return m->step > m->saved_step ? m->step : m->saved_step;
}

static struct core_rank_report report_of(const struct core *core, const struct peer_cause *cause,
                                         const struct member *m)
{
    return (struct core_rank_report){.slot = m->slot,
                                     .rank = m->rank,
                                     .local_rank = m->local_rank,
                                     .pid = m->pid,
                                     .is_attached = m->slot >= 0,
                                     .is_done = m->is_done,
                                     .is_counting = m->is_counter,
                                     .is_victim = node_is_victim(&core->node, m, cause),
                                     .first_step = m->first_step,
                                     .saved_step = m->saved_step,
                                     .step = last_step_of(m),
                                     .phase = m->stand.phase,
                                     .since = m->stand.since,
                                     .own_ns = m->slot >= 0 ? m->pace.own_ns : 0,
                                     .slow = slowness_of(m, core->node.gen.own_ns),
                                     .loaded_ns = m->slot >= 0 ? m->loaded_ns : ranks_loading(m)};
}

/* If each command is one rank, commands that have not attached are listed, too. Only with
 * SAVE_ATTACH must they attach. */
static int add_commands(const struct core *core, const struct peer_cause *cause,
                        struct core_rank_report *ret, int n, int max)
{
    const struct core_params *p = &core->params;
    for (int i = 0; p->expected_procs == p->children && i < p->children && n < max; i++) {
        const struct member m = {.slot = -1,
                                 .pid = core->node.gen.children[i].pid,
                                 .rank = p->node_rank * p->children + i,
                                 .local_rank = i};
        if (m.pid == 0 || is_listed(ret, n, m.rank, m.pid))
            continue;
        ret[n] = report_of(core, cause, &m);
        if (p->save_mode == SAVE_ATTACH)
            ret[n].start_until = watchdog_start_until(&core->node.watchdog);
        n++;
    }
    return n;
}

int core_ranks(const struct core *core, struct core_rank_report *ret, int max)
{
    const struct ranks *ranks = &core->node.gen.ranks;
    const struct member *m;
    int n = 0;
    struct peer_cause cause;
    node_cause(&core->node, &cause);
    for (int i = 0; n < max && (m = ranks_at(ranks, i)); i++)
        if (!m->is_counter || !is_listed(ret, ranks->n, m->rank, m->pid))
            ret[n++] = report_of(core, &cause, m);
    return add_commands(core, &cause, ret, n, max);
}

int core_peers(const struct core *core, struct core_peer_report *ret, int max)
{
    int n = core->is_chief ? core->params.nnodes : 0;
    n = n < max ? n : max;
    for (int i = 0; i < n; i++)
        chief_report_peer(&core->chief, i, &ret[i]);
    return n;
}

int core_spares(const struct core *core, struct core_spare_report *ret, int max)
{
    return core->is_chief ? chief_report_spares(&core->chief, ret, max) : 0;
}
