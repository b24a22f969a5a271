/* SPDX-License-Identifier: Apache-2.0
 * Whose saves make a checkpoint (save.needs): drawn for each schedule, and checked at each commit.
 * See sim.h.
 *
 * A commit names the rank whose save is the whole checkpoint, or none: then every rank has saved.
 * Processes and nodes are killed within a round, since few of the other faults come there.
 */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

#define MS NS_PER_MS
#define S  NS_PER_S

/* --- draw --- */

static enum save_needs any_needs(struct rng *r)
{
    return (enum save_needs)rng_below(r, PEERMSG_NEEDS);
}

static void draw_declarations(struct schedule *s, struct rng *r)
{
    uint64_t n = (uint64_t)(s->nnodes * s->nprocs);
    enum save_needs common = any_needs(r);
    for (uint64_t i = 0; i < n; i++)
        s->declares[i] = s->declares_again[i] = common;
    if (rng_chance(r, 150)) {
        uint64_t other = rng_below(r, n);
        s->declares[other] = s->declares_again[other] = any_needs(r);
    }
    if (!rng_chance(r, 350) || schedule_has_rule(s))
        return;
    /* Between two rounds: the second one needs something else. */
    uint64_t who = rng_below(r, n);
    s->declares_again[who] = any_needs(r);
    s->reattaches[who] = true;
}

static void draw_dirs(struct schedule *s, struct rng *r)
{
    s->shares_saves = rng_chance(r, 900);
    s->sees_dirs_late = rng_chance(r, 250);
    for (int i = 0; i < s->nnodes; i++) {
        s->has_other_dir[i] = rng_chance(r, 60);
        s->paths[i] = rng_chance(r, 930) ? PATHS_SHARED : PATHS_OTHER;
    }
}

static void draw_kill(struct schedule *s, struct rng *r)
{
    if (schedule_has_rule(s) || !rng_chance(r, 700))
        return;
    s->is_regular = false;
    s->kill_round = 1 + (int)rng_below(r, rng_chance(r, 500) ? 1 : 3);
    s->kills_node = s->nnodes > 1 && rng_chance(r, 500);
    s->has_loss = s->has_loss || s->kills_node;
    s->kill_who = s->kills_node ? 1 + (int)rng_below(r, (uint64_t)s->nnodes - 1)
                                : (int)rng_below(r, (uint64_t)(s->nnodes * s->nprocs));
    s->kills_begun = rng_chance(r, 600);
    s->kill_after = rng_time(r, 0, rng_chance(r, 500) ? 20 * MS : 2 * S);
    if (!s->every_steps && !s->every_ns)
        s->every_steps = 5 + rng_below(r, 20) + (s->last_step - s->first_step) / 50;
    if (rng_chance(r, 600))
        s->nfaults = 0;
}

/* Drawn apart, so that all else stays the same. By this constant, the seeds at which mutants.py
 * begins for the sake of one schedule (BEGIN_AT) keep it. */
void needs_draw(struct schedule *s)
{
    static const enum save_needs settings[] = {NEEDS_AUTO,  NEEDS_AUTO, NEEDS_AUTO, NEEDS_RANK0,
                                               NEEDS_RANK0, NEEDS_ANY,  NEEDS_ANY,  NEEDS_ALL};
    struct rng r = {s->seed * UINT64_C(0xa0761d6478bd642f) + 18198299};
    if (!rng_chance(&r, 250) || !s->attaches || s->replace_wait)
        return;
    s->draws_needs = true;
    s->needs = settings[rng_below(&r, ARRAY_LEN(settings))];
    draw_declarations(s, &r);
    draw_dirs(s, &r);
    draw_kill(s, &r);
}

void needs_print(const struct schedule *s, FILE *out)
{
    static const char *const names[] = {"all", "rank0", "any", "auto"};
    if (!s->draws_needs)
        return;
    fprintf(out, "  save.needs %s%s%s\n", names[s->needs],
            s->shares_saves ? "" : ", no common directory",
            s->sees_dirs_late ? ", the directory is seen in a round" : "");
    for (int i = 0; i < s->nnodes * s->nprocs; i++)
        fprintf(out, "  process %d declares %s, then %s\n", i, names[s->declares[i]],
                names[s->declares_again[i]]);
    for (int i = 0; i < s->nnodes; i++)
        fprintf(out, "  node %d%s%s\n", i, s->has_other_dir[i] ? ", another directory" : "",
                s->paths[i] == PATHS_SHARED ? "" : ", saves elsewhere");
    if (s->kill_round)
        fprintf(out, "  %s %d is killed %.3f s after %s round %d\n",
                s->kills_node ? "node" : "process", s->kill_who, (double)s->kill_after / S,
                s->kills_begun ? "all have begun to save in" : "the decision of", s->kill_round);
}

uint32_t needs_flags(const struct world *w, const struct proc *p)
{
    static const uint32_t flags[] = {0, PROCMSG_FLAG_NEEDS_RANK0, PROCMSG_FLAG_NEEDS_ANY};
    bool is_again = p->reattached_at || p->generation > 0;
    return flags[is_again ? w->s.declares_again[p->index] : w->s.declares[p->index]];
}

/* --- what happens --- */

static enum save_needs needs_in(uint32_t flags)
{
    if (flags & PROCMSG_FLAG_NEEDS_RANK0)
        return NEEDS_RANK0;
    return flags & PROCMSG_FLAG_NEEDS_ANY ? NEEDS_ANY : NEEDS_ALL;
}

void needs_attached(struct world *w, struct proc *p, uint32_t flags)
{
    p->declared_before = p->declared;
    p->declared = needs_in(flags);
    p->declared_at = w->now;
}

static bool shares(const struct world *w)
{
    for (int i = 1; i < w->s.nnodes; i++)
        if (!w->s.shares_saves || !w->hosts[i].dir_seen_at || w->hosts[i].has_other_dir)
            return false;
    return true;
}

/* Node 0 may not know yet what a process has declared anew. */
static bool may_declare(const struct world *w, const struct proc *p, enum save_needs needs)
{
    int64_t unheard = 2 * w->s.delay_max + 20 * MS;
    bool is_news = w->s.drop || w->s.nfaults || w->now < p->declared_at + unheard;
    return p->declared == needs || (is_news && p->declared_before == needs);
}

static bool may_need(const struct world *w, enum save_needs needs)
{
    if (!shares(w))
        return false;
    if (w->s.needs != NEEDS_AUTO)
        return w->s.needs == needs;
    for (int i = 0; i < w->nall; i++)
        if (!may_declare(w, &w->procs[i], needs))
            return false;
    return true;
}

/* Node 0 must know what the round needs. */
static bool is_sure(const struct world *w, enum save_needs needs)
{
    for (int i = 0; i < w->nall; i++) {
        const struct proc *p = &w->procs[i];
        if (w->s.needs == NEEDS_AUTO && (p->declared != needs || p->reattached_at))
            return false;
    }
    for (int i = 0; i < w->s.nnodes; i++)
        if (w->s.nnodes > 1 &&
            (w->s.paths[i] != PATHS_SHARED ||
             (i > 0 && w->hosts[i].dir_seen_at + 2 * w->s.delay_max + 20 * MS > w->decided_at)))
            return false;
    return may_need(w, needs);
}

/* Nothing but the kill keeps the round from its commit. */
static bool is_quiet(const struct world *w)
{
    const struct schedule *s = &w->s;
    for (int i = 0; i < w->nall; i++)
        if (s->fails_to_save[i] || s->cut_at[i] || s->is_silent[i] || w->procs[i].hung_at ||
            s->save_time[i] > 8 * S || w->procs[i].page_step >= s->last_step)
            return false;
    return !s->nfaults && !s->drop && !s->slow_disk && !s->bad_disk && !s->is_replaced &&
           !s->patience && s->style == STYLE_SYNC && !w->first_notice_at && s->delay_max < S &&
           !s->own_every;
}

static bool spares(const struct world *w)
{
    if (is_sure(w, NEEDS_RANK0))
        return w->s.kills_node || w->s.kill_who != 0;
    return is_sure(w, NEEDS_ANY) && w->nall > 1;
}

static void kill_now(struct world *w, int64_t after, bool have_begun)
{
    const struct schedule *s = &w->s;
    w->has_killed = true;
    /* A rank that has saved waits 30 s for the others. */
    if (have_begun && w->now < w->decided_at + 15 * S && is_quiet(w) && spares(w))
        w->owed_needs = w->decided_step;
    world_at(w, (struct happening){.at = w->now + after,
                                   .what = s->kills_node ? H_KILL_NODE : H_KILL_PROC,
                                   .node = s->kills_node ? s->kill_who : s->kill_who / s->nprocs,
                                   .proc = s->kills_node ? 0 : s->kill_who});
}

static void show_dirs(struct world *w)
{
    for (int i = 1; i < w->s.nnodes; i++)
        if (w->hosts[i].seeks_dir) {
            w->hosts[i].seeks_dir = false;
            world_at(w, (struct happening){.at = w->now + (int64_t)(w->s.seed % 7) * MS,
                                           .what = H_DIR_SEEN,
                                           .node = i,
                                           .arg = w->s.has_other_dir[i]});
        }
}

void needs_decided(struct world *w, const char *text)
{
    unsigned long long step;
    if (!w->s.draws_needs || sscanf(text, "every rank saves step %llu", &step) != 1)
        return;
    w->decided_step = step;
    w->decided_at = w->now;
    w->ndecided++;
    for (int k = 0; k < PEERMSG_NEEDS; k++)
        w->may_need[k] = may_need(w, (enum save_needs)k);
    show_dirs(w);
    if (w->ndecided == w->s.kill_round && !w->s.kills_begun)
        kill_now(w, w->s.kill_after, false);
}

void needs_begun(struct world *w, struct proc *p, uint64_t step)
{
    p->begun_step = step;
    if (w->has_killed || !w->s.kills_begun || w->ndecided < w->s.kill_round || !w->s.kill_round)
        return;
    for (int i = 0; i < w->nall; i++)
        if (w->procs[i].begun_step != w->decided_step)
            return;
    kill_now(w, w->s.kill_after % (1 + schedule_longest(&w->s, w->s.save_time)), true);
}

/* --- check --- */

uint32_t needs_whole(const struct world *w, uint64_t step)
{
    size_t places = ARRAY_LEN(w->wholes);
    for (size_t i = 1; i <= places && i <= w->nwholes; i++)
        if (w->wholes[(w->nwholes - i) % places].step == step)
            return w->wholes[(w->nwholes - i) % places].whole;
    return 0;
}

/* Node 0 has declared the node lost. */
static bool is_lost(const struct world *w, int node)
{
    struct core_peer_report peers[MAX_NODES];
    int n = core_peers(w->hosts[0].core, peers, MAX_NODES);
    return node < n && str_is(peers[node].state, "lost");
}

/* Gone when the round was decided, as far as node 0 knew. */
static bool was_gone(const struct world *w, const struct proc *p)
{
    return p->reattached_at && w->decided_at < p->reattached_at + S + 2 * w->s.delay_max;
}

/* It did not end by itself: a process that said so may have trained to an earlier step. */
static bool is_gone(const struct world *w, const struct proc *p)
{
    if (!w->hosts[p->node].is_alive || is_lost(w, p->node))
        return true;
    return !p->is_connected && !p->is_done && !p->has_said_goodbye;
}

static bool is_seen_by_all(const struct world *w, int rank)
{
    return w->s.nnodes == 1 || w->s.paths[rank / w->s.nprocs] == PATHS_SHARED;
}

void needs_check_commit(struct world *w, uint64_t step, uint32_t whole)
{
    int rank = (int)whole - 1;
    if (step != w->decided_step || rank >= w->nall ||
        !(w->may_need[NEEDS_ANY] || (w->may_need[NEEDS_RANK0] && rank == 0))) {
        fail(w, "step %llu is committed as the save of rank %d, and every save was needed",
             ull(step), rank);
        return;
    }
    if (!is_durable(w, rank, step))
        fail(w, "step %llu is committed as the save of rank %d, which has not saved it", ull(step),
             rank);
    if (!is_seen_by_all(w, rank))
        fail(w, "step %llu is committed as the save of rank %d, which other nodes cannot see",
             ull(step), rank);
    for (int i = 0; i < w->nall; i++)
        if (w->procs[i].begun_step != step && !is_gone(w, &w->procs[i]) &&
            !was_gone(w, &w->procs[i]))
            fail(w, "step %llu is committed, and process %d has not come to it", ull(step), i);
}

void needs_note_commit(struct world *w, uint64_t step, uint32_t whole)
{
    size_t place = w->nwholes++ % ARRAY_LEN(w->wholes);
    w->wholes[place].step = step;
    w->wholes[place].whole = whole;
}

/* Enough of the round had outlived the kill. */
void needs_check_end(struct world *w)
{
    if (w->owed_needs && w->record < w->owed_needs)
        fail(w, "a kill in the save of step %llu has cost the commit; the record says %llu",
             ull(w->owed_needs), ull(w->record));
}
