/* SPDX-License-Identifier: Apache-2.0
 * The chief's decisions about notices, and about requests for a checkpoint. See chief_parts.h.
 */
#include "base/clock.h"
#include "base/str.h"
#include "core/chief/chief_parts.h"
#include "core/common/grace.h"

#include <stdio.h>
#include <stdlib.h>

/* --- notices --- */

/* The lead must exceed the time that is kept for stopping, or no program would be asked in time. */
static int64_t lead_of(const struct chief *chief, const struct peer *peer)
{
    int64_t least = 2 * grace_margin(peer->notice_deadline - chief->notice.at);
    return peer->notice_lead > least ? peer->notice_lead : least;
}

/* A node names its own notice. */
static void name_other_node(struct chief *chief)
{
    const struct peer *peer = &chief->peers[chief->notice.node];
    const struct notice_label *label = &peer->status.notice;
    char left[32];
    if (peer->at.conn != CONN_SELF)
        out_log(chief->out, LOG_NOTICE, "notice", "node %d (%s): %s%s%.200s, %s left",
                chief->notice.node, peer->at.host, label->source, label->text[0] ? " " : "",
                label->text,
                str_about(chief->notice.deadline - chief->out->now, left, sizeof left));
}

/* A notice also ends when its node has left. */
static void say_withdrawn(struct chief *chief)
{
    const struct peer *peer = &chief->peers[chief->notice.node];
    if (peer->at.conn != CONN_SELF && !peer_is(peer, FACT_LOST))
        out_log(chief->out, LOG_NOTICE, "notice",
                "node %d (%s): withdrawn: no node has a notice any more", chief->notice.node,
                peer->at.host);
}

/* A program that does not attach is asked at the same time in any case. */
static void say_whether_it_trains_on(struct chief *chief)
{
    bool is_guess = chief->notice.is_guess, is_auto = chief->params->train_on == TRAIN_ON_AUTO;
    bool attaches = chief->params->save_mode == SAVE_ATTACH && any_is(chief, FACT_ATTACHED);
    char left[32];
    if (!chief->notice.is_live || chief->gen.is_trained || !attaches || chief_is_over(chief))
        return;
    str_about(chief->notice.deadline - chief->out->now, left, sizeof left);
    if (is_auto && is_guess)
        out_log(chief->out, LOG_NOTICE, "notice",
                "the deadline is a guess (%s), so the job saves and leaves at once; to train on "
                "set grace or save.train_on",
                left);
    else if (is_auto)
        out_log(chief->out, LOG_NOTICE, "notice",
                "the deadline is known (%s), so the job trains on if there is time; with "
                "save.train_on false it saves and leaves at once",
                left);
    else if (is_guess && chief->params->train_on == TRAIN_ON_ALWAYS)
        out_log(chief->out, LOG_NOTICE, "notice",
                "the deadline is a guess (%s), but save.train_on is true, so the job trains on",
                left);
}

void chief_gather_notices(struct chief *chief)
{
    int64_t deadline = CLOCK_NEVER;
    int node = -1;
    uint32_t hurry = 0;
    bool has_signal = false;
    if (!chief->notice_changed) {
        chief_plan(chief);
        return;
    }
    chief->notice_changed = false;
    for (int i = 0; i < chief->params->nnodes; i++) {
        const struct peer *peer = &chief->peers[i];
        if (peer->notice_deadline < deadline) {
            deadline = peer->notice_deadline;
            node = i;
        }
        if (peer->notice_hurry > hurry)
            hurry = peer->notice_hurry;
        has_signal = has_signal || peer->notice_has_signal;
    }
    bool is_live = node >= 0, is_guess = is_live && chief->peers[node].notice_is_guess;
    if (chief->notice.is_live && !is_live)
        say_withdrawn(chief);
    bool is_told = llabs(deadline - chief->notice.deadline) <= GRACE_SAME_NS &&
                   is_guess == chief->notice.is_guess;
    if (deadline != chief->notice.deadline) {
        chief->is_changed = true;
        chief->replan_at = 0;
        chief->next_loss_at = chief->out->now; /* a node may be lost earlier now */
    }
    /* The margins are a part of the time that this notice leaves, so its time begins now. */
    bool is_sooner = deadline < chief->notice.deadline - GRACE_SAME_NS;
    if (is_sooner)
        chief->notice.at = chief->out->now;
    /* An earlier deadline needs a first save of its own. The first step is finished, so the notice
     * is no longer far. */
    if (is_sooner || !is_live)
        chief->notice.has_saved = chief->notice.goes_on = false;
    if (is_sooner && any_is(chief, FACT_STEPPED))
        chief->notice.stands = false;
    if (!chief->notice.is_live) {
        chief->notice.stands = is_live && !any_is(chief, FACT_STEPPED);
        chief->notice.is_judged = !chief->order.start; /* before the start there is no step */
    }
    chief->notice.is_live = is_live;
    chief->notice.is_hopeless = chief->notice.is_hopeless && is_live;
    chief->notice.node = node;
    chief->notice.deadline = deadline;
    chief->notice.is_guess = is_guess;
    chief->notice.has_signal = has_signal;
    if (is_live)
        chief->notice.lead = lead_of(chief, &chief->peers[node]);
    chief->notice.hurry = hurry;
    if (!is_told) {
        if (is_live)
            name_other_node(chief);
        say_whether_it_trains_on(chief);
    }
    chief_plan(chief);
}

/* Only for a program that does not attach. */
static void ask(struct chief *chief)
{
    chief_end(chief,
              &(struct chief_end){
                  .outcome = OUTCOME_PREEMPTED_UNKNOWN,
                  .manner = chief_asks_by(chief),
                  .why = "the program was asked by signal: pchrun cannot know whether it saved"});
}

/* Every node knows of the notice, and no rank has finished a step. */
static bool has_no_step(const struct chief *chief)
{
    return all_are(chief, FACT_KNOWS) && !any_is(chief, FACT_STEPPED) && !chief_is_deciding(chief);
}

/* The deadline is too near for a save. The end names the ranks that the save has waited for. */
static void end_late(struct chief *chief)
{
    static const struct {
        enum fact fact;
        const char *text;
    } waits[] = {
        {FACT_COMPLETE, "not every rank had attached in time"},
        {FACT_LIVE, "the save was not committed in time: a rank had ended"},
        {FACT_VOTED, "the save was not committed in time: no vote on the save step"},
        {FACT_SAVED, "the save was not committed in time: not all ranks saved"},
    };
    if (has_no_step(chief)) {
        chief_leave_unsaved(chief);
        return;
    }
    if (all_are(chief, FACT_DONE) && chief->order.commit_step >= chief->highest) {
        chief_stop(chief, OUTCOME_PREEMPTED, 0,
                   "every rank was done and committed, but the commands had not ended by the "
                   "deadline");
        return;
    }
    char text[256] = "the save was not committed in time", who[128];
    if (chief->writing == COMMIT_ROUND)
        str_addf(text, sizeof text, ": every rank has saved, but the record is not written");
    for (size_t i = 0; i < ARRAY_LEN(waits) && chief->writing != COMMIT_ROUND; i++) {
        bool is_of_round = waits[i].fact == FACT_VOTED || waits[i].fact == FACT_SAVED;
        if (all_are(chief, waits[i].fact) || is_of_round != chief_has_round(chief))
            continue;
        bool is_ahead = waits[i].fact == FACT_SAVED && chief->highest < chief->order.save_step;
        chief_tell_without(chief, waits[i].fact, who, sizeof who);
        snprintf(text, sizeof text, "%s%s: %s", waits[i].text,
                 is_ahead ? ", and none had come to the step" : "", who);
        break;
    }
    chief_stop(chief, OUTCOME_PREEMPTED_UNSAVED, 0, text);
}

/* Some ranks have ended and others train, so no step will be saved by all ranks. The log says so
 * when a save is due, not only at the deadline. At the end of a training this is normal: nodes end
 * one after the other. Then no save is due, and nothing is logged. */
static void say_if_hopeless(struct chief *chief)
{
    char who[128];
    bool is_due = chief_first_is_due(chief) || chief_is_final(chief);
    if (!is_due || chief->notice.is_hopeless || chief_is_deciding(chief) ||
        !all_are(chief, FACT_KNOWS) || !all_are(chief, FACT_COMPLETE) ||
        all_are(chief, FACT_LIVE) || !any_is(chief, FACT_SOME_LIVE))
        return;
    chief->notice.is_hopeless = true;
    chief_tell_without(chief, FACT_LIVE, who, sizeof who);
    out_log(
        chief->out, LOG_WARN, "notice",
        "no save can be agreed on, since a rank has ended on %s; the job goes on until it ends, "
        "or until the deadline",
        who);
}

/* A job that has finished no step has nothing to save. A program that attaches may still finish a
 * step, and a job that resumes from a commit will attach. Any other program gets the signal in
 * time. */
static bool has_nothing_to_save(const struct chief *chief)
{
    bool will_attach = any_is(chief, FACT_ATTACHED) || chief->order.commit_step > 0;
    bool is_due =
        will_attach ? !chief_awaits_first_step(chief) : chief->out->now >= chief_ask_at(chief);
    return is_due && has_no_step(chief);
}

/* The first save comes early, because the last one may fail. The last save is as late as is safe.
 */
static void open_round(struct chief *chief)
{
    if (chief_is_final(chief))
        chief_open_round(chief, true, 0);
    else if (chief_first_is_due(chief))
        chief_open_round(chief, false, 0);
    else if (!chief->notice.has_saved && !chief->notice.goes_on)
        chief_go_on(chief);
}

static void use_time(struct chief *chief)
{
    bool is_due = !chief->notice.has_saved || chief_is_final(chief);
    if ((!is_due || chief_awaits_first_step(chief)) && all_are(chief, FACT_LIVE))
        return; /* the training goes on, or is about to begin */
    if (chief_can_open(chief))
        open_round(chief);
    else if (has_nothing_to_save(chief))
        chief_leave_unsaved(chief);
    else
        say_if_hopeless(chief);
}

/* A node's step may be old until the node has read its steps for the notice. So the chief waits
 * until every node has read them. */
static void judge_notice(struct chief *chief)
{
    if (chief->notice.is_judged || !all_are(chief, FACT_KNOWS))
        return;
    chief->notice.is_judged = true;
    chief->notice.stands = !any_is(chief, FACT_STEPPED);
}

void chief_decide_notice(struct chief *chief)
{
    if (!chief->notice.is_live || chief->gen.is_trained || chief_is_over(chief))
        return;
    judge_notice(chief);
    if (chief->params->save_mode != SAVE_ATTACH) {
        if (chief->out->now >= chief_ask_at(chief))
            ask(chief);
    } else if (chief->notice.hurry >= (uint32_t)HURRY_STOP) {
        chief_stop(chief, OUTCOME_PREEMPTED_UNSAVED, 0,
                   "told to stop before the save was committed");
    } else if (chief->out->now >= chief_abort_at(chief)) {
        end_late(chief);
    } else if (chief->writing == COMMIT_ROUND) {
        return; /* chief_committed() goes on when the record is written */
    } else if (chief->order.phase == PHASE_PROPOSED) {
        /* Nodes learn of this with the decision. The plan may have moved since the proposal, so
         * that no second save fits any more. */
        chief->gen.wants_to_end = chief_is_final(chief) || !chief_has_room(chief);
    } else {
        use_time(chief);
    }
}

/* --- checkpoints --- */

/* A notice makes its own first and last save. Between the two, the usual saves go on. A save that
 * would not end before the last save begins is not made: the last save replaces it. */
static bool has_own_saves(const struct chief *chief)
{
    bool goes_on = chief->notice.has_saved || chief->notice.goes_on;
    return chief->notice.is_live && !(goes_on && chief_has_room(chief));
}

/* The request waits until every rank has attached, or until the open round is over. It fails if a
 * rank has ended: that rank cannot save any more. */
static void put_off_checkpoint(struct chief *chief, uint32_t asked)
{
    bool is_there = all_are(chief, FACT_COMPLETE) && any_is(chief, FACT_ATTACHED);
    if (is_there && !all_are(chief, FACT_LIVE)) {
        chief->checkpoints_done = asked;
        out_log(chief->out, LOG_WARN, "checkpoint",
                "no save is made, though one was asked for: a rank has ended and cannot save");
    } else if (!is_there && chief->checkpoints_told != asked) {
        out_log(chief->out, LOG_NOTICE, "checkpoint",
                "a save was asked for; it is made when every rank has attached");
    }
    chief->checkpoints_told = asked;
}

void chief_decide_checkpoint(struct chief *chief)
{
    uint32_t asked = chief->checkpoints;
    if (asked == chief->checkpoints_done || has_own_saves(chief))
        return;
    if (!chief_can_open(chief)) {
        put_off_checkpoint(chief, asked);
        return;
    }
    chief->checkpoints_done = asked;
    chief_open_round(chief, false, 0);
}

/* --- a save, then the end --- */

static void give_up_stops(struct chief *chief, const char *why)
{
    str_copy(chief->order.why, sizeof chief->order.why, why);
    chief->gen.stop_round = 0;
    chief_give_up_stops(chief);
}

void chief_decide_stop(struct chief *chief)
{
    char text[192], who[128];
    bool has_failed = chief->gen.stop_round > 0 && !chief_has_round(chief);
    if (!any_is(chief, FACT_STOPS) || chief->writing == COMMIT_ROUND)
        return;
    if (!has_failed && chief_can_open(chief))
        chief_open_round(chief, false, 0);
    if (chief_has_round(chief)) {
        chief->gen.stop_round = chief->gen.round;
    } else if (has_failed) {
        snprintf(text, sizeof text, "the save failed: %.160s", chief->order.why);
        give_up_stops(chief, text);
    } else if (!any_is(chief, FACT_ATTACHED)) {
        give_up_stops(chief, "no process has attached, so none can be asked to save");
    } else if (all_are(chief, FACT_COMPLETE) && !all_are(chief, FACT_LIVE)) {
        chief_tell_without(chief, FACT_LIVE, who, sizeof who);
        snprintf(text, sizeof text, "a rank has ended on %s, and cannot save", who);
        give_up_stops(chief, text);
    }
}

/* --- saves without a request --- */

void chief_decide_period(struct chief *chief)
{
    if (has_own_saves(chief) || chief->gen.is_trained || !chief_period_is_over(chief))
        return;
    if (!chief_can_open(chief))
        return;
    chief->order.bell = 0; /* a rank has reached the bell's step */
    chief_open_round(chief, false, chief_period_step(chief));
}
