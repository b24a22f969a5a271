/* SPDX-License-Identifier: Apache-2.0
 * A restart in place: whether it is allowed, the barrier between two generations, and the start of
 * the next one. See chief_parts.h.
 *
 * A generation ends like a job, but its order says that another follows (order.restart). The nodes
 * stop their processes, say that they are gone, and wait. When all nodes are gone and the pause is
 * over, one order starts the next generation from the last commit. Until then the job can still
 * end: a node is lost or cannot end its processes, a notice comes, or a signal stops the job.
 */
#include "core/chief/chief_parts.h"

#include "base/clock.h"
#include "base/str.h"
#include "core/common/grace.h"
#include "core/common/known.h"
#include "core/common/verdict.h"

#include <stdio.h>

#define WHY_NOT_SIZE 192

/* --- whether --- */

static bool is_start_failure(const struct chief *chief)
{
    int64_t until = chief->order.end == END_NONE ? chief->out->now : chief->gen.stopped_at;
    return !any_is(chief, FACT_STEPPED) &&
           until - chief->gen.began_at < chief->params->restart.startup_ns;
}

/* A failure repeats only if it ends the start. After a finished step the program and its settings
 * are known to work; a later failure may come from a slow file system. Ranks may step on while they
 * end. For a program that does not attach, only the time shows how far it is. */
static void find_what_repeats(const struct chief *chief, char *what, size_t size)
{
    bool has_attached = any_is(chief, FACT_ATTACHED);
    what[0] = '\0';
    bool has_stepped = chief->order.restart ? chief->gen.had_stepped : chief->has_stepped;
    if (!has_stepped && (has_attached || is_start_failure(chief)))
        known_repeats(&chief->gen.cause, has_attached, what, size);
}

/* A commit that is being written counts until its write has failed. */
static struct restart_failure describe_failure(const struct chief *chief, int code, char *repeats,
                                               size_t size)
{
    bool is_writing = chief->writing != COMMIT_NOTHING;
    find_what_repeats(chief, repeats, size);
    return (struct restart_failure){.now = chief->out->now,
                                    .code = code,
                                    .is_start = is_start_failure(chief),
                                    .has_ranks = any_is(chief, FACT_ATTACHED),
                                    .has_commit = chief->order.commit_step > chief->gen.first_step,
                                    .repeats = repeats,
                                    .cause = &chief->gen.cause,
                                    .step = chief->peers[chief->gen.cause.node].failed_step,
                                    .commit_step = is_writing ? chief->writing_step
                                                              : chief->order.commit_step};
}

/* " from step 120, in 4 s" */
static void add_plan(const struct chief *chief, int64_t pause, char *text, size_t size)
{
    const int64_t unit = 10 * NS_PER_MS;
    char in[32];
    if (chief->order.commit_step)
        str_addf(text, size, " from step %llu", ull(chief->order.commit_step));
    if (pause >= unit)
        str_addf(text, size, ", in %s at the earliest",
                 str_about(pause / unit * unit, in, sizeof in));
}

/* True: no restart follows the first failure that is known, and `text` says why. */
static bool is_final(const struct chief *chief, int code, char *text, size_t size)
{
    char repeats[WHY_NOT_SIZE / 2];
    struct restart_failure failure = describe_failure(chief, code, repeats, sizeof repeats);
    return !chief->gen.waits_for_notice && restart_is_final(&chief->restart, &failure, text, size);
}

/* Whether the failure is final, chief_decide_restart() decides: it may not be the first. */
void chief_restart_or_end(struct chief *chief, const struct chief_end *end)
{
    char text[WHY_NOT_SIZE], repeats[WHY_NOT_SIZE / 2], why[PEERMSG_WHY_SIZE];
    char because[WHY_NOT_SIZE];
    struct restart_failure failure = describe_failure(chief, end->code, repeats, sizeof repeats);
    bool is_final_now = is_final(chief, end->code, because, sizeof because);
    int64_t pause;
    str_copy(why, sizeof why, end->why);
    struct chief_end this_end = *end;
    this_end.restarts = restart_allows(&chief->restart, &failure, &pause, text, sizeof text);
    if (!this_end.restarts) {
        if (text[0])
            str_addf(why, sizeof why, "; not restarted: %s", is_final_now ? because : text);
        this_end.why = why;
        chief_end(chief, &this_end);
        return;
    }
    chief->gen.restart_at = chief->out->now + pause;
    chief->gen.had_stepped = chief->has_stepped;
    chief->failures += any_is(chief, FACT_STEPPED);
    chief_end(chief, &this_end);
    if (is_final_now) {
        out_log(chief->out, LOG_WARN, "restart",
                "%s; no restart follows, unless another failure came first: %s", why, because);
        return;
    }
    str_addf(why, sizeof why, "; restarting in place");
    add_plan(chief, pause, why, sizeof why);
    out_log(chief->out, LOG_WARN, "restart", "%s (%s)", why, text);
}

/* With restart.after_notice the platform only pauses the job, so the job goes on in place. */
void chief_end_for_notice(struct chief *chief, const struct chief_end *end)
{
    struct chief_end this_end = *end;
    bool is_pause = chief->params->restart.after_notice && !any_is(chief, FACT_STOPS);
    this_end.restarts = is_pause || chief_may_outlive_notice(chief);
    chief_end(chief, &this_end);
    if (!this_end.restarts)
        return;
    chief->gen.restart_at = chief->out->now;
    if (!is_pause) {
        chief->gen.had_stepped = chief->has_stepped;
        out_log(chief->out, LOG_NOTICE, "replace",
                "%s; the nodes with a notice leave, and the others wait for replacements "
                "(cluster.replace_wait)",
                end->why);
        return;
    }
    chief->gen.waits_for_notice = true;
    out_log(chief->out, LOG_NOTICE, "restart",
            "%s; the job goes on in place when the notice is over (restart.after_notice)",
            end->why);
}

/* If no process attached, the program may handle the signal itself, and save: pchrun cannot know.
 */
void chief_leave_unsaved(struct chief *chief)
{
    bool is_attached = any_is(chief, FACT_ATTACHED);
    char why[PEERMSG_WHY_SIZE];
    snprintf(why, sizeof why,
             "no program has attached by pch_open() (in Python: pch.attach), so none could be "
             "asked to save; %s",
             chief_how_to_attach(chief));
    chief_end_for_notice(
        chief,
        &(struct chief_end){
            .outcome = is_attached ? OUTCOME_PREEMPTED : OUTCOME_PREEMPTED_UNKNOWN,
            .manner = MANNER_FORWARD,
            .why = is_attached ? "nothing to save: no step was finished in this attempt" : why});
}

/* --- the barrier --- */

/* The job ends with the failure that the restart should have followed. */
static void end_as_failed(struct chief *chief, const char *because)
{
    char why[sizeof chief->order.why];
    str_copy(why, sizeof why, chief->order.why);
    str_addf(why, sizeof why, "; not restarted: %s", because);
    chief_stop(chief, (enum outcome)chief->order.outcome, chief->order.exit_code, why);
}

/* The processes have ended already, so none of them can save. */
static void end_preempted(struct chief *chief)
{
    bool has_ranks = any_is(chief, FACT_ATTACHED), waits = chief_is_waiting(chief);
    if (chief->gen.waits_for_notice) {
        end_as_failed(chief, "told to stop");
        return;
    }
    chief->gen.cause = (struct peer_cause){0}; /* the job would have survived that failure */
    chief_stop(chief, has_ranks ? OUTCOME_PREEMPTED_UNSAVED : OUTCOME_PREEMPTED_UNKNOWN, 0,
               waits ? "the notice came while the job waited for the replacement of a node"
                     : "the notice came while the job was restarted in place after a failure");
}

/* Processes are left, or a record is being written. */
static bool is_stopping(const struct chief *chief)
{
    return any_is(chief, FACT_THERE) || chief->writing != COMMIT_NOTHING;
}

static bool is_over(const struct chief *chief)
{
    return all_are(chief, FACT_GONE) && !any_is(chief, FACT_VACANT) &&
           chief->writing == COMMIT_NOTHING;
}

/* Nothing has failed, and no scheduler is to start the job again. */
static void end_interrupted(struct chief *chief)
{
    int number = chief_first(chief, FACT_INTERRUPTED)->status.interrupted_by;
    if (chief_is_waiting(chief) && number)
        chief_stop(
            chief, OUTCOME_INTERRUPTED, EXIT_BY_SIGNAL + number,
            "a signal has told the job to end while it waited for the replacement of a node");
    else
        end_as_failed(chief, "a signal has told the job to end");
}

static bool is_ended_by_notice(const struct chief *chief)
{
    bool is_hurried = chief->notice.hurry >= (uint32_t)HURRY_STOP;
    if (chief->gen.waits_for_notice)
        return is_hurried;
    return chief_notice_is_near(chief) && !chief_may_outlive_notice(chief);
}

/* A job that was ended for a notice waits until the notice is withdrawn or its time has passed. */
static bool is_due(const struct chief *chief)
{
    bool waits = chief->gen.waits_for_notice && chief->notice.is_live;
    return chief->out->now >= chief->gen.restart_at &&
           chief->out->now >= chief->gen.replace.fence_at && !waits;
}

/* A node without a connection either reconnects or is lost. A health check has its own deadline. */
static bool may_renew(const struct chief *chief)
{
    return all_are(chief, FACT_CONNECTED) && !any_is(chief, FACT_CHECKS);
}

/* --- the next generation --- */

/* Forgets the node's last generation, but keeps its open requests for a checkpoint. Its notice
 * holds in the next generation, too. A request to save and end the job is given up. */
static void forget(struct chief *chief, struct peer *peer)
{
    struct notice_label notice = peer->status.notice;
    uint32_t asked = peer->status.checkpoint_asked, stops = peer->status.stop_asked;
    chief_reset(chief, peer);
    peer->status.notice = notice;
    peer->status.checkpoint_asked = asked;
    peer->status.stop_asked = peer->stops_given_up = stops;
    chief->checkpoints += asked;
    chief_reset_pace(peer);
    peer->moved_at = peer->status_at = peer->read_at = chief->out->now;
    peer->may_run = true;
    peer->fence_at = 0;
    chief_note(chief, peer);
}

/* In the next generation, a notice that is not near counts as given before the first step. */
static void renew_notice(struct chief *chief)
{
    chief->notice.at = chief->out->now;
    chief->notice.stands = chief->notice.is_live;
    chief->notice.is_judged = true;
    chief->notice.has_saved = chief->notice.goes_on = chief->notice.is_hopeless = false;
    chief->replan_at = 0;
}

void chief_begin_generation(struct chief *chief)
{
    chief->gen = (struct chief_generation){.began_at = chief->out->now,
                                           .first_step = chief->order.commit_step,
                                           .stride = stride_make(0, 1),
                                           .hang.look_at = CLOCK_NEVER,
                                           .end_deadline = CLOCK_NEVER,
                                           .leave_deadline = CLOCK_NEVER};
}

static bool says_gone(const struct chief *chief, const struct peer *peer)
{
    return peer->status.life == LIFE_GONE;
}

static void renew(struct chief *chief)
{
    char repeats[WHY_NOT_SIZE / 2];
    struct restart_failure failure =
        describe_failure(chief, chief->order.exit_code, repeats, sizeof repeats);
    if (!PROMISE(6, chief->out, chief_all_say(chief, says_gone)))
        return;
    restart_note(&chief->restart, &failure);
    chief_note_end(chief);
    chief->generation++;
    chief_begin_generation(chief);
    chief->order = (struct peer_order){.start = true,
                                       .commit_step = chief->order.commit_step,
                                       .commit_whole = chief->order.commit_whole};
    chief->order.port = out_port(chief->out); /* the old port may still be in use */
    chief->is_changed = true;
    renew_notice(chief);
    for (int i = 0; i < chief->params->nnodes; i++)
        forget(chief, &chief->peers[i]);
    out_log(chief->out, LOG_NOTICE, "restart", "generation %u begins%s", chief->generation,
            chief->params->nnodes > 1 ? " on all nodes" : "");
}

/* Node 0 often hears of a victim's failure first, and a text may come late. So a failure is final
 * only when all nodes are gone: then each has told its own. A notice must not wait for that, and
 * must not make a job start again that has failed for good. */
void chief_decide_restart(struct chief *chief)
{
    char who[96], because[WHY_NOT_SIZE];
    if (!chief_is_restarting(chief))
        return;
    bool is_known = is_over(chief) || is_ended_by_notice(chief);
    if (chief_notice_is_near(chief) && chief_may_outlive_notice(chief) &&
        !chief->gen.waits_for_notice)
        chief_release_noticed(chief);
    if (chief->count[FACT_LOST] > chief->count[FACT_VACANT]) {
        chief_wait_or_end(chief);
    } else if (is_known && chief->gen.cause.fault != FAULT_LOST &&
               is_final(chief, chief->order.exit_code, because, sizeof because)) {
        end_as_failed(chief, because);
    } else if (is_ended_by_notice(chief)) {
        end_preempted(chief);
    } else if (any_is(chief, FACT_INTERRUPTED)) {
        end_interrupted(chief);
    } else if (any_is(chief, FACT_LEFT)) {
        snprintf(because, sizeof because, "processes that cannot be killed are left on node %d",
                 chief_rank_of(chief, chief_first(chief, FACT_LEFT)));
        end_as_failed(chief, because);
    } else if (chief_wait_is_over(chief)) {
        chief_end_wait(chief);
    } else if (is_stopping(chief) && chief->out->now >= chief->gen.leave_deadline) {
        chief_tell_without(chief, FACT_GONE, who, sizeof who);
        snprintf(because, sizeof because, "the generation did not end in time; not finished: %s",
                 who[0] ? who : "the commit record");
        end_as_failed(chief, because);
    } else if (!is_over(chief) || !is_due(chief) || !may_renew(chief)) {
        chief_cut_measure(chief);
    } else if (chief_knows_network(chief)) {
        renew(chief);
    }
}

int64_t chief_restart_due_at(const struct chief *chief)
{
    if (is_stopping(chief))
        return clock_min(chief->gen.leave_deadline, chief_waits_until(chief));
    if (any_is(chief, FACT_VACANT))
        return chief_waits_until(chief);
    return clock_max(chief->gen.restart_at, chief->gen.replace.fence_at);
}
