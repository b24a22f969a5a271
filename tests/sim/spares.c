/* SPDX-License-Identifier: Apache-2.0
 * Spares: the schedules, the supervisors that stand by, are called and come back, and the checks.
 * See sim.h.
 *
 * A spare has a host of its own. When it takes a place, its host gets a core, and is a claimant: it
 * says that it is the node. So does any other new supervisor of a node. Node 0 admits one of them,
 * which moves to the host of the node. The others stand by.
 */
#include "sim.h"

#include "core/common/verdict.h"

#include <stdlib.h>
#include <string.h>

#define MS NS_PER_MS
#define S  NS_PER_S

/* As in fill_params(). */
#define TIMEOUT (15 * S)
/* So long node 0 waits for a node that does not join before it calls a spare. */
#define PATIENCE (6 * S)

/* --- the schedule --- */

static void draw_spare_fault(struct schedule *s, int spare, struct rng *r)
{
    static const enum fault_kind kinds[] = {DO_KILL_NODE, DO_BREAK, DO_PARTITION,
                                            DO_NOTICE,    DO_TERM,  DO_PAUSE};
    s->faults[s->nfaults++] =
        (struct fault){.kind = kinds[rng_below(r, ARRAY_LEN(kinds))],
                       .at = rng_time(r, S, rng_chance(r, 500) ? 10 * S : 60 * S),
                       .node = s->nnodes + spare,
                       .length = rng_time(r, S, 40 * S)};
}

/* Some nodes never begin, others at about the time when a spare is called for them. */
static void draw_missing(struct schedule *s)
{
    struct rng r = {s->seed * UINT64_C(0x9e3779b97f4a7c15) + 131};
    if (!rng_chance(&r, 400))
        return;
    for (int i = 1; i < s->nnodes; i++)
        if (rng_chance(&r, 600))
            s->begins_at[i] =
                rng_chance(&r, 400) ? -1 : rng_time(&r, rng_chance(&r, 500) ? 5 * S : MS, 14 * S);
}

/* From a generator of its own. By this constant no kept seed has spares. */
void spares_draw(struct schedule *s)
{
    struct rng r = {s->seed * UINT64_C(0x9e3779b97f4a7c15) + 28};
    if (!s->replace_wait || !rng_chance(&r, 400))
        return;
    s->spares = 1 + (int)rng_below(&r, MAX_SPARES);
    for (int i = 0; i < s->spares; i++) {
        s->spare_begins[i] = rng_chance(&r, 300) ? rng_time(&r, MS, 20 * S) : 0;
        s->dies_called[i] = rng_chance(&r, 250) ? rng_time(&r, 0, S) : -1;
        if (rng_chance(&r, 350) && s->nfaults < MAX_FAULTS)
            draw_spare_fault(s, i, &r);
    }
    /* Some are about as fast as a spare. */
    for (int i = 0; i < MAX_GHOSTS; i++)
        if (rng_chance(&r, 500))
            s->comes_after[i] = rng_time(&r, MS, 3 * S);
    draw_missing(s);
}

void spares_print(const struct schedule *s, FILE *out)
{
    for (int i = 0; i < s->spares; i++) {
        fprintf(out, "  spare %d begins at %.1f s", s->nnodes + i, (double)s->spare_begins[i] / S);
        if (s->dies_called[i] >= 0)
            fprintf(out, ", and dies %.3f s after it is called", (double)s->dies_called[i] / S);
        fputc('\n', out);
    }
    for (int i = 1; i < s->nnodes && s->spares; i++)
        if (s->begins_at[i])
            fprintf(out, "  node %d begins at %.3f s (-0: never)\n", i,
                    (double)s->begins_at[i] / S);
}

/* --- the supervisors --- */

void spares_begin(struct world *w)
{
    for (int i = 0; i < w->s.spares; i++) {
        int host = w->nhosts++;
        world_make_spare(w, host, host);
        w->hosts[host].is_alive = false;
        w->hosts[host].is_to_come = true;
        world_at(w, (struct happening){
                        .at = w->s.spare_begins[i], .what = H_BEGIN, .arg = (uint64_t)host});
    }
}

bool spares_has(const struct world *w, int host)
{
    return w->hosts[host].spare || w->hosts[host].is_claimant;
}

bool spares_begin_late(struct world *w, int node)
{
    if (w->hosts[node].is_to_come)
        return false;
    if (w->nhosts < MAX_HOSTS)
        spares_claim(w, w->nhosts, node);
    return true;
}

void spares_claim(struct world *w, int host, int node)
{
    trace(w, "--- node %d: another supervisor is started", node);
    w->nhosts++;
    world_make_replacement(w, host, node);
    w->hosts[host].is_claimant = true;
    world_event(w, host, (struct event){.type = EV_START});
}

/* Its last messages still arrive, and nothing that was on its way to it. */
static void keep_last_words(struct world *w, int host, uint32_t life)
{
    struct happening *list = (struct happening *)w->queue.items;
    for (size_t i = 0; i < w->queue.n; i++) {
        bool is_word = list[i].what == H_TO_CHIEF || list[i].what == H_DOWN_CHIEF;
        if (list[i].node == host && list[i].life == life && is_word)
            list[i].life = w->hosts[host].life;
    }
}

/* The supervisor's process goes on: as a spare, or, with `node`, as one that says it is that. */
static void become(struct world *w, int host, int node)
{
    struct host old = w->hosts[host];
    struct host *now = &w->hosts[host];
    if (node)
        world_make_replacement(w, host, node);
    else
        world_make_spare(w, host, old.own_number);
    core_free(old.core);
    spare_free(old.spare);
    now->own_number = old.own_number;
    now->is_claimant = node > 0;
    now->closed = old.closed;
    now->line_epoch = old.line_epoch;
    now->fifo_up = old.fifo_up;
    now->cut_until = old.cut_until;
    now->paused_until = old.paused_until;
    now->clock = old.clock;
    keep_last_words(w, host, old.life);
    world_event(w, host, (struct event){.type = EV_START});
}

void spares_take(struct world *w, int host, const struct action *a)
{
    trace(w, "host %d: takes the place of node %d", host, a->place);
    w->hosts[host].takes = a->place;
}

void spares_settle(struct world *w, int host)
{
    int place = w->hosts[host].takes, first = host - w->s.nnodes;
    if (!place || w->hosts[host].has_exited)
        return;
    become(w, host, place);
    if (first < w->s.spares && w->s.dies_called[first] >= 0)
        world_at(w, (struct happening){
                        .at = w->now + w->s.dies_called[first], .what = H_KILL_NODE, .node = host});
}

bool spares_heard(struct world *w, int host, const struct peermsg *msg)
{
    if (msg->type != PEERMSG_STANDBY || w->hosts[host].spare)
        return false;
    if (w->hosts[host].was_welcome)
        fail(w, "node %d is to stand by, and was admitted", w->hosts[host].node);
    else if (w->hosts[host].is_alive && !w->hosts[host].has_exited)
        become(w, host, 0);
    return true;
}

/* --- the checks --- */

static void check_standby(struct world *w, int line, int place)
{
    struct host *host = &w->hosts[line];
    bool is_other = host->called_to && host->called_to != place;
    if (!spares_has(w, line) && host->was_welcome) /* else it knows of no attempt */
        fail(w, "node 0 lets a former supervisor of node %d stand by", host->node);
    if (place > 0 && is_other && w->vacant_since[host->called_to])
        fail(w, "a spare is called to node %d, and still to node %d", place, host->called_to);
    if (place > 0 && host->called_to != place)
        w->called_at[place] = w->now;
    if (host->spare && !host->answered_at)
        host->answered_at = w->now;
    host->called_to = place > 0 ? place : 0;
}

/* A node that comes late may find its place vacant again: the spare that had it was not healthy. */
static bool may_take_place(const struct host *host)
{
    return host->is_claimant || (!host->spare && !host->was_welcome);
}

int spares_sent(struct world *w, int line, const struct peermsg *msg)
{
    if (msg->type == PEERMSG_STANDBY && !msg->standby.is_over)
        check_standby(w, line, msg->standby.place);
    if (msg->type != PEERMSG_WELCOME || line < w->s.nnodes)
        return line;
    int node = w->hosts[line].node;
    if (!may_take_place(&w->hosts[line])) {
        fail(w, "node 0 admits a spare, or a supervisor that was replaced, as node %d", node);
        return line;
    }
    replace_take_seat(w, line);
    return node;
}

/* Each call to this place is over, also one that its spare has not got yet. */
static void note_taken(struct world *w, int node)
{
    w->vacant_since[node] = 0;
    for (int i = 0; i < w->nhosts; i++)
        if (w->hosts[i].called_to == node)
            w->hosts[i].called_to = 0;
}

static void note_vacant(struct world *w, int node)
{
    w->vacant_since[node] = w->called_at[node] = w->now;
    w->nvacated++;
}

/* "spare 4 (...) is called to the place of node 1, which has not joined" */
static void note_missing(struct world *w, const char *text)
{
    static const char before[] = ") is called to the place of node ";
    const char *at = strstr(text, before);
    int node = at ? atoi(at + strlen(before)) : 0;
    if (!at || !strstr(at, ", which has not joined") || node <= 0 || node >= w->s.nnodes)
        return;
    if (!w->out_since[node] || w->now + MS < w->out_since[node] + PATIENCE)
        fail(w, "a spare is called to node %d, which may still join", node);
    note_vacant(w, node);
}

/* "node 1 (...) is lost: the job waits ...", "node 1 (...) is replaced by ...", "the place of node
 * 1, which had not joined, is taken by ..." */
void spares_logged(struct world *w, const char *text)
{
    static const char place[] = "the place of node ";
    if (str_starts(text, place))
        note_taken(w, atoi(text + strlen(place)) % MAX_NODES);
    note_missing(w, text);
    int node = str_starts(text, "node ") ? atoi(text + strlen("node ")) : 0;
    if (node <= 0 || node >= w->s.nnodes)
        return;
    if (strstr(text, ") is lost: the job waits "))
        note_vacant(w, node);
    if (!strstr(text, ") is replaced by "))
        return;
    if (!w->vacant_since[node])
        fail(w, "the place of node %d is given away twice", node);
    note_taken(w, node);
}

/* Nothing disturbs this host, or its line. */
static bool is_undisturbed(const struct world *w, int host)
{
    static const unsigned kinds =
        1U << DO_BREAK | 1U << DO_PARTITION | 1U << DO_ONE_WAY | 1U << DO_PAUSE | 1U << DO_FREEZE;
    const struct schedule *s = &w->s;
    for (int i = 0; i < s->nfaults; i++) {
        bool is_here = s->faults[i].node == 0 || s->faults[i].node == host;
        if (kinds & 1U << s->faults[i].kind && (is_here || s->faults[i].kind == DO_FREEZE))
            return false;
    }
    return !s->drop && w->hosts[host].is_alive && !w->hosts[host].has_exited;
}

static bool is_standing(const struct world *w, int host)
{
    struct spare_report report;
    if (!w->hosts[host].spare || !is_undisturbed(w, host))
        return false;
    spare_report(w->hosts[host].spare, &report);
    return report.stands_by;
}

/* Before the start: since when node 0 lacks each node. */
static void note_out(struct world *w)
{
    struct core_peer_report peers[MAX_NODES];
    int n = core_peers(w->hosts[0].core, peers, MAX_NODES);
    for (int i = 1; i < n; i++) {
        bool is_out = str_is(peers[i].state, "missing") || str_is(peers[i].state, "lost");
        if (!is_out)
            w->out_since[i] = 0;
        else if (!w->out_since[i])
            w->out_since[i] = w->now + 1;
    }
}

/* A spare that was never called is called for a node that does not join, if it is alone. */
static void check_missing(struct world *w)
{
    bool may_wait = w->s.replace_max >= MAX_GHOSTS + MAX_NODES && !w->first_notice_at &&
                    !w->was_stopped && is_undisturbed(w, 0);
    for (int i = w->s.nnodes; i < w->nhosts; i++)
        for (int n = 1; n < w->s.nnodes && may_wait; n++) {
            int64_t since = clock_max(w->called_at[n], w->hosts[i].answered_at);
            since = clock_max(since, w->out_since[n]);
            if (w->out_since[n] && is_standing(w, i) && !w->hosts[i].called_to &&
                w->now > since + PATIENCE + TIMEOUT + 2 * S + standstill(w))
                fail(w, "spare %d stands by, and node %d does not join", i, n);
        }
}

/* As long as a spare stands by that was never called, no place waits for longer than a call may
 * take. */
void spares_check_wait(struct world *w)
{
    struct core_report r;
    if (!w->s.spares)
        return;
    core_report(w->hosts[0].core, &r);
    if (r.state == NODE_WAITING && r.generation == 0) {
        note_out(w);
        check_missing(w);
    }
    if (!r.wait.since || r.wait.nvacant == 0 || r.state != NODE_RESTARTING)
        return;
    for (int i = w->s.nnodes; i < w->nhosts; i++) {
        if (!is_standing(w, i) || w->hosts[i].called_to)
            continue;
        for (int n = 1; n < w->s.nnodes; n++) {
            int64_t since = clock_max(w->called_at[n], w->hosts[i].answered_at);
            if (w->vacant_since[n] && w->now > since + TIMEOUT + 2 * S + standstill(w))
                fail(w, "spare %d stands by, and the place of node %d waits", i, n);
        }
    }
}

void spares_check_end(struct world *w)
{
    for (int i = w->s.nnodes; i < w->nhosts; i++)
        if (is_standing(w, i) && w->hosts[i].is_up)
            w->hosts[i].owes_code = true;
}

/* Another supervisor with its number stands by, or did. */
static bool has_twin(const struct world *w, int host)
{
    for (int i = w->s.nnodes; i < w->nhosts; i++)
        if (i != host && w->hosts[i].own_number == w->hosts[host].own_number)
            return true;
    return false;
}

/* How long a spare may take to notice that node 0 is gone: for the first connection it waits
 * longest. */
static void check_outlived(struct world *w, int host)
{
    const struct host *chief = &w->hosts[0];
    int64_t gone_at = chief->has_exited ? chief->exit_at : chief->died_at;
    if (gone_at && w->now > gone_at + 65 * S + standstill(w) && !w->s.spare_begins[0] &&
        !w->s.spare_begins[1])
        fail(w, "spare %d outlives node 0 by %lld s", host, (long long)((w->now - gone_at) / S));
}

/* A claimant may end for any reason, but has not trained. */
void spares_exit(struct world *w, int host, const struct action *a)
{
    const struct host *spare = &w->hosts[host], *chief = &w->hosts[0];
    if (!spare->spare || has_twin(w, host))
        return;
    if (check_holds_notice(spare)) {
        if (a->exit.code != 42)
            fail(w, "spare %d has a notice, and exits with %d", host, a->exit.code);
        return;
    }
    check_outlived(w, host);
    int code = chief->outcome == OUTCOME_UNHEALTHY ? 42 : chief->code; /* 45 is node 0's own */
    if (spare->owes_code && a->exit.code != code)
        fail(w, "spare %d exits with %d (%s), node 0 with %d (%s)", host, a->exit.code,
             a->exit.text, chief->code, chief->why);
    if (!chief->has_exited && chief->is_alive && is_undisturbed(w, host))
        fail(w, "spare %d exits with %d, and node 0 does not: %s", host, a->exit.code,
             a->exit.text);
}
