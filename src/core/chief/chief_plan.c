/* SPDX-License-Identifier: Apache-2.0
 * How the job uses the time that a notice leaves: how long a save takes, and then the end of the
 * processes, and the last moment for a save. See chief_parts.h.
 */
#include "core/chief/chief.h"
#include "core/chief/chief_parts.h"

#include "base/clock.h"
#include "base/str.h"
#include "core/common/grace.h"

/* How often the plan is computed again while the ranks train. */
#define REPLAN_NS (250 * NS_PER_MS)

/* The assumed duration of an agreement until one is measured; the network's round trips are added.
 */
#define AGREEMENT_NS (20 * NS_PER_MS)

/* Training on is worth another save if it lasts at least 1/WORTH of a save's time. */
#define WORTH 32

/* No save measured yet: assume that a save takes 1/FIT of the grace. */
#define FIT 4

/* No end measured yet: a PyTorch program that uses CUDA takes one to two seconds to end. */
#define END_NS (2 * NS_PER_S)

/* The first save of a notice waits until the last commit is older than this many times the duration
 * of a save. Then the save costs less than the training that it protects. */
#define SPARED 20

/* --- what was measured --- */

/* A slower save counts at once, and a quicker one by a quarter: a few saves forget one outlier. */
static int64_t slower(int64_t known, int64_t took)
{
    return took >= known ? took : known - (known - took) / 4;
}

/* How long the save of the open round took; 0: unknown. A measured time in which this supervisor
 * did not run counts only if no other was measured. */
static int64_t took_to_save(const struct chief *chief)
{
    int64_t began = chief->gen.begun_at, took = chief->out->now - began;
    bool is_odd = chief->away_until > began && chief->save_ns > 0;
    return began && took > 0 && !is_odd ? took : 0;
}

int64_t chief_save_time(const struct chief *chief, bool is_round)
{
    int64_t took = is_round ? took_to_save(chief) : 0;
    return took ? slower(chief->save_ns, took) : chief->save_ns;
}

void chief_note_saved(struct chief *chief)
{
    int64_t took = took_to_save(chief), quick = chief->quick_save_ns;
    chief->save_ns = chief_save_time(chief, true);
    if (took) {
        chief->saves_seen++;
        chief->quick_save_ns = !quick || took < quick ? took : quick + (took - quick) / 4;
    }
    for (int i = 0; i < chief->params->nnodes; i++)
        if (peer_is(&chief->peers[i], FACT_WAITS))
            chief_pace_again(chief, &chief->peers[i]);
}

/* A node tells of its first step with its next message, so a start may seem a second longer. */
void chief_note_start(struct chief *chief)
{
    if (chief->gen.has_started || !all_are(chief, FACT_STEPPED))
        return;
    chief->gen.has_started = true;
    chief->start_ns = slower(chief->start_ns, chief->out->now - chief->gen.began_at);
}

static int64_t grace_of(const struct chief *chief)
{
    return chief->notice.deadline - chief->notice.at;
}

/* How long the ranks may take to leave. The ranks never get more time than pchrun waits for their
 * end. */
static int64_t expected_end(const struct chief *chief)
{
    const struct core_params *p = chief->params;
    int64_t takes = chief->end_ns ? chief->end_ns : clock_min(END_NS, grace_of(chief) / FIT);
    return clock_min(takes, p->exit_wait_ns + p->term_wait_ns);
}

int64_t chief_took_to_end(const struct chief *chief, bool *ret_cut)
{
    int64_t longest = 0;
    *ret_cut = !all_are(chief, FACT_GONE);
    for (int i = 0; i < chief->params->nnodes; i++) {
        const struct peer_status *s = &chief->peers[i].status;
        longest = s->end_ns > longest ? s->end_ns : longest;
        *ret_cut = *ret_cut || s->end_cut;
    }
    return longest;
}

/* An end that was cut short only proves that the ranks take at least so long. So the next plan has
 * twice that time, but no more than 1/FIT of the grace. */
void chief_note_end(struct chief *chief)
{
    bool is_cut;
    int64_t took = chief_took_to_end(chief, &is_cut), most = grace_of(chief) / FIT;
    if (took <= 0 || (is_cut && took <= expected_end(chief)))
        return;
    if (is_cut && took < most)
        took = clock_min(2 * took, most);
    chief->end_ns = slower(chief->end_ns, took);
}

/* --- the plan --- */

/* This supervisor did not run at the deadline, and the machine is still there. All that the ranks
 * have done meanwhile counts, so the nodes have time to report it. */
static bool has_slept_through(const struct chief *chief)
{
    int64_t deadline = chief->notice.deadline;
    return chief->away_since < deadline && deadline <= chief->away_until;
}

/* A save is worth more than a clean stop: node 0 gives it up only if even a quick save would be
 * late. */
int64_t chief_time_is_up_at(const struct chief *chief)
{
    if (!chief->notice.is_live)
        return CLOCK_NEVER;
    if (has_slept_through(chief))
        return chief->away_until + chief->params->reconnect_ns;
    bool has_begun = chief->order.phase == PHASE_DECIDED && chief->gen.begun_at;
    int64_t kept = grace_margin(grace_of(chief));
    int64_t needed = grace_least_margin(grace_of(chief)) + (has_begun ? 0 : chief->quick_save_ns);
    if (all_are(chief, FACT_COMPLETE) && all_are(chief, FACT_LIVE))
        kept = clock_min(kept, needed);
    return chief->notice.deadline - kept;
}

int64_t chief_abort_at(const struct chief *chief)
{
    return chief->gen.is_trained ? CLOCK_NEVER : chief_time_is_up_at(chief);
}

/* The last save of a live notice may take until chief_abort_at(). In any other save, the ranks that
 * have saved wait `commit_wait` for the rest. */
int64_t chief_saves_until(const struct chief *chief)
{
    if (chief->order.phase != PHASE_DECIDED || chief->gen.first_saved_at == CLOCK_NEVER ||
        (chief->gen.wants_to_end && chief->notice.is_live) || chief->writing != COMMIT_NOTHING)
        return CLOCK_NEVER;
    return chief->gen.first_saved_at + chief->params->commit_wait_ns;
}

bool chief_hears_late_news(const struct chief *chief)
{
    return has_slept_through(chief) && chief->out->now < chief_abort_at(chief);
}

/* How much longer the last step and the last save may take than they usually do, `step` and `save`.
 * A step may take half as long again; the way of the ranks to a common step may take a quarter
 * longer. They are rarely late together, so one spare time serves all. A single save does not show
 * how saves vary: the next may take twice as long. */
static int64_t spare_for_last(const struct chief *chief, int64_t step, int64_t save)
{
    int64_t lag = chief_lag(chief), late = step / 2 > lag / 4 ? step / 2 : lag / 4;
    int64_t quick = chief->quick_save_ns ? chief->quick_save_ns : save;
    int64_t more = grace_save_need(save, quick) - save;
    int64_t unknown = chief->saves_seen < 2 ? clock_min(save, grace_of(chief) / 10) : 0;
    more = unknown > more ? unknown : more;
    return more > late ? more : late;
}

static int64_t expected_agreement(const struct chief *chief)
{
    int64_t longest = twice_shown(&chief->agreement);
    for (int i = 0; i < chief->params->nnodes; i++) {
        int64_t takes = 4 * (int64_t)chief->peers[i].status.rtt_ns + AGREEMENT_NS;
        longest = takes > longest ? takes : longest;
    }
    return longest;
}

/* From this time on, only the last save can keep the steps. */
static int64_t unsaved_from(const struct chief *chief)
{
    return chief_first_is_due(chief) ? chief->out->now + chief->save_ns : chief->kept_at;
}

/* If saves are long, only the spare time may remain after the first save. Then the job trains
 * through half of it: a second save that may come too late keeps more than no second save.
 */
void chief_plan(struct chief *chief)
{
    if (!chief->notice.is_live || chief->gen.is_trained || chief->out->now < chief->replan_at)
        return;
    chief->replan_at = chief->out->now + REPLAN_NS;
    chief_look_at_lag(chief);
    int64_t save = chief->save_ns ? chief->save_ns : grace_of(chief) / FIT;
    int64_t step = chief_time_of_step(chief);
    int64_t last = step + chief_lag(chief) + save + expected_agreement(chief);
    if (chief->saves_itself) /* the program may just have begun a save of its own */
        last += chief->save_ns;
    int64_t end = grace_end_need(expected_end(chief)) + grace_reserve(grace_of(chief));
    int64_t latest = chief->notice.deadline - end - last, left = latest - unsaved_from(chief);
    int64_t spare = spare_for_last(chief, step, save);
    chief->notice.final_at = latest - (left > 0 ? clock_min(spare, left / 2) : spare);
    chief->notice.least_ns = step > chief->save_ns / WORTH ? step : chief->save_ns / WORTH;
}

/* A notice is live, and the training may still end for it. */
static bool has_plan(const struct chief *chief)
{
    return chief->notice.is_live && !chief->gen.is_trained;
}

int64_t chief_first_due_at(const struct chief *chief)
{
    if (!has_plan(chief) || chief->notice.has_saved)
        return CLOCK_NEVER;
    return chief->quick_save_ns ? chief->kept_at + SPARED * chief->save_ns : chief->notice.at;
}

bool chief_first_is_due(const struct chief *chief)
{
    return chief->out->now >= chief_first_due_at(chief);
}

int64_t chief_final_at(const struct chief *chief)
{
    bool saves = has_plan(chief) && chief->params->save_mode == SAVE_ATTACH;
    return saves ? chief->notice.final_at : CLOCK_NEVER;
}

/* The machine may be taken away long before a deadline that is a guess. */
static bool may_train_on(const struct chief *chief)
{
    bool is_auto = chief->params->train_on == TRAIN_ON_AUTO;
    return is_auto ? !chief->notice.is_guess : chief->params->train_on == TRAIN_ON_ALWAYS;
}

/* A source names its deadline to each attempt anew. A signal comes to one attempt only. */
static bool is_told_to_each(const struct chief *chief)
{
    return chief->notice.stands && !chief->notice.has_signal &&
           chief->params->save_mode == SAVE_ATTACH;
}

static int64_t plan_need(const struct chief *chief)
{
    int64_t grace = chief->params->grace_ns;
    return is_told_to_each(chief) ? grace_plan_need(grace, chief->start_ns, chief->save_ns) : grace;
}

bool chief_uses_time(const struct chief *chief)
{
    bool is_plan =
        chief->notice.stands && !chief->notice.is_guess && grace_of(chief) > plan_need(chief);
    return (may_train_on(chief) || is_plan) && chief->notice.hurry < (uint32_t)HURRY_SAVE;
}

bool chief_trains_on(const struct chief *chief)
{
    return chief_uses_time(chief) &&
           chief->notice.final_at - chief->out->now > chief->notice.least_ns;
}

bool chief_has_room(const struct chief *chief)
{
    int64_t takes = chief->save_ns + chief->notice.least_ns;
    return chief_uses_time(chief) && chief->out->now + takes < chief_final_at(chief);
}

bool chief_is_final(const struct chief *chief)
{
    if (chief_first_is_due(chief))
        return !chief_has_room(chief);
    return !chief_uses_time(chief) || chief->out->now >= chief_final_at(chief);
}

void chief_go_on(struct chief *chief)
{
    char left[32];
    if (!chief->notice.is_live || chief->gen.is_trained || chief_hears_late_news(chief))
        return;
    chief->notice.goes_on = true;
    out_log(chief->out, LOG_NOTICE, "notice",
            "the training goes on for %s, and saves once more before the deadline",
            str_about(chief->notice.final_at - chief->out->now, left, sizeof left));
}

int64_t chief_ask_at(const struct chief *chief)
{
    if (!has_plan(chief))
        return CLOCK_NEVER;
    return chief_uses_time(chief) ? chief->notice.deadline - chief->notice.lead : chief->notice.at;
}

/* --- a notice that came before the first step ---
 *
 * A deadline that leaves more than `grace`, or enough time for a start and a save, is far. The job
 * starts and trains up to it. A notice that leaves less time ends a job that has nothing to save
 * yet. */

int64_t chief_near_at(const struct chief *chief)
{
    if (!chief->notice.is_live)
        return CLOCK_NEVER;
    if (!chief_uses_time(chief))
        return chief->notice.at;
    if (is_told_to_each(chief))
        return chief->notice.deadline - plan_need(chief);
    return grace_near_at(chief->notice.deadline, chief->notice.lead, chief->params->grace_ns);
}

bool chief_notice_is_near(const struct chief *chief)
{
    bool is_ending = chief_is_deciding(chief) && chief->gen.wants_to_end;
    return chief->notice.is_live && (is_ending || chief->out->now >= chief_near_at(chief));
}

/* Before a save was measured, a quarter of the time is kept for it, at most `grace`. */
static int64_t last_first_step(const struct chief *chief)
{
    if (chief->save_ns)
        return chief->notice.final_at;
    return chief_abort_at(chief) - clock_min(grace_of(chief) / 4, chief->params->grace_ns);
}

int64_t chief_first_step_until(const struct chief *chief)
{
    if (!chief->notice.is_live || any_is(chief, FACT_STEPPED) ||
        chief->params->save_mode != SAVE_ATTACH)
        return CLOCK_NEVER;
    if (grace_of(chief) <= plan_need(chief) || !chief_uses_time(chief))
        return chief->notice.at;
    return last_first_step(chief);
}

bool chief_awaits_first_step(const struct chief *chief)
{
    int64_t until = chief_first_step_until(chief);
    return until != CLOCK_NEVER && chief->out->now < until;
}
