/* SPDX-License-Identifier: Apache-2.0
 * Draws a schedule from a seed: how each process trains, how the network behaves, and which faults
 * come when. See sim.h.
 */
#include "sim.h"

#include <string.h>

#define MS NS_PER_MS
#define S  NS_PER_S

#define STRIDES 12

int64_t schedule_longest(const struct schedule *s, const int64_t times[MAX_ALL])
{
    int64_t longest = 0;
    for (int i = 0; i < s->nnodes * s->nprocs; i++)
        longest = times[i] > longest ? times[i] : longest;
    return longest;
}

static void draw_training(struct schedule *s, struct rng *r)
{
    s->nnodes = 1 + (int)rng_below(r, MAX_NODES);
    s->nprocs = 1 + (int)rng_below(r, MAX_PROCS);
    s->attaches = rng_chance(r, 930);
    s->is_forwarded = !s->attaches && rng_chance(r, 500);
    s->dies_of_term = rng_chance(r, 500);
    s->is_lockstep = rng_chance(r, 500);
    s->is_collective_save = rng_chance(r, 200);
    s->style = rng_chance(r, 300) ? STYLE_ASYNC : STYLE_SYNC;
    /* Strides go into STRIDES: the training ends where all of them stop. */
    s->first_step = rng_chance(r, 300) ? STRIDES * rng_below(r, 20) : 0;
    s->last_step = s->first_step + STRIDES * (1 + rng_below(r, rng_chance(r, 250) ? 2 : 15));
    if (rng_chance(r, 200)) /* longer than most notices leave */
        s->last_step = s->first_step + STRIDES * (20 + rng_below(r, 60));
    s->declared_last = rng_chance(r, 300) ? s->last_step : 0;
    s->own_every = rng_chance(r, 250) ? STRIDES * (1 + rng_below(r, 3)) : 0;
    s->grace = rng_chance(r, 700) ? 25 * S : rng_time(r, s->is_forwarded ? 0 : S / 2, 5 * S);
    s->trains_on = rng_chance(r, 600);
    s->known_save = rng_chance(r, 400) ? rng_time(r, 5 * MS, rng_chance(r, 800) ? S : 10 * S) : 0;
}

static void draw_strides(struct schedule *s, struct rng *r)
{
    static const uint64_t strides[] = {1, 2, 3, 4, 6, 12};
    bool is_mixed = rng_chance(r, 150);
    uint64_t all = rng_chance(r, 200) ? strides[rng_below(r, 6)] : 1;
    for (int i = 0; i < s->nnodes * s->nprocs; i++)
        s->stride[i] = is_mixed ? strides[rng_below(r, 6)] : all;
}

static void draw_procs(struct schedule *s, struct rng *r)
{
    bool reattach = rng_chance(r, 100);
    draw_strides(s, r);
    int64_t base = rng_time(r, 2 * MS, rng_chance(r, 100) ? 800 * MS : 60 * MS);
    if (base > 60 * MS) { /* over before the horizon */
        s->last_step = s->first_step + STRIDES * (1 + rng_below(r, 6));
        s->declared_last = s->declared_last ? s->last_step : 0;
    }
    bool has_skew = rng_chance(r, 500), is_late = rng_chance(r, 150), is_odd = rng_chance(r, 250);
    for (int i = 0; i < s->nnodes * s->nprocs; i++) {
        s->step_time[i] = has_skew ? rng_time(r, base, 4 * base) : base;
        int64_t longest = rng_chance(r, 900) ? S : rng_chance(r, 500) ? 6 * S : 40 * S;
        s->save_time[i] = rng_time(r, 5 * MS, longest);
        s->attach_at[i] = rng_time(r, MS, rng_chance(r, 100) ? 8 * S : 200 * MS);
        s->late_steps[i] = is_late && !s->is_lockstep ? s->stride[i] * rng_below(r, 5) : 0;
        s->reattaches[i] = reattach && rng_chance(r, 300);
        if (!is_odd)
            continue;
        s->ends_early[i] =
            rng_chance(r, 100) ? s->first_step + s->stride[i] * (1 + rng_below(r, 60)) : 0;
        s->fails_to_save[i] = rng_chance(r, 100);
        s->is_stubborn[i] = rng_chance(r, 100);
        s->is_unkillable[i] = rng_chance(r, 30);
        s->is_silent[i] = rng_chance(r, 50); /* never attaches */
        s->is_mute[i] = rng_chance(r, 150);
        s->is_hidden[i] = s->is_mute[i] && rng_chance(r, 300);
        s->stays_attached[i] = s->is_mute[i] && !s->is_hidden[i] && rng_chance(r, 300);
        s->is_terse[i] = !s->is_mute[i] && rng_chance(r, 150);
        s->cut_at[i] =
            rng_chance(r, 80) ? s->first_step + s->stride[i] * (1 + rng_below(r, 60)) : 0;
    }
}

static void draw_world(struct schedule *s, struct rng *r)
{
    s->delay_max = rng_chance(r, 200) ? 300 * MS : rng_time(r, MS / 10, 20 * MS);
    bool is_wild = rng_chance(r, 250);
    s->drop = is_wild ? (unsigned)rng_below(r, 150) : 0;
    s->duplicate = is_wild ? (unsigned)rng_below(r, 150) : 0;
    s->reorder = is_wild ? (unsigned)rng_below(r, 300) : 0;
    s->slow_disk = rng_chance(r, 100) ? 300 : 0;
    s->bad_disk = rng_chance(r, 80) ? 300 : 0;
    s->is_replaced = s->bad_disk && rng_chance(r, 400);
}

static void draw_leftovers(struct schedule *s, struct rng *r)
{
    bool has_some = rng_chance(r, 200);
    s->leaves_leftovers = rng_chance(r, 200);
    for (int i = 0; i < s->nnodes; i++)
        if (has_some && rng_chance(r, 600))
            s->leftover[i] = rng_chance(r, 500) ? LEFTOVER_MEEK : LEFTOVER_STUBBORN;
}

static void add(struct schedule *s, enum fault_kind kind, int64_t at, struct rng *r)
{
    if (s->nfaults == MAX_FAULTS)
        return;
    struct fault *f = &s->faults[s->nfaults++];
    *f = (struct fault){.kind = kind, .at = at > 0 ? at : 0};
    f->node = (int)rng_below(r, (uint64_t)s->nnodes);
    f->proc = (int)rng_below(r, (uint64_t)(s->nnodes * s->nprocs));
    f->length = rng_time(r, 100 * MS, rng_chance(r, 300) ? 30 * S : 3 * S);
    if (kind == DO_PARTITION || kind == DO_PAUSE || kind == DO_KILL_NODE || kind == DO_KILL_SAVED ||
        kind == DO_RESTART)
        s->has_loss = true;
}

/* About when the training is over. */
static int64_t draw_end(const struct schedule *s)
{
    uint64_t steps = (s->last_step - s->first_step) / s->stride[0];
    return 400 * MS + (int64_t)steps * s->step_time[0];
}

static int64_t draw_moment(const struct schedule *s, struct rng *r)
{
    return rng_time(r, rng_chance(r, 50) ? 0 : 300 * MS, draw_end(s));
}

/* Longer than any notice leaves; returns when the training is well under way. */
static int64_t train_for_long(struct schedule *s, struct rng *r)
{
    int64_t step = rng_time(r, 100 * MS, 200 * MS);
    for (int i = 0; i < s->nnodes * s->nprocs; i++)
        s->step_time[i] = step;
    s->trains_on = true;
    s->last_step = s->first_step + STRIDES * (1 + (uint64_t)(160 * S / (STRIDES * step / 2)));
    s->declared_last = s->declared_last ? s->last_step : 0;
    return rng_time(r, 2 * S, 4 * S);
}

/* A notice is taken back, and another one that leaves more time may follow. Or a notice that leaves
 * less time comes after it. */
static void draw_changes(struct schedule *s, int64_t at, struct rng *r)
{
    bool is_shortened = rng_chance(r, 200), is_put_off = !is_shortened && rng_chance(r, 500);
    if (rng_chance(r, 500))
        at = train_for_long(s, r);
    add(s, DO_NOTICE, at, r);
    s->faults[0].length = rng_time(r, 60 * S, 100 * S);
    if (is_shortened) {
        add(s, DO_NOTICE, at + rng_time(r, 0, 20 * S), r);
        s->faults[1].length = rng_time(r, 20 * S, 30 * S);
        s->faults[1].id = 1;
    } else {
        add(s, DO_CANCEL, at + rng_time(r, S, 20 * S), r);
    }
    if (is_put_off) {
        add(s, DO_NOTICE, at + rng_time(r, 0, S), r);
        s->faults[2].length = rng_time(r, 120 * S, 200 * S);
        s->faults[2].id = 1;
    }
    for (int i = 1; i < s->nfaults; i++)
        s->faults[i].node = s->faults[0].node;
}

/* The source of one node gives a notice, or each node's source does, at its own pace. A source may
 * repeat its notice with another deadline, withdraw it, or give another one. */
static void draw_sources(struct schedule *s, int64_t at, struct rng *r)
{
    if (rng_chance(r, 150)) {
        draw_changes(s, at, r);
        return;
    }
    if (s->is_forwarded &&
        rng_chance(r, 500)) /* this process is asked late, and must be there then */
        at = train_for_long(s, r);
    int64_t left = rng_chance(r, 200) ? 0 : rng_time(r, S, rng_chance(r, 500) ? 30 * S : 200 * S);
    int n = rng_chance(r, 300) ? s->nnodes : 1, more = (int)rng_below(r, 4);
    for (int i = 0; i < n; i++) {
        add(s, DO_NOTICE, at + (i ? rng_time(r, 0, 500 * MS) : 0), r);
        s->faults[s->nfaults - 1].length = left;
        if (n > 1)
            s->faults[s->nfaults - 1].node = i;
    }
    int node = s->faults[s->nfaults - 1].node;
    for (int i = rng_chance(r, 500) ? more : 0; i > 0; i--) {
        enum fault_kind kind = DO_NOTICE + (enum fault_kind)rng_below(r, DO__COUNT - DO_NOTICE);
        add(s, kind, at + rng_time(r, 0, rng_chance(r, 500) ? 500 * MS : 20 * S), r);
        struct fault *f = &s->faults[s->nfaults - 1];
        f->id = rng_chance(r, 700) ? 0 : 1;
        f->node = rng_chance(r, 800) ? node : f->node;
        f->length = rng_time(r, -S, rng_chance(r, 500) ? 10 * S : 100 * S);
    }
}

/* Most schedules have a notice; what else goes wrong clusters around it, where it hurts. */
static void draw_faults(struct schedule *s, struct rng *r)
{
    int64_t notice = draw_moment(s, r);
    if (rng_chance(r, 350))
        draw_sources(s, notice, r);
    else if (rng_chance(r, 850))
        add(s, DO_TERM, notice, r);
    if (s->nfaults > 1 && s->faults[1].kind >= DO_NOTICE && rng_chance(r, 500))
        return;
    if (rng_chance(r, 250)) /* the scheduler tells every node, at its own pace */
        for (int i = 0; i < s->nnodes; i++) {
            add(s, DO_TERM, notice + rng_time(r, 0, 2 * S), r);
            s->faults[s->nfaults - 1].node = i;
        }
    if (rng_chance(r, 250))
        add(s, DO_CHECKPOINT, rng_chance(r, 500) ? notice - 50 * MS : draw_moment(s, r), r);
    if (rng_chance(r, 100))
        add(s, DO_CHECKPOINT, draw_moment(s, r), r);
    if (rng_chance(r, 100)) /* when little or nothing of the training is left */
        add(s, DO_TERM, draw_end(s) + rng_time(r, -100 * MS, 8 * S), r);
    if (rng_chance(r, 50)) {
        add(s, DO_KILL_SAVED, 0, r);
        return;
    }
    if (s->nnodes > 1 && rng_chance(r, 120)) {
        enum fault_kind kind = rng_chance(r, 500) ? DO_RESTART : DO_TWIN;
        add(s, kind, draw_moment(s, r), r);
        s->faults[s->nfaults - 1].node = 1 + (int)rng_below(r, (uint64_t)s->nnodes - 1);
    }
    bool is_rough = rng_chance(r, 500);
    for (int n = is_rough ? 1 + (int)rng_below(r, 3) : 0; n > 0; n--) {
        enum fault_kind kind =
            DO_KILL_PROC + (enum fault_kind)rng_below(r, DO_KILL_SAVED - DO_KILL_PROC);
        int64_t at =
            rng_chance(r, 700) ? notice + rng_time(r, -100 * MS, 1500 * MS) : draw_moment(s, r);
        if (kind == DO_KILL_NODE && rng_chance(r, 500))
            kind = DO_BREAK;
        add(s, kind, at, r);
    }
}

/* Without a debugger the process may stay stopped for ever. */
static void draw_halt(struct schedule *s, struct rng *r)
{
    add(s, DO_STOP, draw_moment(s, r), r);
    struct fault *f = &s->faults[s->nfaults - 1];
    f->length = rng_time(r, S, 2 * SIM_STAND_NS);
    f->is_traced = f->length / MS % 2 == 0;
    if (f->length / MS % 4 == 1)
        f->length = SIM_FOR_EVER_NS;
}

/* One process hangs, at any step and in any activity. Or it only seems to hang: it is stopped for a
 * while, or evaluates for longer than a step may take. */
static void draw_hangs(struct schedule *s, struct rng *r)
{
    s->is_watched = rng_chance(r, 900);
    s->eval_proc = -1;
    if (rng_chance(r, 100) && s->nfaults < MAX_FAULTS)
        draw_halt(s, r);
    if (rng_chance(r, 100) && s->nfaults < MAX_FAULTS) {
        add(s, DO_LAG, draw_moment(s, r), r);
        s->faults[s->nfaults - 1].length = rng_time(r, SIM_STAND_NS / 2, SIM_STAND_NS * 4 / 3);
    }
    if (rng_chance(r, 80)) {
        s->eval_proc = (int)rng_below(r, (uint64_t)(s->nnodes * s->nprocs));
        s->eval_step = s->first_step + rng_below(r, 3) * STRIDES;
        s->eval_time = rng_time(r, S, SIM_EVAL_NS - S);
        if (s->is_silent[s->eval_proc]) /* the process cannot report the phase */
            s->eval_proc = -1;
    }
    if (!rng_chance(r, 200))
        return;
    if (rng_chance(r, 600)) /* and nothing else happens */
        s->nfaults = 0;
    add(s, DO_HANG, draw_moment(s, r), r);
}

/* Ranks that run freely at unequal speed may be too far apart for a common step within the grace.
 */
static bool keeps_together(const struct schedule *s)
{
    for (int i = 0; i < s->nnodes * s->nprocs && !s->is_lockstep; i++)
        if (s->stride[i] != s->stride[0] || s->step_time[i] != s->step_time[0] ||
            s->late_steps[i] || s->attach_at[i] > S)
            return false;
    return true;
}

static bool has_fault(const struct schedule *s, unsigned kinds)
{
    for (int i = 0; i < s->nfaults; i++)
        if (kinds & (1U << s->faults[i].kind))
            return true;
    return false;
}

/* A third SIGTERM stops the job, saved or not. */
static bool has_third_term(const struct schedule *s)
{
    int n[MAX_NODES] = {0};
    for (int i = 0; i < s->nfaults; i++)
        if (s->faults[i].kind == DO_TERM && ++n[s->faults[i].node] == 3)
            return true;
    return false;
}

static void find_graces(struct schedule *s)
{
    s->least_grace = s->most_grace = s->grace;
    for (int i = 0; i < s->nfaults; i++) {
        const struct fault *f = &s->faults[i];
        if (f->kind == DO_NOTICE && f->length > 0 && f->length < s->least_grace)
            s->least_grace = f->length;
        if (f->kind == DO_NOTICE && f->length > s->most_grace)
            s->most_grace = f->length;
    }
}

/* The longest way from any step to the next at which all can stop. */
static int64_t to_common_step(const struct schedule *s, int proc)
{
    bool is_mixed = false;
    for (int i = 0; i < s->nnodes * s->nprocs; i++)
        is_mixed = is_mixed || s->stride[i] != s->stride[0];
    return s->step_time[proc] * (is_mixed ? STRIDES / (int64_t)s->stride[proc] : 1);
}

/* A notice comes before the first step. The job then trains up to it, also if it would not train on
 * after one that comes later. Returns how long the shortest one is; 0: there is none. */
static int64_t standing_notice(const struct schedule *s)
{
    int64_t ret = 0;
    for (int i = 0; i < s->nfaults; i++)
        if (s->faults[i].kind == DO_NOTICE && s->faults[i].at < schedule_longest(s, s->attach_at))
            ret = ret ? clock_min(ret, s->faults[i].length) : s->faults[i].length;
    return ret;
}

/* The process saves so often that several own saves fall between an agreement and its step. Where
 * ranks do not wait for each other, one whose saves take longer then falls behind ever further. A
 * usual save begins at a step of the first rank, and the last save waits until the last rank has
 * made that one: by then it may be too far behind. Usual saves by time are rarer, so that takes a
 * longer notice. */
static bool saves_all_the_time(const struct schedule *s, int proc)
{
    int64_t between = (int64_t)(s->own_every / s->stride[proc]) * s->step_time[proc];
    int64_t notice = standing_notice(s);
    bool falls_behind =
        !s->is_lockstep && ((s->every_steps && notice) || (s->every_ns && notice > 40 * S));
    return s->own_every && (s->trains_on || falls_behind) && between < 2 * S;
}

/* Every process does what it should, and saves within `save_time`. */
static bool behaves(const struct schedule *s, int64_t save_time)
{
    if (!keeps_together(s) || has_third_term(s))
        return false;
    if (!s->attaches || s->bad_disk || s->slow_disk)
        return false;
    for (int i = 0; i < s->nnodes * s->nprocs; i++)
        if (s->save_time[i] > save_time || saves_all_the_time(s, i) ||
            to_common_step(s, i) > 2 * S || s->ends_early[i] || s->cut_at[i] ||
            s->fails_to_save[i] || s->is_silent[i] || s->is_mute[i] || s->is_terse[i] ||
            s->is_bare[i] || s->reattaches[i] || s->is_unkillable[i] || s->is_stubborn[i])
            return false;
    return true;
}

/* As behaves(), and there is time for the save. */
static bool can_save(const struct schedule *s, int64_t save_time)
{
    return behaves(s, save_time) && s->least_grace >= 20 * S;
}

#define SIGNALS                                                                                  \
    (1U << DO_TERM | 1U << DO_CHECKPOINT | 1U << DO_REPEAT | 1U << DO_NOTICE | 1U << DO_CANCEL | \
     1U << DO_ADVICE)

/* Nothing but notices goes wrong, and there is time for the save: then it must be committed. */
static bool is_benign(const struct schedule *s)
{
    return can_save(s, 2 * S) && s->eval_proc < 0 && !s->slow_from &&
           !has_fault(s, ~(SIGNALS | 1U << DO_BREAK | 1U << DO_PAUSE | 1U << DO_TWIN));
}

/* As is_benign(), but with a slow disk. The save may come too late, and no node leaves later
 * because of that. */
static bool is_prompt(const struct schedule *s)
{
    struct schedule quick = *s;
    quick.slow_disk = 0;
    return s->slow_disk && !s->restart.after_notice && is_benign(&quick);
}

/* Nothing but the network fails. A node with a notice leaves in time, even if another node
 * sends nothing. */
static bool is_cut(const struct schedule *s)
{
    return behaves(s, 2 * S) && s->least_grace >= 3 * S && s->eval_proc < 0 &&
           !s->restart.after_notice && has_fault(s, 1U << DO_PARTITION) &&
           !has_fault(s, ~(SIGNALS | 1U << DO_BREAK | 1U << DO_PARTITION));
}

/* One node dies when it has saved, which does not undo the round. */
static bool is_calm(const struct schedule *s)
{
    return can_save(s, 8 * S) && s->eval_proc < 0 && !s->drop && !s->reorder &&
           s->delay_max <= 20 * MS && !has_fault(s, ~(SIGNALS | 1U << DO_KILL_SAVED));
}

/* One long notice, and nothing else: nine tenths of it belong to the training. The notice must be
 * long compared to the way from one step at which all can stop to the next. */
static int64_t uses(const struct schedule *s)
{
    int64_t step = 0;
    for (int i = 0; i < s->nnodes * s->nprocs; i++)
        step = to_common_step(s, i) > step ? to_common_step(s, i) : step;
    if (schedule_longest(s, s->attach_at) > 8 * S) /* the first save waits for the attach */
        return 0;
    const struct fault *last = &s->faults[s->nfaults ? s->nfaults - 1 : 0];
    bool is_one = s->nfaults == 1 && last->kind == DO_NOTICE;
    bool is_put_off = s->nfaults == 3 && s->faults[1].kind == DO_CANCEL &&
                      last->kind == DO_NOTICE && last->id == 1 && s->faults[0].length >= 60 * S;
    if (!s->is_benign || s->restart.after_notice || !(is_one || is_put_off) || !s->trains_on ||
        s->own_every || s->known_save > 2 * S || last->length < 100 * S || last->length < 60 * step)
        return 0;
    return last->length / 10 * 9;
}

static bool is_withdrawn(const struct schedule *s)
{
    const struct fault *notice = &s->faults[0], *cancel = &s->faults[1];
    return s->is_benign && s->nfaults == 2 && notice->kind == DO_NOTICE &&
           cancel->kind == DO_CANCEL && notice->node == cancel->node && notice->id == cancel->id &&
           cancel->at > notice->at && notice->length >= 60 * S && s->trains_on && !s->own_every &&
           !s->every_steps && !s->every_ns; /* the training ends in time */
}

/* Saves without a notice; half of the time nothing else happens. */
static void draw_period(struct schedule *s)
{
    struct rng r = {s->seed * UINT64_C(0x9fb21c651e98df25) + 1};
    if (!rng_chance(&r, 250))
        return;
    if (rng_chance(&r, 500))
        s->every_steps = 1 + rng_below(&r, rng_chance(&r, 300) ? 4 : 60);
    else
        s->every_ns = rng_time(&r, 50 * MS, rng_chance(&r, 500) ? S : 20 * S);
    if (rng_chance(&r, 500))
        s->nfaults = 0;
    if (schedule_longest(s, s->save_time) > 2 * S)
        s->restart.after_notice = false; /* no notice ends such a training before the horizon */
    /* Limits the rounds to those that save_of_tag has room for. */
    if (s->every_steps)
        s->every_steps += (s->last_step - s->first_step) / 50;
    else
        s->every_ns += draw_end(s) / 50;
    if (s->every_ns && rng_chance(&r, 400))
        s->every_most = s->every_ns + rng_time(&r, 0, 4 * s->every_ns);
}

/* Ranks in lockstep: otherwise a rank that is ahead waits for no other. And equal strides:
 * otherwise the way to a common step is long. */
static bool is_regular(const struct schedule *s)
{
    for (int i = 0; i < s->nnodes; i++)
        if (s->begins_at[i])
            return false;
    for (int i = 0; i < s->nnodes * s->nprocs; i++)
        if (s->stride[i] != s->stride[0])
            return false;
    return (s->every_steps || s->every_ns) && s->is_lockstep && can_save(s, 2 * S) &&
           s->eval_proc < 0 && !has_fault(s, ~(1U << DO_CHECKPOINT)) && !s->drop && !s->reorder;
}

/* Several processes fail at about the same time, on hosts whose clocks began at different times.
 * They are drawn apart, so that all else stays the same. */
static void draw_failures(struct schedule *s, uint64_t seed)
{
    struct rng r = {seed * UINT64_C(0x9e3779b97f4a7c15) + 7};
    for (int i = 0; i < s->nnodes; i++)
        s->clock[i] = rng_time(&r, 0, 1000000 * S);
    s->misses_nodes = s->is_lockstep && rng_chance(&r, 300);
    if (s->nnodes * s->nprocs == 1 || !rng_chance(&r, 60))
        return;
    int64_t at = draw_moment(s, &r);
    for (int n = 2 + (int)rng_below(&r, 3); n > 0; n--) {
        add(s, rng_chance(&r, 700) ? DO_KILL_PROC : DO_CONFESS, at, &r);
        s->faults[s->nfaults - 1].length = rng_time(&r, 0, rng_chance(&r, 500) ? 100 * MS : 3 * S);
        at += rng_time(&r, 0, rng_chance(&r, 700) ? s->delay_max : S);
    }
}

/* Processes are killed, and nothing else goes wrong. */
static void draw_kills(struct schedule *s, struct rng *r)
{
    int n = 1 + (int)rng_below(r, 4);
    s->nfaults = 0;
    s->has_loss = false;
    for (int i = 0; i < n; i++)
        add(s, DO_KILL_PROC, rng_time(r, 0, (i + 1) * draw_end(s)), r);
}

static void draw_restart(struct schedule *s, struct rng *r)
{
    s->restart.after_notice = rng_chance(r, 100) && draw_end(s) < 60 * S;
    if (!rng_chance(r, 350))
        return;
    struct restart_policy *p = &s->restart;
    p->max = 1 + (int)rng_below(r, 5);
    p->window_ns = rng_chance(r, 500) ? 0 : rng_time(r, S, 100 * S);
    p->start_max = (int)rng_below(r, 5);
    p->startup_ns = rng_chance(r, 300) ? 0 : rng_time(r, 100 * MS, 60 * S);
    p->backoff_ns = rng_time(r, 0, S);
    p->backoff_max_ns = rng_time(r, p->backoff_ns, 5 * S);
    p->no_progress = rng_chance(r, 600) ? 0 : 1 + (int)rng_below(r, 3);
    p->is_fatal[137] = rng_chance(r, 50);
    if (rng_chance(r, 500))
        draw_kills(s, r);
}

/* A rank fails at its start for a reason that repeats; another one may fail because of it. */
static void draw_repeats(struct schedule *s)
{
    struct rng r = {s->seed * UINT64_C(0xc2b2ae3d27d4eb4f) + 3};
    if (!s->restart.max || !s->attaches || s->restart.after_notice || !rng_chance(&r, 150))
        return;
    int64_t at = s->attach_at[0] + rng_time(&r, 0, s->step_time[0] + 50 * MS);
    s->nfaults = 0;
    add(s, DO_CONFESS, at, &r);
    s->faults[0].proc = 0;
    s->faults[0].length = rng_time(&r, 0, rng_chance(&r, 500) ? 100 * MS : S);
    if (rng_chance(&r, 500))
        add(s, DO_KILL_PROC, at + rng_time(&r, 0, 100 * MS), &r);
}

/* Whatever is killed, the job trains to its end. */
static bool is_mended(const struct schedule *s)
{
    const struct restart_policy *p = &s->restart;
    if (s->every_steps || s->every_ns) /* their saves take time */
        return false;
    if (has_fault(s, ~(1U << DO_KILL_PROC)) || s->nfaults > p->max || s->nfaults > p->start_max ||
        p->no_progress || p->is_fatal[137] || s->drop || s->bad_disk || s->slow_disk)
        return false;
    int64_t steps = (int64_t)(s->last_step - s->first_step), longest = 0;
    for (int i = 0; i < s->nnodes * s->nprocs; i++) {
        int64_t save = s->own_every ? s->save_time[i] / (int64_t)s->own_every : 0;
        longest = s->step_time[i] + save > longest ? s->step_time[i] + save : longest;
    }
    if ((s->nfaults + 2) * steps * longest >
        300 * S) /* each fault may cost all the training so far */
        return false;
    for (int i = 0; i < s->nnodes * s->nprocs; i++)
        if (s->ends_early[i] || s->cut_at[i] || s->is_silent[i] || s->is_mute[i] ||
            s->is_unkillable[i] || s->stays_attached[i])
            return false;
    return true;
}

/* From a generator of its own, so that the other faults of a seed stay what they are. */
static void draw_stop(struct schedule *s)
{
    struct rng r = {s->seed * UINT64_C(0x9e3779b97f4a7c15) + 77};
    if (rng_chance(&r, 60))
        add(s, DO_END, draw_moment(s, &r), &r);
    if (!rng_chance(&r, 60))
        return;
    if (rng_chance(&r, 400)) { /* and nothing else happens */
        s->nfaults = 0;
        s->has_loss = false;
    }
    add(s, DO_SAVE_END, draw_moment(s, &r), &r);
}

/* Drawn apart, too. Large processes have died long before their end. */
static void draw_teardowns(struct schedule *s)
{
    struct rng r = {s->seed * UINT64_C(0x9e3779b97f4a7c15) + 99};
    bool is_known = rng_chance(&r, 600);
    s->misses_procs = s->is_lockstep && rng_chance(&r, 300);
    for (int i = 0; i < s->nnodes * s->nprocs; i++) {
        bool is_large = rng_chance(&r, 500);
        s->teardown[i] = is_known ? rng_time(&r, 0, is_large ? 3 * S : 5 * MS) : -1;
    }
}

/* Drawn apart, too. A rank that is done still writes, or hangs in its teardown. The supervisor must
 * have a limit for a rank that never ends. */
static void draw_lingerers(struct schedule *s)
{
    struct rng r = {s->seed * UINT64_C(0x9e3779b97f4a7c15) + 2468};
    if (!rng_chance(&r, 60) || s->is_far || s->is_slowed || s->is_stalled || s->patience)
        return;
    bool is_watched = s->is_watched || rng_chance(&r, 500);
    s->is_watched = is_watched;
    for (int i = 0; i < s->nnodes * s->nprocs; i++) {
        bool hangs = is_watched && rng_chance(&r, 200);
        if (rng_chance(&r, 600))
            s->lingers[i] = hangs ? SIM_FOR_EVER_NS : rng_time(&r, MS, 60 * S);
    }
    if (rng_chance(&r, 500)) /* a notice comes when the training is about to end, or over */
        add(s, rng_chance(&r, 500) ? DO_TERM : DO_NOTICE,
            draw_end(s) + rng_time(&r, -300 * MS, 30 * S), &r);
}

/* Every process trains as it should, each step takes the same, and nothing goes wrong. */
static void draw_no_faults(struct schedule *s)
{
    s->nfaults = 0;
    s->has_loss = false;
    s->attaches = s->is_lockstep = true;
    s->is_forwarded = s->is_replaced = s->misses_nodes = s->misses_procs = false;
    s->drop = s->duplicate = s->reorder = s->slow_disk = s->bad_disk = 0;
    s->own_every = s->every_steps = 0;
    s->every_ns = s->every_most = 0;
    s->restart = (struct restart_policy){0};
    s->eval_proc = -1;
    for (int i = 0; i < s->nnodes * s->nprocs; i++) {
        s->stride[i] = 1;
        s->ends_early[i] = s->cut_at[i] = s->late_steps[i] = 0;
        s->fails_to_save[i] = s->reattaches[i] = s->is_stubborn[i] = s->is_unkillable[i] = false;
        s->is_silent[i] = s->is_mute[i] = s->is_hidden[i] = s->stays_attached[i] = false;
        s->is_terse[i] = s->is_bare[i] = false;
    }
}

/* The pace drops to a tenth, or to a thousandth, at about the time of a notice. The notice leaves
 * at least the time for a save and three of the slow steps. From a generator of its own. */
static void draw_pace(struct schedule *s)
{
    struct rng r = {s->seed * UINT64_C(0x9e3779b97f4a7c15) + 5432};
    if (!rng_chance(&r, 20))
        return;
    draw_no_faults(s);
    int64_t fast = rng_time(&r, MS, 6 * MS);
    s->delay_max = rng_time(&r, MS / 10, 20 * MS);
    s->slow_from = s->first_step + 50 + rng_below(&r, 250);
    s->slow_by = rng_time(&r, 10, rng_chance(&r, 500) ? 100 : 1000);
    s->last_step = s->slow_from + (uint64_t)(100 * S / (fast * s->slow_by)) + STRIDES;
    s->declared_last = s->declared_last ? s->last_step : 0;
    for (int i = 0; i < s->nnodes * s->nprocs; i++) {
        s->step_time[i] = fast;
        s->attach_at[i] = rng_time(&r, MS, 200 * MS);
        s->save_time[i] = rng_time(&r, 5 * MS, rng_chance(&r, 800) ? S : 6 * S);
    }
    int64_t drop_at = 200 * MS + fast * (int64_t)(s->slow_from - s->first_step);
    add(s, DO_NOTICE, drop_at + rng_time(&r, -200 * MS, 2 * S), &r);
    /* Also time for the messages of the agreement, and the time kept back for SIGKILL. */
    s->faults[0].length = schedule_longest(s, s->save_time) + 3 * fast * s->slow_by +
                          10 * s->delay_max + 300 * MS +
                          (rng_chance(&r, 500) ? 0 : rng_time(&r, 0, 20 * S));
    s->is_slowed = true;
}

/* Drawn apart, too: a process is killed or hangs while the deadline of a notice is far away. */
static void draw_far(struct schedule *s)
{
    struct rng r = {s->seed * UINT64_C(0x9e3779b97f4a7c15) + 6543};
    if (s->is_slowed || !rng_chance(&r, 30))
        return;
    draw_no_faults(s);
    s->trains_on = s->is_watched = true;
    s->delay_max = rng_time(&r, MS / 10, 20 * MS);
    s->last_step = s->first_step + 100 + rng_below(&r, 500);
    s->declared_last = s->declared_last ? s->last_step : 0;
    int64_t step = rng_time(&r, 20 * MS, 200 * MS);
    for (int i = 0; i < s->nnodes * s->nprocs; i++) {
        s->step_time[i] = step;
        s->attach_at[i] = rng_time(&r, MS, 2 * S);
        s->save_time[i] = rng_time(&r, 5 * MS, 2 * S);
    }
    if (rng_chance(&r, 500))
        s->restart = (struct restart_policy){.max = 3, .start_max = 3};
    add(s, DO_NOTICE, rng_time(&r, 0, 5 * S), &r);
    s->faults[0].length = s->grace + rng_time(&r, 900 * S, 7200 * S);
    int64_t trained = step * (int64_t)(s->last_step - s->first_step);
    add(s, rng_chance(&r, 600) ? DO_KILL_PROC : DO_HANG, rng_time(&r, 3 * S, 5 * S + trained), &r);
    s->is_far = true;
}

/* Drawn apart, too. A long notice, and what moves stands still for seconds, before or under it: a
 * rank, a supervisor, or the line between two. Or the pace rises just before the notice. */
static void draw_stalls(struct schedule *s)
{
    struct rng r = {s->seed * UINT64_C(0x9e3779b97f4a7c15) + 7531};
    if (s->is_slowed || s->is_far || !rng_chance(&r, 15))
        return;
    uint64_t every = s->every_steps;
    int64_t every_ns = s->every_ns;
    draw_no_faults(s);
    s->is_lockstep = rng_chance(&r, 600);
    s->known_save = 0;
    s->delay_max = rng_time(&r, MS / 10, 20 * MS);
    int64_t at = train_for_long(s, &r), step = rng_time(&r, 20 * MS, 200 * MS);
    if (rng_chance(&r, 300)) {
        s->every_steps = every;
        s->every_ns = every_ns;
    }
    for (int i = 0; i < s->nnodes * s->nprocs; i++) {
        s->step_time[i] = step;
        s->attach_at[i] = rng_time(&r, MS, S);
        s->save_time[i] = rng_time(&r, 5 * MS, S);
    }
    s->last_step = s->first_step + STRIDES * (1 + (uint64_t)(320 * S / (STRIDES * step)));
    s->declared_last = s->declared_last ? s->last_step : 0;
    if (rng_chance(&r, 300)) {
        s->slow_from = s->first_step + 1;
        s->slow_by = rng_time(&r, 2, 20);
        s->slow_until = s->slow_from + 1 + (uint64_t)(at / (step * s->slow_by));
    }
    add(s, DO_NOTICE, at + S + rng_time(&r, -S / 2, 2 * S), &r);
    int64_t left = s->faults[0].length = rng_time(&r, 30 * S, 120 * S);
    bool may_lose = false;
    at += rng_time(&r, -2 * S, left / 2);
    for (int n = (int)rng_below(&r, 4); n > 0; n--) {
        static const enum fault_kind kinds[] = {DO_LAG, DO_PAUSE, DO_PARTITION};
        add(s, kinds[rng_below(&r, 3)], at, &r);
        int64_t stands = s->faults[s->nfaults - 1].length = rng_time(&r, S, 8 * S);
        at += stands;
        may_lose = may_lose || at > s->faults[0].at + left - 10 * S;
        at += rng_time(&r, 8 * S, 40 * S); /* several stalls in a row are a slow job */
    }
    s->has_loss = may_lose; /* a node may be silent at the deadline */
    s->is_stalled = true;
}

/* Nothing but a long notice, in a training that is longer. */
static void draw_long_notice(struct schedule *s, struct rng *r)
{
    draw_no_faults(s);
    s->known_save = 0;
    int64_t at = train_for_long(s, r);
    for (int i = 0; i < s->nnodes * s->nprocs; i++) {
        s->attach_at[i] = rng_time(r, MS, S);
        s->save_time[i] = rng_time(r, 5 * MS, S);
    }
    add(s, DO_NOTICE, at, r);
    s->faults[0].length = rng_time(r, 100 * S, 120 * S);
}

/* Drawn apart, too. A rank that was told to leave takes its time: it frees its memory, and runs
 * what it has registered for its exit. */
static void draw_ends(struct schedule *s)
{
    struct rng r = {s->seed * UINT64_C(0x9e3779b97f4a7c15) + 2468};
    if (!rng_chance(&r, 120))
        return;
    if (rng_chance(&r, 50) && !s->is_slowed && !s->is_far && !s->is_stalled && !s->patience)
        draw_long_notice(s, &r);
    int64_t most = rng_chance(&r, 500) ? 2 * S : 8 * S;
    for (int i = 0; i < s->nnodes * s->nprocs; i++)
        s->exit_time[i] = rng_time(&r, 200 * MS, most);
    s->known_end = rng_chance(&r, 500) ? schedule_longest(s, s->exit_time) : 0;
}

/* Drawn apart, too. Saves take a third of the shortest notice to two thirds: two of them may fit
 * into it, or one. Half of the time nothing else happens. */
static void draw_long_saves(struct schedule *s)
{
    struct rng r = {s->seed * UINT64_C(0x9e3779b97f4a7c15) + 9754};
    bool is_taken = s->is_slowed || s->is_far || s->is_stalled || s->patience;
    if (is_taken || !has_fault(s, 1U << DO_TERM | 1U << DO_NOTICE) || !rng_chance(&r, 25))
        return;
    if (rng_chance(&r, 500)) {
        draw_no_faults(s);
        s->known_save = 0;
        s->grace = rng_time(&r, 20 * S, 60 * S);
        s->delay_max = rng_time(&r, MS / 10, 20 * MS);
        add(s, rng_chance(&r, 500) ? DO_TERM : DO_NOTICE, train_for_long(s, &r), &r);
        s->faults[0].length = s->grace;
        s->is_long_saved = true;
    }
    find_graces(s);
    int64_t slowest = s->least_grace / 100 * rng_time(&r, 35, 70);
    for (int i = 0; i < s->nnodes * s->nprocs; i++) {
        s->attach_at[i] = s->is_long_saved ? rng_time(&r, MS, S) : s->attach_at[i];
        s->save_time[i] = rng_time(&r, slowest / 10 * 9, slowest);
    }
}

/* Drawn apart, too. Where one process hangs, those that wait for it give up. No other wait is so
 * long, but that for the commit of an own save. A rank may make STRIDES steps while one makes 1. */
static void draw_patience(struct schedule *s)
{
    struct rng r = {s->seed * UINT64_C(0x9e3779b97f4a7c15) + 8765};
    bool is_alone =
        s->nfaults == 1 && s->faults[0].kind == DO_HANG && s->eval_proc < 0 && !s->own_every;
    int64_t least = clock_max(10 * S, 2 * STRIDES * schedule_longest(s, s->step_time)) +
                    3 * schedule_longest(s, s->save_time) + 2 * schedule_longest(s, s->attach_at);
    if (!is_alone || !s->is_lockstep || !rng_chance(&r, 700))
        return;
    s->patience = least + 10 * s->delay_max + rng_time(&r, 0, 2 * SIM_STAND_NS);
    s->says_so = rng_chance(&r, 600);
    s->hung_gives_up = s->says_so && rng_chance(&r, 300);
}

/* Drawn apart, too. After a notice that is over, such a rank counts as trained to its end. */
static void draw_handlers(struct schedule *s)
{
    struct rng r = {s->seed * UINT64_C(0x9e3779b97f4a7c15) + 4321};
    bool has_some = rng_chance(&r, 40) && s->attaches && !s->restart.after_notice;
    for (int i = 0; i < s->nnodes * s->nprocs; i++)
        s->is_bare[i] = has_some && rng_chance(&r, 500);
}

/* Drawn apart, too. Such a report is no earlier failure, however the process ends then. */
static void draw_answers(struct schedule *s)
{
    struct rng r = {s->seed * UINT64_C(0x9e3779b97f4a7c15) + 2345};
    s->answers_term = s->attaches && rng_chance(&r, 50);
}

/* Drawn apart, too. As Slurm signals the processes of a task: descendants first. */
static void draw_signals(struct schedule *s)
{
    struct rng r = {s->seed * UINT64_C(0x9e3779b97f4a7c15) + 1357};
    s->signals_all =
        s->dies_of_term && !has_fault(s, 1U << DO_PAUSE | 1U << DO_FREEZE) && rng_chance(&r, 300);
}

/* These notices leave no more than the grace, and enough for three starts and saves. */
static void draw_short_standing(struct schedule *s, struct rng *r)
{
    s->grace = rng_time(r, 45 * S, 120 * S);
    s->known_start = rng_time(r, MS, 5 * S);
    s->known_save = rng_time(r, 5 * MS, 2 * S);
    for (int i = 0; i < s->nfaults; i++)
        s->faults[i].length = rng_time(r, 40 * S, s->grace);
}

/* Drawn apart, too, and only if nothing else happens: a notice stands when the job starts, on one
 * node or on each. Most leave more than the grace. */
static void draw_standing(struct schedule *s)
{
    struct rng r = {s->seed * UINT64_C(0xd6e8feb86659fd93) + 5};
    if (s->nfaults || s->restart.max || s->is_forwarded || !rng_chance(&r, 400))
        return;
    int n = rng_chance(&r, 500) ? s->nnodes : 1, only = (int)rng_below(&r, (uint64_t)s->nnodes);
    bool trains_on = rng_chance(&r, 700), is_repeated = rng_chance(&r, 200);
    train_for_long(s, &r);
    s->trains_on = trains_on;
    for (int i = 0; i < n; i++) {
        add(s, is_repeated ? DO_REPEAT : DO_NOTICE,
            rng_time(&r, 0, rng_chance(&r, 500) ? 50 * MS : 2 * S), &r);
        s->faults[s->nfaults - 1].length = s->grace + rng_time(&r, S, 100 * S);
        s->faults[s->nfaults - 1].node = n > 1 ? i : only;
    }
    int64_t begins = rng_chance(&r, 200) ? rng_time(&r, 0, 50 * S) : 0;
    for (int i = 0; i < s->nnodes * s->nprocs; i++) /* the start may take longer than the notice
                                                     * leaves */
        s->attach_at[i] += begins;
    if (!is_repeated && s->first_step > 0 && rng_chance(&r, 700))
        draw_short_standing(s, &r);
}

/* Drawn apart, too, and only if nothing else happens: one notice that names no deadline. */
static bool draw_lone(struct schedule *s, struct rng *r)
{
    if (s->nfaults || s->restart.max || s->is_forwarded || s->every_steps || s->every_ns ||
        !rng_chance(r, 500))
        return false;
    draw_no_faults(s);
    s->grace = 25 * S;
    s->delay_max = rng_time(r, MS / 10, 20 * MS);
    for (int i = 0; i < s->nnodes * s->nprocs; i++) {
        s->attach_at[i] = rng_time(r, MS, 2 * S);
        s->save_time[i] = rng_time(r, 5 * MS, 2 * S);
    }
    add(s, rng_chance(r, 700) ? DO_TERM : DO_NOTICE, train_for_long(s, r), r);
    s->faults[0].length = 0;
    return true;
}

/* Drawn apart, too: which nodes know how much time their notices leave. */
static void draw_guesses(struct schedule *s)
{
    struct rng r = {s->seed * UINT64_C(0xbf58476d1ce4e5b9) + 77};
    bool is_lone = draw_lone(s, &r);
    s->is_auto = is_lone || rng_chance(&r, 700);
    bool has_some = s->is_auto && rng_chance(&r, is_lone ? 700 : 300);
    for (int i = 0; i < s->nnodes; i++)
        s->guesses[i] = has_some && rng_chance(&r, 600);
}

static bool is_lone(const struct schedule *s)
{
    const struct fault *only = &s->faults[0];
    bool is_long = draw_end(s) > 60 * S; /* the training does not end within the grace */
    bool names_no_deadline = only->kind == DO_TERM || (only->kind == DO_NOTICE && !only->length);
    return s->is_benign && s->nfaults == 1 && names_no_deadline && is_long && s->trains_on &&
           !s->own_every && !s->every_steps && !s->every_ns && !s->restart.after_notice &&
           s->known_save <= 2 * S;
}

/* The job trains up to this notice, if there is time to start and to save. The nodes come within 8
 * s, the ranks in a quarter of the time. */
static int64_t stands(const struct schedule *s, enum fault_kind kind)
{
    int64_t attached = schedule_longest(s, s->attach_at), first = CLOCK_NEVER;
    for (int i = 0; i < s->nfaults; i++)
        first = clock_min(first, s->faults[i].length);
    bool is_alone = s->nfaults && !has_fault(s, ~(1U << kind)) && s->faults[0].at <= 2 * S;
    if (!is_alone || !s->is_benign || s->restart.after_notice || s->own_every ||
        s->known_save > 2 * S || s->every_steps || s->every_ns || s->drop ||
        s->faults[s->nfaults - 1].at > 2 * S || first < 40 * S || attached > first / 4)
        return 0;
    return first;
}

/* A request to save and end the job, and nothing else: no step is lost. */
static bool is_saved_end(const struct schedule *s)
{
    return behaves(s, 2 * S) && s->eval_proc < 0 && !s->slow_from && !s->own_every &&
           !s->every_steps && !s->every_ns && !s->drop && has_fault(s, 1U << DO_SAVE_END) &&
           !has_fault(s, ~(1U << DO_SAVE_END));
}

/* Only if nothing else fails: this simulator does not know how shells change the ends of processes.
 * And not if only the commands, here the shells, are ended. */
static bool draws_shells(const struct schedule *s)
{
    struct rng r = {s->seed * UINT64_C(0x9e3779b97f4a7c15) + 1234};
    return s->is_benign && !s->signals_all && !s->leaves_leftovers && rng_chance(&r, 250);
}

void schedule_draw(struct schedule *s, uint64_t seed)
{
    struct rng r = {seed * UINT64_C(0x2545f4914f6cdd1d) + 1};
    memset(s, 0, sizeof *s);
    s->seed = seed;
    draw_training(s, &r);
    draw_procs(s, &r);
    draw_world(s, &r);
    draw_faults(s, &r);
    draw_leftovers(s, &r);
    draw_failures(s, seed);
    draw_restart(s, &r);
    draw_repeats(s);
    draw_hangs(s, &r);
    draw_period(s);
    draw_stop(s);
    draw_teardowns(s);
    draw_handlers(s);
    draw_answers(s);
    draw_pace(s);
    draw_far(s);
    draw_stalls(s);
    draw_standing(s);
    draw_guesses(s);
    draw_patience(s);
    draw_lingerers(s);
    draw_signals(s);
    draw_ends(s);
    draw_long_saves(s);
    lease_draw(s);
    s->has_third_term = has_third_term(s);
    find_graces(s);
    s->is_benign = is_benign(s);
    s->has_shells = draws_shells(s);
    s->is_prompt = is_prompt(s);
    s->is_cut = is_cut(s);
    s->is_calm = is_calm(s);
    s->is_lone = is_lone(s);
    s->uses = uses(s);
    s->stands = stands(s, DO_NOTICE);
    s->repeats = stands(s, DO_REPEAT) > 0;
    s->failures = s->every_most ? (int)(s->seed % 5) : 0;
    s->is_withdrawn = is_withdrawn(s);
    s->is_mended = is_mended(s);
    s->is_saved_end = is_saved_end(s);
    s->is_plain_restart =
        has_fault(s, 1U << DO_RESTART) && !has_fault(s, ~(SIGNALS | 1U << DO_RESTART)) && !s->drop;
    int breaks = 0;
    for (int i = 0; i < s->nfaults; i++)
        breaks += s->faults[i].kind == DO_BREAK;
    /* One break is mended before any node is missed. Several breaks, or a break on a slow line, may
     * take longer. A freeze may take all that a short notice leaves: then each node ends by itself.
     */
    bool is_short = s->least_grace < 3 * S && has_fault(s, 1U << DO_FREEZE);
    if (s->drop || breaks > 1 || is_short || (breaks == 1 && s->delay_max > 100 * MS))
        s->has_loss = true;
    bool has_late = !s->is_calm && rng_chance(&r, 60) && !s->is_slowed && !s->is_stalled;
    for (int i = 1; has_late && i < s->nnodes; i++)
        s->begins_at[i] = rng_chance(&r, 500) ? rng_time(&r, 10 * MS, 8 * S) : 0;
    if (s->uses && s->begins_at[s->faults[s->nfaults - 1].node] > s->faults[s->nfaults - 1].at)
        s->uses = 0; /* the node of the notice has not begun, and gets no notice */
    s->is_regular = is_regular(s);
    /* On a slow line the end is seen after all messages, too late to tell cause and consequences
     * apart. */
    s->is_direct = s->delay_max <= 100 * MS && rng_chance(&r, 700);
    s->marks_waits = rng_chance(&r, 300);
    replace_draw(s);
    spares_draw(s);
    needs_draw(s);
    health_draw(s);
    network_draw(s);
}
