/* SPDX-License-Identifier: Apache-2.0
 * See round.h.
 */
#include "core/node/round.h"

#include "base/clock.h"
#include "base/str.h"
#include "core/node/needed.h"
#include "core/node/round_say.h"
#include "wire/gate.h"

void round_init(struct round *round, struct ranks *ranks, struct out *out)
{
    *round = (struct round){.ranks = ranks, .out = out, .word = GATE_OPEN, .is_closed = true};
}

/* --- the gate, and the processes that wait at it --- */

static bool has_served(const struct round *round, const struct member *m)
{
    return m->is_ended || m->served_round == round->id;
}

static int count_served(const struct round *round)
{
    int n = 0;
    for (int i = 0; i < round->ranks->n; i++)
        n += has_served(round, &round->ranks->members[i]);
    return n;
}

static bool all_have_served(const struct round *round)
{
    return count_served(round) == round->ranks->n;
}

/* The gate of a round opens only when no process can still save there. */
static bool may_set(const struct round *round, uint64_t word)
{
    bool opens = gate_is_open(word) || gate_is_bell(word);
    if (!opens || gate_is_open(round->word) || gate_is_bell(round->word))
        return true;
    return gate_is_decided(round->word) ? all_have_served(round) : round->is_closed;
}

static void set_gate(struct round *round, uint64_t word)
{
    if (word == round->word || !PROMISE(1, round->out, may_set(round, word)))
        return;
    round->word = word;
    out_act(round->out, &(struct action){.type = ACT_GATE, .gate = word});
    for (int i = 0; i < round->ranks->n; i++) {
        struct member *m = &round->ranks->members[i];
        if (m->wait != WAIT_GATE)
            continue;
        m->wait = WAIT_NONE;
        out_proc(round->out, m->slot, &(struct procmsg){.type = PROCMSG_LOOK});
    }
}

/* Between two rounds the gate is open, or it is a bell, which rings once. */
static void lift_gate(struct round *round)
{
    if (!round->is_ending)
        set_gate(round, round->bell > round->rung ? gate_bell(round->bell) : GATE_OPEN);
}

/* A decided gate stays until every process has served the round or ended. */
static void lift_if_served(struct round *round)
{
    if (gate_is_decided(round->word) && all_have_served(round))
        lift_gate(round);
}

/* --- answers --- */

static void answer(struct round *round, struct member *m, bool leaves, bool is_committed)
{
    m->wait = WAIT_NONE;
    out_proc(round->out, m->slot,
             &(struct procmsg){.type = PROCMSG_ANSWER,
                               .step = m->wait_step,
                               .action = leaves ? PROC_EXIT : PROC_CONTINUE,
                               .committed = is_committed});
}

static bool waits_for_own(const struct member *m)
{
    return m->wait == WAIT_SAVE && m->wait_round == 0;
}

/* The chief will commit no own save up to this step. */
static uint64_t told_over(const struct round *round)
{
    return round->commit_step > round->own_closed ? round->commit_step : round->own_closed;
}

/* Own saves up to this step are over: committed, passed over, or failed. */
static uint64_t own_over(const struct round *round)
{
    uint64_t over = told_over(round);
    return round->failed_own > over ? round->failed_own : over;
}

/* Answers the processes whose wait is over. When the job ends, every wait is over. While a round is
 * open, no process may wait for its own save, because it must reach the gate. The own save can
 * still commit later. */
static void answer_waits(struct round *round)
{
    for (int i = 0; i < round->ranks->n; i++) {
        struct member *m = &round->ranks->members[i];
        bool is_own = waits_for_own(m), is_of_round = !is_own && m->wait_round == round->id;
        bool is_over = is_own ? m->wait_step <= own_over(round) || !round->is_closed
                              : is_of_round && round->is_closed;
        bool is_committed =
            is_own ? m->wait_step <= round->commit_step : round->phase == PHASE_COMMITTED;
        if (m->wait != WAIT_SAVE && m->wait != WAIT_HELD)
            continue;
        if (round->is_ending)
            answer(round, m, true, is_of_round && is_committed);
        else if (is_over)
            answer(round, m, is_of_round && round->leaves, is_committed);
    }
}

/* This own save cannot commit. The chief learns it, so that no rank on any node waits for it. */
static void fail_own(struct round *round, uint64_t step)
{
    if (step > round->failed_own && step <= RANKS_STEP_MAX)
        round->failed_own = step;
    answer_waits(round);
}

/* A rank that has ended, or that waits for a later own save, never makes this own save. So the
 * processes that wait for this one get their answer. */
static void release_from_absent(struct round *round)
{
    const struct ranks *ranks = round->ranks;
    for (int i = 0; i < ranks->n; i++)
        for (int k = 0; k < ranks->n && waits_for_own(&ranks->members[i]); k++) {
            const struct member *m = &ranks->members[k];
            uint64_t step = ranks->members[i].wait_step;
            bool is_past = waits_for_own(m) && m->wait_step > step;
            if (ranks_has_own(m, step) || !(m->is_ended || is_past))
                continue;
            if (!m->is_ended && step > own_over(round))
                round_say_past(round->out, m, step);
            fail_own(round, step);
        }
    answer_waits(round);
}

static int64_t wait_due_at(const struct round *round, const struct member *m)
{
    int64_t wait = m->is_wait_told ? round->out->params->commit_wait_ns : ROUND_TOLD_NS;
    return waits_for_own(m) ? m->wait_since + wait : CLOCK_NEVER;
}

int64_t round_wait_due_at(const struct round *round)
{
    int64_t at = CLOCK_NEVER;
    for (int i = 0; i < round->ranks->n; i++)
        at = clock_min(at, wait_due_at(round, &round->ranks->members[i]));
    return at;
}

void round_act_on_waits(struct round *round)
{
    for (int i = 0; i < round->ranks->n; i++) {
        struct member *m = &round->ranks->members[i];
        if (wait_due_at(round, m) > round->out->now)
            continue;
        m->is_wait_told = true;
        if (wait_due_at(round, m) <= round->out->now)
            answer(round, m, false, m->wait_step <= round->commit_step);
        else
            round_say_wait(round->out, round->ranks, m);
    }
}

/* --- records --- */

/* The own save that the chief may commit at any time; 0: none. A rank that later fails another save
 * does not withdraw this offer: the chief may not know of the failure yet. */
static uint64_t offered_own(const struct round *round)
{
    return round->prepared_own > told_over(round) ? round->prepared_own : 0;
}

/* A node offers its oldest own save that is not over, one at a time. So nodes at different steps
 * find a common save. */
static uint64_t next_own(const struct round *round)
{
    bool may_offer = round->is_closed && !offered_own(round);
    return may_offer ? ranks_own_step(round->ranks, own_over(round)) : 0;
}

/* The round's record is written again if the first had not all ranks. When the round is over, only
 * a round that needs every save goes on. */
static bool record_is_due(const struct round *round, int saved)
{
    bool is_new = round->prepared_round != round->id || saved > round->prepared_ranks;
    bool may = round->id > 0 && !round->save_error[0] && ranks_are_complete(round->ranks);
    bool matters = !round->is_closed || round->needs == NEEDS_ALL;
    return saved > 0 && may && is_new && matters && needed_may_record(round, saved);
}

/* This node's record is written before the chief learns of the save: a restart reads each rank's
 * path from it. */
static void write_next(struct round *round)
{
    uint64_t step;
    bool mismatch;
    /* When the job ends, no new record begins; an open one is finished. */
    if (round->is_writing || round->is_ending || round->leaves || round->out->broken)
        return;
    uint64_t own = next_own(round);
    int saved = needed_count_saved(round, &step, &mismatch);
    if (record_is_due(round, saved) && !mismatch) {
        round->saved_at = round->out->now;
        round->writing_round = round->id;
        round->writing_step = step;
        round->writing_ranks = saved;
        round->writing_whole = needed_whole(round);
    } else if (own > 0) {
        round->writing_round = 0;
        round->writing_step = own;
        round->writing_ranks = round->ranks->n;
        round->writing_whole = 0;
    } else {
        return;
    }
    round->is_writing = true;
    out_act(round->out, &(struct action){.type = ACT_PREPARE,
                                         .step = round->writing_step,
                                         .ranks = round->writing_ranks,
                                         .own = offered_own(round),
                                         .whole = round->writing_whole});
}

static void note_come(struct round *round)
{
    lift_if_served(round);
    if (round->needs != NEEDS_ALL)
        write_next(round);
}

/* --- the chief's orders --- */

static uint64_t word_of(const struct round *round, bool is_decided)
{
    return gate_make(round->save_step, round->id, is_decided, is_decided && round->ends_run);
}

static void open_ballot(struct round *round, const struct peer_stamp *stamp,
                        const struct peer_order *order)
{
    if (stamp->round != round->id) {
        round->opened_at = round->out->now;
        round->decided_at = round->saved_at = round->closed_at = 0;
        round->save_error[0] = '\0';
        round->needs = NEEDS_ALL;
    }
    round->id = stamp->round;
    round->ballot = stamp->ballot;
    round->phase = PHASE_PROPOSED;
    round->save_step = order->save_step;
    round->is_closed = false;
    round->vote = VOTE_NONE;
    answer_waits(round);
    /* The gate comes before the steps: a process that finishes a step in between sees the gate. */
    set_gate(round, word_of(round, false));
    out_simple(round->out, ACT_READ_STEPS);
}

static void decide(struct round *round, const struct peer_order *order)
{
    if (round->decided_at)
        return;
    round->phase = PHASE_DECIDED;
    round->ends_run = order->ends_run;
    round->needs = (enum save_needs)order->needs;
    round->decided_at = round->out->now;
    set_gate(round, word_of(round, true));
    lift_if_served(round);
}

static void close_round(struct round *round, const struct peer_stamp *stamp,
                        const struct peer_order *order)
{
    bool is_ours = stamp->round == round->id && round->phase != PHASE_IDLE;
    round->id = stamp->round;
    round->is_closed = true;
    round->leaves = order->leave;
    round->closed_at = round->out->now;
    /* Ranks of other nodes may have saved in a failed round. So our ranks serve it, too, even if
     * this node never got the decision. */
    if (order->phase == PHASE_FAILED && is_ours)
        decide(round, order);
    if (order->is_late && is_ours)
        round_say_unsaved(round->out, round->ranks, round->id, round->save_step);
    round->phase = order->phase;
    lift_if_served(round);
    answer_waits(round);
}

static void obey(struct round *round, const struct peer_stamp *stamp,
                 const struct peer_order *order)
{
    if (round->is_ending || stamp->round < round->id)
        return;
    bool is_new = stamp->round > round->id;
    if (!PROMISE(1, round->out, !is_new || round->is_closed))
        return;
    switch (order->phase) {
    case PHASE_IDLE:
        break;
    case PHASE_PROPOSED:
        if (is_new || (!round->is_closed && !round->decided_at && stamp->ballot > round->ballot))
            open_ballot(round, stamp, order);
        break;
    case PHASE_DECIDED:
        if (!is_new && !round->is_closed && stamp->ballot == round->ballot)
            decide(round, order);
        break;
    case PHASE_COMMITTED:
    case PHASE_FAILED:
    case PHASE_ABORTED:
        if (is_new || !round->is_closed)
            close_round(round, stamp, order);
        break;
    }
}

void round_order(struct round *round, const struct peer_stamp *stamp,
                 const struct peer_order *order)
{
    round->commit_step = order->commit_step;
    if (order->own_closed > round->own_closed)
        round->own_closed = order->own_closed;
    answer_waits(round);
    round->bell = order->bell;
    obey(round, stamp, order);
    /* A round that was called off must not hold a process, and the order may have a new bell. */
    if (round->is_closed && !gate_is_decided(round->word))
        lift_gate(round);
    write_next(round);
}

void round_end(struct round *round)
{
    set_gate(round, gate_leave());
    round->is_ending = round->is_closed = true;
    answer_waits(round);
}

/* --- the vote --- */

bool round_wants_steps(const struct round *round)
{
    return !round->is_closed && round->phase == PHASE_PROPOSED && round->vote == VOTE_NONE;
}

static void fail_save(struct round *round, struct member *m, const char *why)
{
    if (m)
        m->failed_round = m->served_round = round->id;
    if (m && needed_spares(round, m)) {
        out_log(round->out, LOG_WARN, "save", "%s; this save is not needed (save.needs)", why);
    } else if (!round->save_error[0]) {
        str_fit(round->save_error, sizeof round->save_error, why);
        out_log(round->out, LOG_ERROR, "save", "%s", why);
    }
}

void round_steps_read(struct round *round, const struct err *bad)
{
    if (!round_wants_steps(round))
        return;
    if (bad) {
        fail_save(round, NULL, bad->text);
        return;
    }
    if (!PROMISE(1, round->out, round->word == word_of(round, false)))
        return;
    /* Ended ranks count, too: a rank that ended beyond the step never saves it. */
    round->vote = ranks_steps_of(round->ranks).highest < round->save_step ? VOTE_ACK : VOTE_NACK;
}

/* --- a record is written, or failed --- */

static void take_record(struct round *round)
{
    round->prepared_round = round->writing_round;
    round->prepared_ranks = round->writing_ranks;
    round->prepared_whole = round->writing_whole;
}

void round_prepared(struct round *round, const struct err *bad)
{
    round->is_writing = false;
    /* Another round may have opened while the record was written. */
    if (bad && round->writing_round && round->writing_round == round->id)
        fail_save(round, NULL, bad->text);
    else if (bad)
        out_log(round->out, LOG_ERROR, "save", "step %llu cannot be recorded: %s",
                ull(round->writing_step), bad->text);
    else if (round->writing_round)
        take_record(round);
    else
        round->prepared_own = round->writing_step;
    /* Also in a round: the node must not offer a failed save again as an own save. */
    if (bad)
        fail_own(round, round->writing_step);
    write_next(round);
}

/* --- messages of processes --- */

/* A process knows a round by its tag. 0: an own save, or a round that is over. */
static uint32_t round_of_tag(const struct round *round, uint32_t tag)
{
    return tag != 0 && tag == gate_tag_of(round->id) ? round->id : 0;
}

static void wait_for_answer(struct round *round, struct member *m, enum member_wait wait,
                            const struct procmsg *msg)
{
    uint32_t id = round_of_tag(round, msg->tag);
    m->wait = wait;
    m->wait_step = msg->step;
    m->wait_round = id;
    m->wait_since = round->out->now;
    m->is_wait_told = false;
    if (msg->tag != 0 && id == 0) /* the round of this message is over, and another one has begun */
        answer(round, m, round->is_ending, msg->step == round->commit_step);
    else if (msg->tag == 0 && !round->is_ending)
        release_from_absent(round);
    else
        answer_waits(round);
}

static void on_save_failed(struct round *round, struct member *m, const struct procmsg *msg)
{
    char why[sizeof msg->text + 64] = "";
    str_addf(why, sizeof why, "rank %d could not save step %llu: %s", m->rank, ull(msg->step),
             msg->text);
    str_one_line(why);
    if (round_of_tag(round, msg->tag)) {
        fail_save(round, m, why);
    } else {
        out_log(round->out, LOG_WARN, "save", "%s", why);
        fail_own(round, msg->step);
    }
    note_come(round);
}

/* No training reaches this step, so the save counts as failed. */
static void on_absurd_save(struct round *round, struct member *m, const struct procmsg *msg)
{
    struct procmsg failed = *msg;
    str_copy(failed.text, sizeof failed.text, "this step number is too high");
    on_save_failed(round, m, &failed);
    m->wait_step = msg->step;
    if (msg->wants_answer && msg->tag == 0)
        answer(round, m, round->is_ending, false);
    else if (msg->wants_answer)
        wait_for_answer(round, m, WAIT_SAVE, msg);
}

static void on_saved(struct round *round, struct member *m, const struct procmsg *msg)
{
    if (msg->step > RANKS_STEP_MAX) {
        on_absurd_save(round, m, msg);
        return;
    }
    uint32_t id = round_of_tag(round, msg->tag);
    if (id) {
        m->served_round = m->saved_round = id;
        m->saved_step = msg->step;
        m->has_waited = msg->wants_answer;
    }
    /* Logged once: a program may make many such saves. */
    if (id == 0 && msg->step < round->commit_step && !round->is_return_told) {
        round_say_return(round->out, m, msg->step, round->commit_step);
        round->is_return_told = true;
    }
    if (msg->step > 0)
        ranks_add_own(m, msg->step, own_over(round));
    if (msg->wants_answer)
        wait_for_answer(round, m, WAIT_SAVE, msg);
    lift_if_served(round);
    write_next(round);
}

/* The process waits at this step, so its page need not be read. */
static void note_step(struct member *m, uint64_t step)
{
    m->step = step <= RANKS_STEP_MAX ? step : m->step;
}

/* The process waits at a gate; the next STATUS tells the chief its step. */
static void on_waiting(struct round *round, struct member *m, const struct procmsg *msg)
{
    note_step(m, msg->step);
    if (gate_is_bell(msg->word) && msg->word == round->word) {
        round->rung = round->bell;
        lift_gate(round);
    }
    if (msg->word != round->word)
        out_proc(round->out, m->slot, &(struct procmsg){.type = PROCMSG_LOOK});
    else
        m->wait = WAIT_GATE;
}

void round_attached(struct round *round, struct member *member)
{
    /* The process may replace a rank that ended, after which the gate was lifted. An open round
     * binds it, too, so the gate is set again. A round that is over does not bind it: a worker that
     * starts far behind would delay the next round. */
    if (!round->is_closed && round->phase == PHASE_DECIDED && !has_served(round, member))
        set_gate(round, word_of(round, true));
    else if (round->is_closed && !gate_is_decided(round->word))
        member->served_round = round->id;
}

void round_message(struct round *round, struct member *m, const struct procmsg *msg)
{
    switch (msg->type) {
    case PROCMSG_WAITING:
        on_waiting(round, m, msg);
        break;
    case PROCMSG_SERVING:
        note_step(m, msg->step);
        if (round_of_tag(round, msg->tag))
            m->served_round = round->id;
        note_come(round);
        break;
    case PROCMSG_SAVED:
        on_saved(round, m, msg);
        break;
    case PROCMSG_SAVE_FAILED:
        on_save_failed(round, m, msg);
        break;
    case PROCMSG_HELD:
        wait_for_answer(round, m, WAIT_HELD, msg);
        break;
    default:
        break;
    }
}

bool round_asks(const struct round *round, const struct member *m)
{
    bool has_saved = round->id > 0 && m->saved_round == round->id && !round->ends_run;
    return round->is_ending || round->leaves || m->wait != WAIT_NONE ||
           (!round->is_closed && !has_saved);
}

void round_ended(struct round *round)
{
    note_come(round);
    release_from_absent(round);
}

/* Own saves that are not offered yet: the job ends only after them. */
static bool has_more_own(const struct round *round)
{
    uint64_t over = own_over(round);
    uint64_t offered = round->prepared_own > over ? round->prepared_own : over;
    return (round->is_writing && !round->writing_round) ||
           ranks_own_step(round->ranks, offered) > 0;
}

void round_status(const struct round *round, bool can_save, struct peer_status *status)
{
    const struct ranks *ranks = round->ranks;
    bool mismatch;
    status->vote = (uint8_t)round->vote;
    status->closed = round->is_closed;
    status->saved = (uint16_t)needed_count_saved(round, &status->saved_step, &mismatch);
    status->mismatch = mismatch;
    status->prepared =
        round->id > 0 && round->prepared_round == round->id && round->prepared_ranks == ranks->n;
    needed_fill(round, can_save, status);
    status->served = (uint16_t)count_served(round);
    status->all_wait = true;
    for (int i = 0; i < ranks->n; i++) {
        const struct member *m = &ranks->members[i];
        bool has_saved = round->id > 0 && m->saved_round == round->id;
        status->failed += round->id > 0 && m->failed_round == round->id;
        status->ended += m->is_ended && !has_saved;
        if (has_saved && !m->has_waited)
            status->all_wait = false;
    }
    status->own_step = round->prepared_own;
    status->own_more = has_more_own(round);
    status->own_failed = round->failed_own;
    str_copy(status->save_error, sizeof status->save_error, round->save_error);
}
