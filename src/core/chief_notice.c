/* SPDX-License-Identifier: Apache-2.0
 * What the chief makes of notices, and of requests for a checkpoint. See chief_parts.h.
 */
#include "base/clock.h"
#include "base/str.h"
#include "core/chief_parts.h"
#include "core/grace.h"

#include <stdio.h>

/* --- notices --- */

/* More than is kept back for stopping, or nobody would be asked before the time is up. */
static int64_t lead_of(const struct chief *chief, const struct peer *peer)
{
    int64_t least = 2 * grace_margin(peer->notice_deadline - chief->notice.at);
    return peer->notice_lead > least ? peer->notice_lead : least;
}

void chief_gather_notices(struct chief *chief)
{
    int64_t deadline = CLOCK_NEVER;
    int node = -1;
    uint32_t hurry = 0;
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
    }
    bool is_live = node >= 0;
    if (deadline != chief->notice.deadline) {
        chief->is_changed = chief->is_plan_old = true;
        chief->next_loss_at = chief->out->now; /* it may come sooner now */
    }
    /* What is kept back is a part of the time that this one leaves, not of the one before it. */
    bool is_sooner = deadline < chief->notice.deadline - GRACE_SAME_NS;
    if (is_sooner)
        chief->notice.at = chief->out->now;
    /* A sooner end has a first save of its own, and is no plan from before the first step. */
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
    if (is_live)
        chief->notice.lead = lead_of(chief, &chief->peers[node]);
    chief->notice.hurry = hurry;
    chief_plan(chief);
}

static void end_unsaved(struct chief *chief, const char *why)
{
    chief_end(chief, &(struct chief_end){
                         .outcome = OUTCOME_PREEMPTED_UNSAVED, .manner = MANNER_STOP, .why = why});
}

/* Of a program that does not attach. */
static void ask(struct chief *chief)
{
    chief_end(chief,
              &(struct chief_end){
                  .outcome = OUTCOME_PREEMPTED_UNKNOWN,
                  .manner = chief->params->save_mode == SAVE_SIGNAL ? MANNER_ASK : MANNER_FORWARD,
                  .why = "the program was asked by signal: cannot know whether it saved"});
}

/* The time is up. Whom it was waited for is what somebody has to know. */
static void end_late(struct chief *chief)
{
    static const struct {
        enum fact fact;
        const char *text;
    } waits[] = {
        {FACT_COMPLETE, "not every rank had attached in time"},
        {FACT_LIVE, "the save was not committed in time: a rank had ended"},
        {FACT_VOTED, "the save was not committed in time: no word of the steps"},
        {FACT_SAVED, "the save was not committed in time: not all ranks saved"},
    };
    if (all_are(chief, FACT_DONE) && chief->order.commit_step >= chief_highest_step(chief)) {
        chief_end(chief, &(struct chief_end){
                             .outcome = OUTCOME_PREEMPTED,
                             .manner = MANNER_STOP,
                             .why = "every rank was done and committed, but the commands had not "
                                    "ended by the deadline"});
        return;
    }
    bool is_open = chief->order.phase == PHASE_PROPOSED || chief_is_deciding(chief);
    char text[256] = "the save was not committed in time", who[128];
    if (chief->writing == COMMIT_ROUND)
        str_addf(text, sizeof text, ": every rank has saved, but the record is not written");
    for (size_t i = 0; i < ARRAY_LEN(waits) && chief->writing != COMMIT_ROUND; i++) {
        bool is_of_round = waits[i].fact == FACT_VOTED || waits[i].fact == FACT_SAVED;
        if (all_are(chief, waits[i].fact) || is_of_round != is_open)
            continue;
        chief_tell_without(chief, waits[i].fact, who, sizeof who);
        snprintf(text, sizeof text, "%s: %s", waits[i].text, who);
        break;
    }
    end_unsaved(chief, text);
}

static bool any_trains(const struct chief *chief)
{
    for (int i = 0; i < chief->params->nnodes; i++)
        if (chief->peers[i].status.live > 0)
            return true;
    return false;
}

/* Some ranks have ended, others train: no step will be saved by all. Whoever gave the notice does
 * not have to wait for the deadline to learn that. */
static void say_if_hopeless(struct chief *chief)
{
    char who[128];
    if (chief->notice.is_hopeless || chief_is_deciding(chief) || !all_are(chief, FACT_KNOWS) ||
        !all_are(chief, FACT_COMPLETE) || all_are(chief, FACT_LIVE) || !any_trains(chief))
        return;
    chief->notice.is_hopeless = true;
    chief_tell_without(chief, FACT_LIVE, who, sizeof who);
    out_log(
        chief->out, LOG_WARN, "notice",
        "no save can be agreed on, since a rank has ended on %s; the job goes on until it ends, "
        "or until the deadline",
        who);
}

/* A job that has finished no step has nothing to save. It may yet finish one, if it attaches. A job
 * that has committed before does attach. Any other is told of the notice in time. */
static bool has_nothing_to_save(const struct chief *chief)
{
    bool will_attach = any_is(chief, FACT_ATTACHED) || chief->params->resume_step > 0;
    bool is_due =
        will_attach ? !chief_awaits_first_step(chief) : chief->out->now >= chief_ask_at(chief);
    return is_due && all_are(chief, FACT_KNOWS) && !any_is(chief, FACT_STEPPED) &&
           !chief_is_deciding(chief);
}

/* The first save comes at once, or when there is something to lose: the last one may fail. The last
 * save comes as late as it safely can. */
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

/* Steps are known late without a notice: of a node that has not read them since, nothing follows.
 */
static void judge_notice(struct chief *chief)
{
    if (chief->notice.is_judged || !all_are(chief, FACT_KNOWS))
        return;
    chief->notice.is_judged = true;
    chief->notice.stands = !any_is(chief, FACT_STEPPED);
}

void chief_decide_notice(struct chief *chief)
{
    if (!chief->notice.is_live || chief->is_trained)
        return;
    judge_notice(chief);
    if (chief->params->save_mode != SAVE_ATTACH) {
        if (chief->out->now >= chief_ask_at(chief))
            ask(chief);
    } else if (chief->notice.hurry >= (uint32_t)HURRY_STOP) {
        end_unsaved(chief, "told to stop before the save was committed");
    } else if (chief->out->now >= chief_abort_at(chief)) {
        end_late(chief);
    } else if (chief->writing == COMMIT_ROUND) {
        return; /* it follows from what comes of that */
    } else if (chief->order.phase == PHASE_PROPOSED) {
        chief->wants_to_end = chief_is_final(chief); /* as it is now: nobody has been told yet */
    } else {
        use_time(chief);
    }
}

/* --- checkpoints --- */

/* A notice has its own first and last save. Between them a long one is trained through as usual. */
static bool has_own_saves(const struct chief *chief)
{
    bool goes_on = chief->notice.has_saved || chief->notice.goes_on;
    return chief->notice.is_live && !(goes_on && chief_trains_on(chief));
}

/* It waits for the ranks, or for the round before it; said once. Of those who can save no longer
 * nothing is to be hoped. */
static void put_off_checkpoint(struct chief *chief, uint32_t asked)
{
    bool is_there = all_are(chief, FACT_COMPLETE) && any_is(chief, FACT_ATTACHED);
    if (is_there && !all_are(chief, FACT_LIVE)) {
        chief->checkpoints_done = asked;
        out_log(chief->out, LOG_WARN, "checkpoint",
                "asked for, and not made: a rank has ended and can save no more");
    } else if (!is_there && chief->checkpoints_told != asked) {
        out_log(chief->out, LOG_NOTICE, "checkpoint",
                "asked for; it is made when every rank has attached");
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

void chief_decide_period(struct chief *chief)
{
    if (has_own_saves(chief) || chief->is_trained || !chief_period_is_over(chief))
        return;
    if (!chief_can_open(chief))
        return;
    chief->order.bell = 0; /* it has rung */
    chief_open_round(chief, false, chief_period_step(chief));
}
