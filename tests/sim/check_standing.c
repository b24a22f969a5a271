/* SPDX-License-Identifier: Apache-2.0
 * The promises of notices that leave just a save, or a long grace, that stand at the start, that
 * are repeated; of a request to save and end the job; and of processes that give up. See sim.h.
 */
#include "sim.h"

#include "base/clock.h"
#include "core/common/grace.h"
#include "core/common/verdict.h"

#include <signal.h>
#include <string.h>

#define S NS_PER_S

int64_t first_stepped_at(const struct world *w)
{
    int64_t at = CLOCK_NEVER;
    for (int i = 0; i < w->nall; i++)
        if (w->procs[i].first_step_at)
            at = clock_min(at, w->procs[i].first_step_at);
    return at;
}

bool had_stepped_in_votes(const struct world *w)
{
    return first_stepped_at(w) < w->first_notice_at - 2 * w->s.delay_max;
}

int64_t check_least_plan(const struct world *w)
{
    int64_t least = CLOCK_NEVER;
    for (int i = 0; i < w->s.nnodes * w->s.nprocs; i++)
        least = clock_min(least, w->s.attach_at[i]);
    return clock_min(w->s.grace, 3 * least);
}

int64_t check_near_at(const struct world *w, const struct host *host, int64_t plan, bool is_judged)
{
    int64_t at = CLOCK_NEVER;
    for (int i = 0; i < MAX_NOTICES; i++) {
        bool may_stand = !is_judged || !had_stepped_before_notice(w);
        /* A signal is near at once, and may come behind a notice that is far. */
        bool is_signal = i == NOTICE_OF_SIGNAL, is_apart = is_signal || w->s.trains_on || may_stand;
        int64_t before = may_stand && !is_signal ? plan : w->s.grace;
        int64_t from = is_apart ? host->deadlines[i] - before : host->held_notice_at;
        bool is_over =
            !host->deadlines[i] || (w->s.restart.after_notice && host->deadlines[i] <= w->now);
        if (!is_over)
            at = clock_min(at, from > host->held_notice_at ? from : host->held_notice_at);
    }
    return at;
}

int64_t check_nearest_at(const struct world *w, int64_t plan)
{
    int64_t at = CLOCK_NEVER;
    for (int i = 0; i < w->s.nnodes; i++)
        at = clock_min(at, check_near_at(w, &w->hosts[i], plan, true));
    return at;
}

/* Promise 9: a notice that leaves time for a save and three steps brings a commit, whatever the
 * pace was before. A second save, just before the deadline, may fail. */
void check_slowed(struct world *w)
{
    const struct host *chief = &w->hosts[0];
    if (had_stepped_before_notice(w) && !any_is_done(w) && !w->saved_for_notice_at)
        fail(w, "the notice left a save and three steps of the slow pace, and node 0 says %s (%s)",
             verdict_name(chief->outcome), chief->why);
}

/* While a notice is far away, a failure or a hang counts as without a notice. */
void check_far(struct world *w)
{
    const struct host *chief = &w->hosts[0];
    bool is_mended = w->s.restart.max > 0 && chief->outcome != OUTCOME_COMPLETED;
    if (is_mended || verdict_is_preempted(chief->outcome))
        fail(w,
             "a process failed or hung long before the notice's deadline, and node 0 says %s "
             "(%s)",
             verdict_name(chief->outcome), chief->why);
}

/* After a round in this attempt, the first save for a notice waits. It waits until the training
 * since the last commit has taken as long as 20 saves. */
static int64_t spared(const struct world *w)
{
    bool has_rounds = w->s.every_steps || w->s.every_ns;
    return has_rounds ? 20 * schedule_longest(&w->s, w->s.save_time) : 0;
}

bool any_was_killed(const struct world *w)
{
    for (int i = 0; i < w->s.nnodes; i++)
        if (w->hosts[i].killed_at)
            return true;
    return false;
}

/* The time to end is known, and the notice leaves it: each process ends by itself. No plan knows
 * how many messages of the last save will be lost, and each may cost a heartbeat. Nor does it wait
 * for a save that is not needed, and may take longer than those that are. */
void check_kill(struct world *w, int node)
{
    bool is_planned = w->s.uses && w->s.known_end && !w->s.drop;
    for (int i = 0; i < w->s.nprocs && is_planned; i++) {
        const struct proc *p = world_proc(w, node, i);
        bool saves_in_vain = p->said_at > w->hosts[node].told_leave_at;
        if (p->was_told_exit && p->state == PROC_ENDING && !saves_in_vain)
            fail(w, "process %d leaves within %lld ms, as is known, and gets SIGKILL", p->index,
                 (long long)(w->s.exit_time[p->index] / NS_PER_MS));
    }
}

/* The record says no more than was seen, and twice as much if SIGKILL cut an end short. */
void check_noted_end(struct world *w, int64_t end_ns)
{
    int64_t longest = schedule_longest(&w->s, w->s.exit_time);
    int64_t step =
        schedule_longest(&w->s, w->s.step_time); /* a rank may make a few before it looks */
    int64_t most = (longest + S + 8 * step) * (any_was_killed(w) ? 2 : 1);
    w->noted_end = end_ns;
    if (w->s.uses && end_ns > most)
        fail(w, "the processes leave within %lld ms, and %lld ms are recorded",
             (long long)(longest / NS_PER_MS), (long long)(end_ns / NS_PER_MS));
}

/* Ends that no SIGKILL cut short are recorded, unless they are known. */
static void check_end_time(struct world *w)
{
    int64_t longest = schedule_longest(&w->s, w->s.exit_time);
    int64_t known = w->noted_end ? w->noted_end : w->s.known_end;
    if (!any_was_killed(w) && known < longest)
        fail(w, "the processes left within %lld ms, and %lld ms are recorded",
             (long long)(longest / NS_PER_MS), (long long)(known / NS_PER_MS));
}

/* The first save comes at once, and the last one in time. Between them the job trains. */
void check_use(struct world *w)
{
    const struct host *chief = &w->hosts[0];
    if (chief->outcome != OUTCOME_PREEMPTED || !had_stepped_before_notice(w) || any_is_done(w))
        return;
    if (chief->exit_at < w->first_notice_at + w->s.uses)
        fail(w, "the notice left %lld s, and node 0 has left after %lld ms of it",
             (long long)(w->s.uses / 9 * 10 / S),
             (long long)((chief->exit_at - w->first_notice_at) / NS_PER_MS));
    check_end_time(w);
    if (w->saved_for_notice_at > w->first_notice_at + 10 * S + spared(w))
        fail(w, "the first save was committed %lld ms after the notice",
             (long long)((w->saved_for_notice_at - w->first_notice_at) / NS_PER_MS));
}

static bool stalls_at_the_end(const struct world *w)
{
    const struct fault *notice = &w->s.faults[0];
    for (int i = 1; i < w->s.nfaults; i++)
        if (w->s.faults[i].at + w->s.faults[i].length > notice->at + notice->length * 6 / 10)
            return true;
    return false;
}

/* The slow steps end shortly before the notice. If there are several, and a stall follows within
 * three heartbeats, most of the paces that node 0 knows of free ranks are slow. */
static bool seems_slow(const struct world *w)
{
    for (int i = 1; i < w->s.nfaults && !w->s.is_lockstep; i++)
        if (w->s.slow_until > w->s.slow_from + 1 && w->s.faults[i].at < w->s.faults[0].at + 3 * S)
            return true;
    return false;
}

/* A free rank has gone on after a stall. Until three heartbeats have shown its pace, node 0 may
 * think that it is half as far again behind. */
static int64_t seems_behind(const struct world *w)
{
    int64_t most = 0;
    for (int i = 1; i < w->s.nfaults && !w->s.is_lockstep; i++) {
        const struct fault *stall = &w->s.faults[i];
        int64_t ago = w->proposed_at - stall->at - stall->length;
        if (stall->kind == DO_LAG && ago >= 0 && ago < 3 * S && stall->length > most)
            most = stall->length;
    }
    return most / 2;
}

/* Promise 9: whatever stood still before it, the last save begins when nine tenths of the possible
 * time are used. The rest of the notice is for the way to the save step, for a save that may be
 * slower than all before, for the end, and for spare times. A save that does not end the job is the
 * last if there is no time for another. */
void check_stalled(struct world *w)
{
    const struct host *chief = &w->hosts[0];
    int64_t left = w->s.faults[0].length, way = w->begun_at - w->proposed_at;
    /* The first save counts with what stood still in it: node 0 knows no other. */
    int64_t save = w->first_save > w->slowest_save ? w->first_save : w->slowest_save;
    int64_t end = grace_end_need(w->s.known_end ? w->s.known_end : 2 * S);
    int64_t possible =
        left - way * 5 / 4 - save * 3 / 2 - end - grace_reserve(left) - seems_behind(w);
    int64_t used = w->proposed_at - w->first_notice_at;
    if (chief->outcome == OUTCOME_PREEMPTED_UNSAVED && !any_is_done(w) && !stalls_at_the_end(w))
        fail(w, "nothing stood still when the last save was due, and it was not made: %s",
             chief->why);
    if (!w->ends_run)
        used += way + w->slowest_save;
    if (chief->outcome == OUTCOME_PREEMPTED && had_stepped_before_notice(w) && !any_is_done(w) &&
        used < possible / 10 * 9 && !seems_slow(w))
        fail(w, "the last save began %lld ms after the notice, and %lld ms were possible",
             (long long)(used / NS_PER_MS), (long long)(possible / NS_PER_MS));
}

/* Promise 9: a job trains on to a known deadline. If the deadline is a guess, it saves and leaves
 * at once. */
void check_lone(struct world *w)
{
    const struct host *chief = &w->hosts[0];
    bool is_guess = w->s.is_auto && w->s.guesses[w->s.faults[0].node];
    int64_t used = w->end_at - w->first_notice_at;
    if (chief->outcome != OUTCOME_PREEMPTED || !had_stepped_before_notice(w) || any_is_done(w))
        return;
    if (is_guess && (used > 10 * S || w->record_at != w->saved_for_notice_at))
        fail(w, "the deadline was a guess, and the job went on for %lld ms after the notice",
             (long long)(used / NS_PER_MS));
    if (!is_guess && used < w->s.grace / 2)
        fail(w, "the deadline was known, and the job went on for only %lld ms after the notice",
             (long long)(used / NS_PER_MS));
}

/* A save that takes a large part of a known deadline's time is committed, and has a second one if
 * both fit. */
void check_long_saved(struct world *w)
{
    const struct host *chief = &w->hosts[0];
    const struct fault *notice = &w->s.faults[0];
    bool is_guess = w->s.is_auto && w->s.guesses[notice->node] && notice->kind == DO_TERM;
    int64_t save = w->slowest_save, step = schedule_longest(&w->s, w->s.step_time);
    int64_t end = grace_end_need(w->s.known_end ? w->s.known_end : 2 * S);
    int64_t left = notice->at + notice->length - w->saved_for_notice_at - save - end -
                   grace_reserve(notice->length);
    if (!had_stepped_before_notice(w) || any_is_done(w) || w->was_stopped)
        return;
    if (chief->outcome != OUTCOME_PREEMPTED)
        fail(w, "a save takes %lld ms of %lld, and node 0 says %s (%s)",
             (long long)(save / NS_PER_MS), (long long)(notice->length / NS_PER_MS),
             verdict_name(chief->outcome), chief->why);
    if (!is_guess && left > 4 * step + save / 16 + S && w->record_at == w->saved_for_notice_at)
        fail(w,
             "a second save of %lld ms and %lld ms of training fit into the notice, and node 0 "
             "has left after the first",
             (long long)(save / NS_PER_MS), (long long)(left / NS_PER_MS));
}

/* True if a rank made its first step while the notice was on its way to node 0. A job that does not
 * train through notices then saves and leaves at once. */
static bool had_stepped_meanwhile(const struct world *w)
{
    bool is_there = w->hosts[0].held_notice_at == w->first_notice_at;
    return !w->s.trains_on && !is_there &&
           first_stepped_at(w) < w->first_notice_at + 2 * w->s.delay_max;
}

/* True if a notice after the first step had an earlier deadline. The job then saves and leaves at
 * once, too. */
static bool had_sooner_notice(const struct world *w)
{
    int64_t stepped = first_stepped_at(w), earliest = CLOCK_NEVER;
    for (int i = 0; i < w->s.nfaults; i++)
        if (w->s.faults[i].at <= stepped)
            earliest = clock_min(earliest, w->s.faults[i].at + w->s.faults[i].length);
    for (int i = 0; i < w->s.nfaults; i++)
        if (w->s.faults[i].at > stepped &&
            w->s.faults[i].at + w->s.faults[i].length < earliest - GRACE_SAME_NS)
            return !w->s.trains_on;
    return false;
}

/* A notice held at the start and left time to train. The job must save what it trained. */
void check_standing(struct world *w)
{
    const struct host *chief = &w->hosts[0];
    int64_t used = chief->exit_at - w->first_notice_at;
    if (had_stepped_before_notice(w) || any_is_done(w) || chief->outcome == OUTCOME_STOPPED ||
        chief->outcome == OUTCOME_HANG || had_sooner_notice(w) || had_stepped_meanwhile(w))
        return;
    if (chief->outcome != OUTCOME_PREEMPTED || !w->record_of_run)
        fail(w, "a notice stood at the start and left %lld s, and node 0 says %s (%s)",
             (long long)(w->s.stands / S), verdict_name(chief->outcome), chief->why);
    if (used < w->s.stands * 8 / 10)
        fail(w, "a notice stood at the start and left %lld s, and node 0 has left after %lld ms",
             (long long)(w->s.stands / S), (long long)(used / NS_PER_MS));
}

static bool any_has_finished_by(const struct world *w, int64_t at)
{
    for (int i = 0; i < w->nall; i++)
        if (w->procs[i].finished_at && w->procs[i].finished_at < at)
            return true;
    return false;
}

/* The earliest deadline of the repeated notices. A node that begins after its notice has none. */
static int64_t nearest_repeated(const struct world *w)
{
    int64_t nearest = CLOCK_NEVER;
    for (int i = 0; i < w->s.nnodes; i++)
        nearest = clock_min(nearest, check_earliest(w->hosts[i].repeated));
    return nearest;
}

/* A repeated notice, which no longer ends the attempt, has a save before its deadline, not at once.
 * A rank that ends its training before that deadline saves no more. The job then trains to its end.
 * */
void check_repeated(struct world *w)
{
    int64_t deadline = nearest_repeated(w), left = deadline - w->repeated_at;
    int64_t saved = w->saved_for_notice_at, used = saved - w->repeated_at;
    if (!saved && any_has_finished_by(w, deadline))
        return;
    if (!saved || used > left || used < left / 4)
        fail(w, "a repeated notice left %lld s, and was saved for after %lld ms",
             (long long)(left / S), (long long)(used / NS_PER_MS));
}

/* A preemption before the first step, and an end by a user, do not count as an attempt without a
 * commit; any other end does. While a commit is written, node 0 cannot know which of them it is. */
void check_count(struct world *w)
{
    const struct host *chief = &w->hosts[0];
    bool is_preempted = verdict_is_preempted(chief->outcome);
    bool is_by_user = chief->outcome == OUTCOME_STOPPED || chief->outcome == OUTCOME_INTERRUPTED;
    if (chief->is_uncounted && (!(is_preempted || is_by_user) || w->record_of_run))
        fail(w, "the attempt ends as %s, and does not count", verdict_name(chief->outcome));
    bool may_have_commit = w->record_of_run || w->written_at >= chief->told_leave_at;
    if (is_by_user && chief->told_leave_at && !chief->is_uncounted && !may_have_commit)
        fail(w, "a user has ended the attempt, and it counts");
    if (chief->is_uncounted && !is_by_user && had_stepped_before_notice(w) && !w->s.has_loss)
        fail(w, "the attempt had begun to train before the notice, and does not count");
    bool has_failed =
        any_has_failed(w) || any_ended_in_silence(w) || w->s.restart.max > 0 || w->was_stopped;
    bool is_early = is_preempted && first_stepped_at(w) == CLOCK_NEVER && !has_failed;
    if (is_early && chief->told_leave_at && !chief->is_uncounted && !w->s.has_loss)
        fail(w, "the attempt was preempted before the first step, and counts");
}

static bool any_has_attached(const struct world *w)
{
    for (int i = 0; i < w->nall; i++)
        if (w->procs[i].is_attached)
            return true;
    return false;
}

/* If no process attaches and no signal was sent, commands that return by themselves have completed.
 * */
void check_unattached(struct world *w)
{
    const struct host *host = &w->hosts[0];
    bool is_holding = host->held_notice && check_holds_notice(host);
    int64_t until = host->deadlines[NOTICE_OF_SIGNAL];
    bool may_have_left = any_has_attached(w) || host->had_signal;
    bool was_asked = host->signalled_at && host->signalled_at <= host->ended_at;
    bool has_returned = !any_has_attached(w) && !until && !was_asked;
    bool has_ended_well = host->ended_at && !host->has_failed && !any_ended_in_silence(w);
    for (int i = 0; i < w->nall && is_holding && may_have_left; i++)
        if (host->outcome == OUTCOME_COMPLETED && !w->procs[i].is_attached)
            fail(w, "completed after a notice, and process %d did not report that it was done", i);
    if (has_ended_well && has_returned && host->outcome == OUTCOME_PREEMPTED_UNSAVED)
        fail(w, "every command had returned by itself, and the outcome is %s (%s)",
             verdict_name(host->outcome), host->why);
}

/* A job that was to save and end, and did not give that up, is not started again. */
void check_saved_end(struct world *w)
{
    const struct host *chief = &w->hosts[0];
    if (w->is_to_save_and_end && verdict_is_restart(chief->outcome))
        fail(w, "the job was to save and end, and node 0 says %s (%s)",
             verdict_name(chief->outcome), chief->why);
    if (!w->s.is_saved_end)
        return;
    if (chief->outcome != OUTCOME_STOPPED && chief->outcome != OUTCOME_COMPLETED)
        fail(w, "the job was only to save and end, and node 0 says %s (%s)",
             verdict_name(chief->outcome), chief->why);
    if (chief->outcome != OUTCOME_STOPPED || first_stepped_at(w) > w->end_at)
        return; /* before the first step there is nothing to save */
    /* A rank that saves in the background is held one step later. */
    for (int i = 0; i < w->nall; i++)
        if (w->procs[i].page_step > w->record + (w->s.style == STYLE_ASYNC ? w->s.stride[i] : 0))
            fail(w, "process %d has finished step %llu, and the job was ended with step %llu", i,
                 ull(w->procs[i].page_step), ull(w->record));
}

/* Of a process that has not attached only the signal is known. Without a watchdog, pchrun does not
 * know how long the ranks have stood. */
static bool knows_who_gave_up(const struct world *w)
{
    for (int i = 0; i < w->nall; i++)
        if (!w->procs[i].is_attached && !w->procs[i].is_counting)
            return false;
    return w->s.is_watched;
}

/* A process that gives up shows that another one hangs. */
void check_gave_up(struct world *w, int node)
{
    const struct host *host = &w->hosts[node];
    if (strstr(host->why, SIM_GAVE_UP) || (knows_who_gave_up(w) && strstr(host->why, "signal 6 ")))
        fail(w, "a process gave up its wait for one that hangs, and node %d says failed: %s", node,
             host->why);
}

/* A process that gives up has the time to end by itself. Where one gives up alone, none may follow,
 * and after the longest time node 0 waits no more. */
void check_gave_up_last(struct world *w)
{
    int64_t first = CLOCK_NEVER, newest = 0, at = w->hosts[0].told_leave_at;
    int n = 0;
    for (int i = 0; i < w->nall; i++) {
        const struct proc *p = &w->procs[i];
        if (!p->had_given_up)
            continue;
        first = clock_min(first, p->gave_up_at);
        newest = p->gave_up_at > newest ? p->gave_up_at : newest;
        n++;
    }
    if (knows_who_gave_up(w) && n > 1 && at < newest + SIM_OTHERS_NS &&
        at < first + SIM_OTHERS_MOST_NS)
        fail(w, "a process gave up its wait, and node 0 ended the job %lld ms later",
             (long long)((at - newest) / NS_PER_MS));
}

/* A scheduler has signalled every process, and commands have died of the signal before their
 * supervisor had it. That is no failure. But if another one fails meanwhile, the first death may be
 * its reason. */
void check_signalled(struct world *w)
{
    const struct core_report *r = &w->hosts[0].report;
    if (any_ended_in_silence(w))
        return;
    for (int i = 0; i < w->nall; i++)
        if (w->procs[i].has_bad_line)
            return;
    for (int i = 0; i < w->s.nfaults; i++)
        if (w->s.faults[i].kind != DO_TERM)
            return;
    if (w->s.signals_all && w->hosts[0].outcome == OUTCOME_FAILED &&
        r->first_cause.code == 128 + SIGTERM)
        fail(w, "every process was signalled, and node 0 says failed: %s", w->hosts[0].why);
}
