/* SPDX-License-Identifier: Apache-2.0
 * The chief's part in the agreement: propose, count votes, decide, commit or fail. See
 * chief_parts.h.
 */
#include "core/chief/chief.h"
#include "core/chief/chief_parts.h"
#include "core/common/ranks.h"

#include "base/clock.h"
#include "base/str.h"

#include <stdio.h>

/* --- the save step --- */

uint64_t chief_final_step(const struct chief *chief)
{
    uint64_t last = 0;
    for (int i = 0; i < chief->params->nnodes; i++) {
        uint64_t l = chief->peers[i].status.last_step;
        if (l && (!last || l < last))
            last = l;
    }
    return last;
}

/* Proposes one step above the furthest known rank, without a guess where that rank is by now. A
 * step that is too high cannot be lowered, and is out of reach when the pace drops. A step that is
 * too low costs another ballot. The tentative gate holds each rank that comes to it, so the third
 * ballot is above every rank at the latest. */
static void propose(struct chief *chief)
{
    uint64_t highest = chief->highest;
    uint64_t least = highest < chief->gen.least_step ? chief->gen.least_step : highest + 1;
    uint64_t step = stride_up(chief->gen.stride, least);
    uint64_t last = chief_final_step(chief);
    if (last && step > last)
        step = last;
    uint64_t period = chief->gen.stride.period;
    if (!PROMISE(9, chief->out, step <= highest + period || step < chief->gen.least_step + period))
        return;
    chief->gen.ballot++;
    chief->order.phase = PHASE_PROPOSED;
    chief->order.save_step = step;
    chief->order.ends_run = false;
    chief->order.leave = false;
    chief->order.needs = NEEDS_ALL;
    chief->is_changed = true;
    chief_note_all(chief);
    out_log(chief->out, LOG_DEBUG, "round", "%u: proposing to save at step %llu (ballot %u)",
            chief->gen.round, ull(step), chief->gen.ballot);
}

bool chief_can_open(const struct chief *chief)
{
    bool is_over = chief->gen.round == 0 ||
                   (all_are(chief, FACT_CLOSED) &&
                    (chief->order.phase == PHASE_ABORTED || all_are(chief, FACT_SERVED)));
    bool can = chief->order.roster && all_are(chief, FACT_COMPLETE) && all_are(chief, FACT_LIVE) &&
               any_is(chief, FACT_ATTACHED) && chief->writing != COMMIT_ROUND &&
               !chief_has_round(chief) && is_over && !any_is(chief, FACT_LOST);
    if (!can) /* the common case: avoids the loop over all nodes */
        return false;
    uint64_t last = chief_final_step(chief);
    return !last || chief->highest < last;
}

/* Processes that have not served a decided round still have to save in it. */
static bool says_closed(const struct chief *chief, const struct peer *peer)
{
    const struct peer_status *s = &peer->status;
    bool is_served = chief->order.phase == PHASE_ABORTED || s->served >= s->attached;
    return chief->gen.round == 0 ||
           (peer->stamp.round == chief->gen.round && s->closed && is_served);
}

void chief_open_round(struct chief *chief, bool ends_run, uint64_t least_step)
{
    if (!PROMISE(1, chief->out, chief_all_say(chief, says_closed)))
        return;
    chief->gen.round++;
    chief->gen.ballot = 0;
    chief->gen.least_step = least_step;
    chief->gen.wants_to_end = ends_run;
    chief->gen.proposed_at = chief->out->now;
    chief->gen.begun_at = chief->gen.hurt_at = 0;
    chief->gen.first_saved_at = CLOCK_NEVER;
    chief->order.why[0] = '\0';
    propose(chief);
}

/* --- votes --- */

static const char *first_error(const struct chief *chief, char *text, size_t size)
{
    const struct peer *peer = chief_first(chief, FACT_BAD);
    for (int i = 0; !peer && i < chief->params->nnodes; i++)
        if (peer_is(&chief->peers[i], FACT_FAILED) && chief->peers[i].status.save_error[0])
            peer = &chief->peers[i];
    if (!peer) {
        str_copy(text, size, "no save that it needs can come any more");
        return text;
    }
    snprintf(text, size, "node %d: %s", chief_rank_of(chief, peer),
             peer->status.save_error[0] ? peer->status.save_error
                                        : "its ranks saved at different steps");
    return text;
}

static bool says_yes(const struct chief *chief, const struct peer *peer)
{
    return peer->stamp.round == chief->gen.round && peer->stamp.ballot == chief->gen.ballot &&
           peer->status.vote == VOTE_ACK;
}

static void decide(struct chief *chief)
{
    if (!PROMISE(1, chief->out, chief_all_say(chief, says_yes)))
        return;
    chief->order.phase = PHASE_DECIDED;
    chief->order.ends_run = chief->gen.wants_to_end || any_is(chief, FACT_STOPS);
    chief->order.needs = (uint8_t)chief_needs(chief);
    chief->is_changed = true;
    chief_note_all(chief);
    twice_note(&chief->agreement, chief->out->now - chief->gen.proposed_at);
    out_log(chief->out, LOG_NOTICE, "save", "every rank saves step %llu%s",
            ull(chief->order.save_step), chief->order.ends_run ? ", then leaves" : "");
}

static void decide_proposed(struct chief *chief)
{
    char text[160];
    if (any_is(chief, FACT_BAD)) {
        chief_give_up(chief, PHASE_ABORTED, first_error(chief, text, sizeof text));
        return;
    }
    if (chief->gen.wants_to_end && !chief->notice.is_live) {
        chief_close_round(chief, PHASE_ABORTED, "the notice was withdrawn");
        return;
    }
    /* The next ballot waits for the votes of all nodes: each vote brings that node's newest step.
     */
    if (!all_are(chief, FACT_VOTED))
        return;
    bool is_wanted =
        any_is(chief, FACT_STOPS) || (chief->notice.is_live && !chief_awaits_first_step(chief));
    if (is_wanted && !any_is(chief, FACT_STEPPED)) {
        chief_leave_unsaved(chief); /* each vote came with freshly read steps */
        return;
    }
    if (!any_is(chief, FACT_NACK)) {
        decide(chief);
        return;
    }
    uint64_t last = chief_final_step(chief);
    if (last && chief->highest >= last)
        chief_close_round(chief, PHASE_ABORTED, "the training has reached its last step");
    else
        propose(chief);
}

/* --- saves --- */

struct saved {
    uint64_t lowest, highest;
};

/* The steps that the nodes with ranks have saved, in the round or by themselves. */
static struct saved find_saved(const struct chief *chief, enum chief_writing what)
{
    struct saved saved = {0};
    int n = 0;
    for (int i = 0; i < chief->params->nnodes; i++) {
        const struct peer_status *s = &chief->peers[i].status;
        uint64_t step = what == COMMIT_OWN ? s->own_step : s->saved_step;
        if (s->expected == 0)
            continue;
        saved.lowest = n++ == 0 || step < saved.lowest ? step : saved.lowest;
        saved.highest = step > saved.highest ? step : saved.highest;
    }
    return saved;
}

/* The first node whose ranks named no path, and so need another node's, but do not see the
 * directory of that path. False: there is none. */
static bool finds_blind(const struct chief *chief, char *text, size_t size)
{
    const struct peer *blind = NULL;
    bool is_shared = false;
    if (all_are(chief, FACT_SAME_DIR))
        return false;
    for (int i = chief->params->nnodes - 1; i >= 0; i--) {
        const struct peer *peer = &chief->peers[i];
        const struct peer_status *s = &peer->status;
        if (s->dir == DIR_OTHER && s->paths == PATHS_NONE && s->expected > 0)
            blind = peer;
        is_shared = is_shared || (s->dir == DIR_SAME && s->paths == PATHS_SHARED);
    }
    if (!blind || !is_shared)
        return false;
    snprintf(text, size,
             "node %d cannot see it: its checkpoint directory is not that of node 0 (if its ranks "
             "need not load it, set --no-checkpoint-shared)",
             chief_rank_of(chief, blind));
    return true;
}

static bool says_saved(const struct chief *chief, const struct peer *peer)
{
    const struct peer_status *s = &peer->status;
    if (s->expected == 0)
        return true;
    if (chief->writing == COMMIT_OWN)
        return s->own_step == chief->writing_step;
    return peer->stamp.round == chief->gen.round && s->saved == s->expected && s->prepared &&
           s->saved_step == chief->writing_step && !s->mismatch;
}

static bool is_proven(const struct chief *chief)
{
    bool is_enough = chief->writing == COMMIT_ROUND && chief_proves_enough(chief);
    return is_enough || chief_all_say(chief, says_saved);
}

static void write_commit(struct chief *chief, enum chief_writing what, uint64_t step)
{
    chief->writing = what;
    chief->writing_step = step;
    chief->writing_whole = what == COMMIT_ROUND ? chief_whole(chief) : 0;
    if (!PROMISE(3, chief->out, is_proven(chief)) || chief->out->broken) {
        chief->writing = COMMIT_NOTHING;
        return;
    }
    bool is_last = what == COMMIT_ROUND && chief->gen.wants_to_end;
    out_act(chief->out,
            &(struct action){.type = ACT_COMMIT,
                             .step = step,
                             .whole = chief->writing_whole,
                             .save_ns = chief_save_time(chief, what == COMMIT_ROUND),
                             .start_ns = chief->start_ns,
                             .ran_ns = chief_has_run(chief),
                             .failures = chief->params->failures + chief->failures + !is_last});
}

/* A rank has ended without a save, and all other ranks have saved or ended. */
static void settle_ended(struct chief *chief)
{
    const struct peer *peer = chief_first(chief, FACT_SOME_ENDED);
    char text[96];
    if (!any_is(chief, FACT_SOME_SAVED)) {
        bool has_come = chief->highest >= chief->order.save_step;
        chief->gen.wants_to_end = false; /* the training is over: its processes tell the outcome */
        chief_close_round(chief, PHASE_FAILED,
                          has_come ? "no rank reported its save; " RANKS_HOW_TO_REPORT
                                   : "the training ended before the save step");
        return;
    }
    snprintf(text, sizeof text, "node %d: a rank ended without saving the step",
             chief_rank_of(chief, peer));
    chief->gen.ended = peer;
    chief_give_up(chief, PHASE_FAILED, text);
}

/* Every rank has saved, failed or ended, and the round cannot commit. A node that may yet record
 * a save that is enough is waited for, unless a rank has left before the step. */
static bool is_settled(const struct chief *chief)
{
    bool waits =
        chief->order.needs != NEEDS_ALL && all_are(chief, FACT_CAME) && any_is(chief, FACT_HOPES);
    return any_is(chief, FACT_SOME_ENDED) && all_are(chief, FACT_SETTLED) && !waits;
}

static void decide_decided(struct chief *chief)
{
    char text[192], who[128];
    if (chief->writing != COMMIT_NOTHING)
        return;
    if (any_is(chief, FACT_SOME_SAVED) && chief->gen.first_saved_at == CLOCK_NEVER)
        chief->gen.first_saved_at = chief->out->now;
    if (all_are(chief, FACT_SERVED) && !chief->gen.begun_at)
        chief->gen.begun_at = chief->out->now;
    if (any_is(chief, FACT_BAD)) {
        chief_give_up(chief, PHASE_FAILED, first_error(chief, text, sizeof text));
    } else if (chief_is_enough(chief)) {
        write_commit(chief, COMMIT_ROUND, chief->order.save_step);
    } else if (all_are(chief, FACT_SAVED)) {
        struct saved saved = find_saved(chief, COMMIT_ROUND);
        if (finds_blind(chief, text, sizeof text))
            chief_give_up(chief, PHASE_FAILED, text);
        else if (saved.lowest == saved.highest)
            write_commit(chief, COMMIT_ROUND, saved.lowest);
        else
            chief_give_up(chief, PHASE_FAILED, "the nodes saved at different steps");
    } else if (any_is(chief, FACT_FAILED) && !chief_has_hope(chief)) {
        chief_give_up(chief, PHASE_FAILED, first_error(chief, text, sizeof text));
    } else if (is_settled(chief)) {
        settle_ended(chief);
    } else if (chief_saves_until(chief) <= chief->out->now) {
        chief_tell_without(chief, FACT_SAVED, who, sizeof who);
        snprintf(text, sizeof text, "not every rank saved in time: %s", who);
        chief_give_up(chief, PHASE_FAILED, text);
    }
}

/* --- the program's own saves --- */

/* Processes that wait for own saves up to this step get their answer. */
static void close_own(struct chief *chief, uint64_t step)
{
    chief->order.own_closed = step;
    chief->is_changed = true;
    chief_note_all(chief);
}

static void close_lonely_own(struct chief *chief)
{
    uint64_t highest = 0;
    for (int i = 0; i < chief->params->nnodes; i++)
        if (peer_is(&chief->peers[i], FACT_OWN) && chief->peers[i].status.own_step > highest)
            highest = chief->peers[i].status.own_step;
    if (highest <= chief->order.own_closed)
        return;
    out_log(chief->out, LOG_WARN, "commit",
            "step %llu is not committed: a rank has ended without having saved it", ull(highest));
    chief_note_uncommitted(chief, highest);
    close_own(chief, highest);
}

/* Each node tells its oldest own save that is not over. If the steps differ, the nodes at a higher
 * step have not made the lowest save, and never will. */
static void decide_own(struct chief *chief)
{
    char why[192];
    if (chief->writing != COMMIT_NOTHING || !all_are(chief, FACT_COMPLETE) ||
        !any_is(chief, FACT_ATTACHED))
        return;
    /* A node without one of its ranks offers no own save. So the own saves of the other nodes will
     * never be complete. */
    if (any_is(chief, FACT_NO_OWN) && any_is(chief, FACT_OWN))
        close_lonely_own(chief);
    if (!all_are(chief, FACT_OWN))
        return;
    struct saved own = find_saved(chief, COMMIT_OWN);
    bool is_blind = finds_blind(chief, why, sizeof why);
    if (own.lowest == own.highest && own.lowest != chief->gen.own_failed && !is_blind) {
        write_commit(chief, COMMIT_OWN, own.lowest);
        return;
    }
    out_log(chief->out, LOG_WARN, "commit", "step %llu is not committed: %s", ull(own.lowest),
            is_blind ? why
                     : "not every rank has saved it, or its save is too old to be remembered");
    if (is_blind)
        chief_note_uncommitted(chief, own.lowest);
    close_own(chief, own.lowest);
}

void chief_decide_round(struct chief *chief)
{
    if (chief->order.phase == PHASE_PROPOSED)
        decide_proposed(chief);
    else if (chief->order.phase == PHASE_DECIDED)
        decide_decided(chief);
    if (!chief_has_round(chief) && chief->order.end == END_NONE)
        decide_own(chief);
    /* A save that failed on one node cannot commit. But an open commit record comes first: until it
     * is written, the nodes keep their parts of that step. */
    if (chief->gen.own_failed > chief->order.own_closed && chief->writing == COMMIT_NOTHING)
        close_own(chief, chief->gen.own_failed);
}

/* --- the record --- */

static void committed_round(struct chief *chief)
{
    chief_note_saved(chief);
    chief_choose_period(chief);
    chief->replan_at = 0;
    chief_plan(chief);
    bool is_due = chief->notice.is_live && !chief->gen.is_trained && !chief_trains_on(chief) &&
                  !chief_hears_late_news(chief);
    /* If every rank is done, the job ends with success instead. */
    /* Near a notice a rank or a node that is gone ends the job: this save was its last. */
    bool is_hurt = chief->gen.hurt_at && chief_notice_is_near(chief);
    bool is_wanted = chief->gen.wants_to_end || is_due || is_hurt || any_is(chief, FACT_STOPS);
    bool leaves = is_wanted && !all_are(chief, FACT_DONE);
    chief->gen.wants_to_end = leaves;
    chief_close_round(chief, PHASE_COMMITTED, "");
    if (!leaves && !all_are(chief, FACT_DONE) && !chief->gen.hurt_at)
        chief_go_on(chief);
    if (!leaves)
        return;
    char why[64];
    snprintf(why, sizeof why, "saved %s at step %llu",
             chief->params->has_record ? "and committed" : "without a record (no checkpoint.dir)",
             ull(chief->order.commit_step));
    chief_end_for_notice(
        chief,
        &(struct chief_end){.outcome = OUTCOME_PREEMPTED, .manner = MANNER_LEAVE, .why = why});
}

void chief_committed(struct chief *chief, const struct err *bad)
{
    enum chief_writing what = chief->writing;
    chief->writing = COMMIT_NOTHING;
    if (bad) {
        out_log(chief->out, LOG_ERROR, "commit", "step %llu was not committed: %s",
                ull(chief->writing_step), bad->text);
        chief_note_uncommitted(chief, chief->writing_step);
    } else {
        chief->order.commit_step = chief->writing_step;
        chief->order.commit_whole = chief->writing_whole;
        chief_note_without(chief, what == COMMIT_ROUND);
        chief->has_committed = true;
        chief->kept_at = chief->out->now;
        chief_count_anew(chief, chief->writing_step);
        chief->is_changed = true;
        chief_note_all(chief);
    }
    if (what == COMMIT_OWN) {
        chief->saves_itself = true;
        close_own(chief, chief->writing_step);
        if (!bad)
            chief_say_saved(chief, LOG_INFO, chief->writing_step);
        return;
    }
    if (what != COMMIT_ROUND || chief->order.phase != PHASE_DECIDED)
        return; /* the job ended meanwhile */
    if (bad)
        chief_give_up(chief, PHASE_FAILED, bad->text);
    else
        committed_round(chief);
}
