/* SPDX-License-Identifier: Apache-2.0
 * The end of a job whose ranks are all done. See chief_parts.h.
 *
 * The training is complete, whatever happens to the processes from now on. They may still write, or
 * take down what they have built. A notice leaves them time until its deadline; without a notice
 * they have watchdog.end. pchrun then ends them, and the job is completed.
 */
#include "core/chief/chief_parts.h"

#include "base/clock.h"
#include "base/str.h"
#include "core/common/grace.h"
#include "core/common/reminder.h"

/* So long after the last end or word of a process, what those that stay do is looked at. */
#define LOOK_NS (60 * NS_PER_S)

/* A process may take longer to write what it keeps at its end than for a save. */
static int64_t time_to_end(const struct chief *chief)
{
    const struct watchdog_plan *plan = &chief->params->watchdog;
    int64_t by_saves = plan->factor * chief->save_ns;
    return by_saves > plan->end_ns ? by_saves : plan->end_ns;
}

static int64_t limit_at(const struct chief *chief)
{
    const struct watchdog_plan *plan = &chief->params->watchdog;
    bool has_limit = plan->end_ns > 0 && plan->mode != WATCHDOG_OFF;
    if (!has_limit || !chief_is_over(chief) || all_are(chief, FACT_ENDED) ||
        chief_notice_is_near(chief))
        return CLOCK_NEVER;
    return chief_moved_at(chief) + time_to_end(chief);
}

/* A node that is cut off may never say that it has finished. */
static int64_t ends_at(const struct chief *chief)
{
    bool is_waiting = chief_is_over(chief) && !all_are(chief, FACT_FINISHED);
    return is_waiting ? chief_time_is_up_at(chief) : CLOCK_NEVER;
}

/* When the log names a process that stays. A process that must only write needs a few seconds. */
static int64_t tells_at(const struct chief *chief)
{
    bool is_due = chief->gen.done_at && !chief->gen.has_told_stay && !chief_notice_is_near(chief);
    return is_due ? chief->gen.done_at + REMINDER_FIRST_NS : CLOCK_NEVER;
}

/* When the evidence is kept for a user who waits. A limit that is near brings its own. Every event
 * asks for this, so the nodes are not looked through before a rank is done. */
static int64_t looks_at(const struct chief *chief)
{
    bool is_due = chief->gen.done_at && !chief->gen.has_looked_early &&
                  chief->params->watchdog.mode != WATCHDOG_OFF && !chief_notice_is_near(chief);
    if (!is_due)
        return CLOCK_NEVER;
    int64_t at = chief_moved_at(chief) + LOOK_NS;
    return limit_at(chief) - at > time_to_end(chief) / 2 ? at : CLOCK_NEVER;
}

int64_t chief_done_until(const struct chief *chief)
{
    int64_t at = clock_min(limit_at(chief), ends_at(chief)), now = chief->out->now;
    at = looks_at(chief) > now ? clock_min(at, looks_at(chief)) : at;
    bool is_examined = at != CLOCK_NEVER && chief->gen.hang.is_examined;
    at = is_examined && at <= now ? chief->gen.hang.until : at;
    return tells_at(chief) > now ? clock_min(at, tells_at(chief)) : at;
}

/* "process 12 of rank 1 on node 0, and those of 3 other ranks," */
static void add_who_stays(const struct chief *chief, char *text, size_t size)
{
    int n = 0;
    for (int i = 0; i < chief->params->nnodes; i++) {
        const struct peer_watch *s = &chief->peers[i].status.watch;
        bool is_named = chief->peers[i].status.life == LIFE_DONE && s->behind_rank >= 0;
        if (is_named && n == 0)
            str_addf(text, size, "process %d of rank %d", s->behind_pid, s->behind_rank);
        if (is_named && n == 0 && chief->params->nnodes > 1)
            str_addf(text, size, " on node %d", i);
        n += is_named ? s->behind_count : 0;
    }
    if (n == 0)
        str_addf(text, size, "the last processes");
    else if (n > 1)
        str_addf(text, size, ", and %s of %d other rank%s,", n == 2 ? "that" : "those", n - 1,
                 n == 2 ? "" : "s");
}

/* ", and step 90 of 96 is committed" */
static void add_committed(const struct chief *chief, char *text, size_t size)
{
    uint64_t step = chief->order.commit_step;
    if (step)
        str_addf(text, size, ", and step %llu", ull(step));
    if (step && step < chief->highest)
        str_addf(text, size, " of %llu", ull(chief->highest));
    if (step)
        str_addf(text, size, " is committed");
}

/* A teardown that hangs would hold the accelerators, and nothing would say why. A user who looks
 * for the reason must see that no training is lost. */
static void tell_who_stays(struct chief *chief)
{
    const struct watchdog_plan *plan = &chief->params->watchdog;
    char what[128] = "every rank is done: the training is complete", who[128] = "", limit[32];
    if (!chief->gen.done_at)
        chief->gen.done_at = chief->out->now;
    if (chief->out->now < tells_at(chief))
        return;
    chief->gen.has_told_stay = true;
    add_committed(chief, what, sizeof what);
    add_who_stays(chief, who, sizeof who);
    str_duration(time_to_end(chief), limit, sizeof limit);
    if (plan->mode == WATCHDOG_ON && plan->end_ns > 0)
        out_log(chief->out, LOG_NOTICE, "done",
                "%s; waits up to %s (watchdog.end) for %s to end; then pchrun ends what is left, "
                "and exits with %d",
                what, limit, who, chief->params->exit.done_killed);
    else
        out_log(chief->out, LOG_NOTICE, "done", "%s; waits for %s to end", what, who);
}

/* `because`: why they have no more time. */
static void end(struct chief *chief, const char *because)
{
    char why[PEERMSG_WHY_SIZE] = "", who[128];
    chief_tell_without(chief, FACT_FINISHED, who, sizeof who);
    str_addf(why, sizeof why, "every rank is done, but %s: pchrun ends the processes of %s",
             because, who);
    out_log(chief->out, LOG_WARN, "done", "%s", why);
    chief_stop(chief, OUTCOME_COMPLETED, chief->params->exit.done_killed, why);
}

static void look_early(struct chief *chief)
{
    char who[128] = "";
    if (chief->out->now < looks_at(chief))
        return;
    chief->gen.has_looked_early = true;
    add_who_stays(chief, who, sizeof who);
    out_log(chief->out, LOG_NOTICE, "watchdog",
            "no process of the job has ended for 1m: looks at what %s does", who);
    chief_examine(chief);
}

static void look_at_those_who_stay(struct chief *chief)
{
    char because[64], limit[32];
    int64_t left = limit_at(chief) - chief->out->now;
    /* A move before the examination may become known after it. */
    bool is_news = !chief->gen.hang.is_examined || left > time_to_end(chief) / 2;
    if (left > 0 && is_news) {
        chief->gen.hang.is_examined = chief->gen.hang.is_told = false;
        look_early(chief);
        return;
    }
    str_duration(time_to_end(chief), limit, sizeof limit);
    str_copy(because, sizeof because, "not every process has ended within ");
    str_addf(because, sizeof because, "%s", limit);
    if (!chief->gen.hang.is_examined) {
        out_log(chief->out, LOG_WARN, "watchdog", "every rank is done, but %s", because);
        chief_examine(chief);
    } else if (!chief_has_examined(chief) || chief->gen.hang.is_told) {
        return;
    } else if (chief->params->watchdog.mode == WATCHDOG_ON) {
        end(chief, because);
    } else {
        chief->gen.hang.is_told = true;
        out_log(chief->out, LOG_ERROR, "watchdog",
                "every rank is done, but %s; the job is left as it is (watchdog.mode is log)",
                because);
    }
}

/* A node that the platform has taken has no process that could still end. */
static bool is_waited_for(const struct chief *chief)
{
    for (int i = 0; i < chief->params->nnodes; i++)
        if (!peer_is(&chief->peers[i], FACT_LOST) && !peer_is(&chief->peers[i], FACT_FINISHED))
            return true;
    return false;
}

void chief_decide_done(struct chief *chief)
{
    bool is_hurried = chief->notice.hurry >= (uint32_t)HURRY_STOP && !all_are(chief, FACT_ENDED);
    if (!chief_is_over(chief) || all_are(chief, FACT_ENDED))
        chief->gen.done_at = chief->gen.has_looked_early = 0;
    if (!chief_is_over(chief))
        return;
    if (!all_are(chief, FACT_ENDED))
        tell_who_stays(chief);
    if (any_is(chief, FACT_LOST) && !is_waited_for(chief))
        end(chief, "a node is lost");
    else if (is_hurried)
        end(chief, "told to stop before all processes had ended");
    else if (chief->out->now >= ends_at(chief))
        end(chief, "the notice leaves no more time");
    else
        look_at_those_who_stay(chief);
}
