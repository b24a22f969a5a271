/* SPDX-License-Identifier: Apache-2.0
 * See drill.h.
 */
#include "run/drill.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "core/common/cause.h"
#include "core/common/verdict.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SOURCE "drill"

enum { UNFIT = 1 };

/* How often the drill reads the steps and phases. The training is warm when it has finished this
 * many steps after the first. */
#define TICK_NS    (100 * NS_PER_MS)
#define WARM_STEPS 3
/* A program that has not attached by then may never attach. */
#define ATTACH_NS (60 * NS_PER_S)

static void on_tick(void *ctx);

void drill_open(struct drill *drill, const struct config *config, struct attach *attach)
{
    drill->config = config;
    drill->attach = attach;
    watch_init(&drill->tick, attach->loop->base, on_tick, drill);
}

void drill_start(struct drill *drill)
{
    const struct config *config = drill->config;
    if (config->drill_ns == 0 || config->cluster.node_rank > 0)
        return;
    drill->phases.began_at = clock_now_ns();
    log_notice("drill", "the notice comes when the training has made %d steps", WARM_STEPS);
    if (config->restart.max > 0 || config->restart.after_notice)
        log_notice("drill", "the job ends afterwards: nothing is restarted in place (restart.*)");
    watch_at(&drill->tick, drill->phases.began_at + TICK_NS);
}

/* --- the notice --- */

/* A drill shows what a real preemption would do here. Without a source, and without a signal whose
 * time is known, the deadline of a real one would be a guess. */
static bool is_guess(const struct config *config)
{
    bool is_known = config->nnotices > 0;
    for (int number = 0; number < CONFIG_SIGNALS; number++)
        is_known =
            is_known || (config_grace(config, number) >= 0 && !config_is_guess(config, number));
    return !is_known;
}

static void give_notice(struct drill *drill, const char *why)
{
    struct notice notice = {.type = NOTICE_TERMINATE,
                            .source = SOURCE,
                            .text = "(not a real one)",
                            .left_ns = drill->config->drill_ns,
                            .is_guess = is_guess(drill->config)};
    drill->notice_at = clock_now_ns();
    log_notice("drill", "%s: the notice comes now", why);
    loop_post(drill->attach->loop, &(struct event){.type = EV_NOTICE, .notice = &notice});
}

static bool is_warm(struct drill *drill, const struct core_report *report)
{
    uint64_t step = report->job.last_step;
    if (step <= report->resumed_step)
        return false;
    if (!drill->first_step)
        drill->first_step = step;
    return step >= drill->first_step + WARM_STEPS;
}

/* A real notice may still be withdrawn. */
static void seek_moment(struct drill *drill, const struct core_report *report, int64_t now)
{
    if (report->notice.is_live)
        return;
    if (is_warm(drill, report))
        give_notice(drill, "the training is warm");
    else if (!report->job.has_ranks && now - drill->phases.began_at >= ATTACH_NS)
        give_notice(drill, "no process has attached within a minute");
}

/* Reads the pages apart from the core: after the notice the drill must not disturb what it shows.
 */
static void look(struct drill *drill, const struct core_report *report, int64_t now)
{
    uint64_t steps[CORE_SLOTS_MAX];
    uint8_t phases[CORE_SLOTS_MAX];
    struct page_own own[CORE_SLOTS_MAX];
    struct core_rank_report ranks[CORE_SLOTS_MAX];
    struct drill_rank seen[CORE_SLOTS_MAX];
    int n = core_ranks(drill->attach->loop->core, ranks, CORE_SLOTS_MAX), nseen = 0;
    bool is_open =
        str_is(report->round.phase, "proposed") || str_is(report->round.phase, "decided");
    procs_look(drill->attach->procs, steps, phases, own);
    for (int i = 0; i < n; i++) {
        const struct core_rank_report *rank = &ranks[i];
        if (rank->slot < 0 || !rank->is_attached || rank->is_counting || rank->is_done)
            continue;
        uint64_t step = steps[rank->slot];
        seen[nseen++] =
            (struct drill_rank){.slot = rank->slot,
                                .pid = rank->pid,
                                .first_step = rank->first_step,
                                .step = step,
                                .phase = (enum page_phase)phases[rank->slot],
                                .is_serving = is_open && step >= report->round.save_step};
    }
    drill_phases_look(&drill->phases, seen, nseen, now);
}

static void on_tick(void *ctx)
{
    struct drill *drill = ctx;
    struct core_report report;
    int64_t now = clock_now_ns();
    if (!drill->notice_at)
        attach_read_steps(drill->attach);
    if (drill->attach->loop->is_over || drill->phases.is_over)
        return;
    core_report(drill->attach->loop->core, &report);
    look(drill, &report, now);
    if (!drill->notice_at)
        seek_moment(drill, &report, now);
    watch_at(&drill->tick, now + TICK_NS);
}

/* --- the rounds --- */

static struct drill_round *round_of(struct drill *drill, uint32_t id)
{
    struct drill_round *last = drill->nrounds ? &drill->rounds[drill->nrounds - 1] : NULL;
    if (last && last->id == id)
        return last;
    if (drill->nrounds == DRILL_ROUNDS_MAX) { /* the first and the last rounds matter most */
        memmove(&drill->rounds[1], &drill->rounds[2],
                (DRILL_ROUNDS_MAX - 2) * sizeof drill->rounds[0]);
        drill->nrounds--;
    }
    drill->rounds[drill->nrounds] = (struct drill_round){.id = id};
    return &drill->rounds[drill->nrounds++];
}

/* The order to end the job names the notice that ended it, the same on every node. */
static void note_notice(struct drill *drill, const struct core_report *report)
{
    if (drill->has_ended)
        return;
    drill->has_ended = report->outcome != OUTCOME_UNKNOWN;
    if (drill->has_ended)
        drill_phases_end(&drill->phases, clock_now_ns());
    str_copy(drill->acted_upon, sizeof drill->acted_upon,
             report->notice.is_live ? report->notice.label.source : "");
    if (!drill->notice_at && str_is(drill->acted_upon, SOURCE))
        drill->notice_at = clock_now_ns();
}

void drill_watch(struct drill *drill)
{
    struct core_report report;
    if (drill->config->drill_ns == 0)
        return;
    core_report(drill->attach->loop->core, &report);
    note_notice(drill, &report);
    if (!drill->notice_at)
        return;
    int64_t committed_at = report.round.committed_at;
    bool was_before = committed_at && committed_at < drill->notice_at;
    if (!report.round.decided_at || was_before)
        return;
    struct drill_round *round = round_of(drill, report.round.id);
    round->step = report.round.save_step;
    round->decided_at = report.round.decided_at;
    round->committed_at = report.round.committed_at;
}

/* --- the end --- */

static double after(const struct drill *drill, int64_t at)
{
    return (double)(at - drill->notice_at) / (double)NS_PER_S;
}

static void say_rounds(const struct drill *drill)
{
    log_notice("drill", "after the notice:");
    for (int i = 0; i < drill->nrounds; i++) {
        const struct drill_round *r = &drill->rounds[i];
        char more[64] = "";
        if (i > 0)
            str_addf(more, sizeof more, ", %" PRIu64 " steps after the one before",
                     r->step - drill->rounds[i - 1].step);
        log_notice("drill", "%8.3f s  agreed to save step %" PRIu64 "%s",
                   after(drill, r->decided_at), r->step, more);
        if (r->committed_at)
            log_notice("drill", "%8.3f s  step %" PRIu64 " is committed, %.3g s later",
                       after(drill, r->committed_at), r->step,
                       after(drill, r->committed_at) - after(drill, r->decided_at));
        else
            log_notice("drill", "%11s step %" PRIu64 " was not committed", "", r->step);
    }
}

static int64_t slowest_save(const struct drill *drill)
{
    int64_t slowest = 0;
    for (const struct drill_round *r = drill->rounds; r < drill->rounds + drill->nrounds; r++)
        if (r->committed_at && r->committed_at - r->decided_at > slowest)
            slowest = r->committed_at - r->decided_at;
    return slowest;
}

/* One save as measured here, in the worst phase that was seen; the end of the job; and a margin for
 * stopping. */
static int64_t least_grace(const struct drill *drill, int64_t now)
{
    const struct drill_round *first = &drill->rounds[0], *last = &drill->rounds[drill->nrounds - 1];
    int64_t save = first->committed_at - drill->notice_at;
    int64_t late = drill_phases_longest(&drill->phases) + slowest_save(drill);
    int64_t needs = (save > late ? save : late) + now - last->committed_at;
    return needs + needs / 2 + NS_PER_S;
}

/* False: no process or node has failed, so the time was too short. */
static bool say_failed(const struct drill *drill, const char *grace)
{
    struct core_report report;
    const struct peer_cause *cause = &report.first_cause;
    char failed[32] = "a process";
    core_report(drill->attach->loop->core, &report);
    if (cause->fault == FAULT_LOST) {
        log_warn("drill",
                 "unknown whether a save fits into %s: node %d (%s) was lost after the notice; try "
                 "again",
                 grace, cause->node, cause->host);
        return true;
    }
    if (!cause_is_process(cause->fault))
        return false;
    if (cause->rank >= 0)
        snprintf(failed, sizeof failed, "rank %d", cause->rank);
    log_warn("drill",
             "unknown whether a save fits into %s: %s failed after the notice (node %d: %s); mend "
             "that, and try again",
             grace, failed, cause->node, cause->text);
    return true;
}

static void say_verdict(const struct drill *drill, bool fits, int64_t now)
{
    char grace[32], left[32], least[32];
    str_about(drill->config->drill_ns, grace, sizeof grace);
    int64_t ends_at = drill->notice_at + drill->config->drill_ns;
    if (!fits && say_failed(drill, grace))
        return;
    if (drill->nrounds == 0)
        log_warn("drill", "unknown whether a save fits into %s: the ranks agreed on none", grace);
    else if (!fits)
        log_warn(
            "drill",
            "the save does not fit into %s: a real preemption would lose the training since the "
            "last commit; the last line says why",
            grace);
    else
        log_notice(
            "drill",
            "the save fits into %s, with %s to spare; a grace of %s is enough to save once and to "
            "end",
            grace,
            str_about(ends_at - drill->rounds[drill->nrounds - 1].committed_at, left, sizeof left),
            str_about(least_grace(drill, now), least, sizeof least));
}

/* The save counts even if the processes were killed after it. */
static void say_how_they_ended(const struct drill *drill)
{
    struct core_report report;
    char took[32], left[32];
    core_report(drill->attach->loop->core, &report);
    if (report.job.end_ns == 0)
        return;
    const struct drill_round *last = &drill->rounds[drill->nrounds - 1];
    int64_t ends_at = drill->notice_at + drill->config->drill_ns;
    str_about(report.job.end_ns, took, sizeof took);
    str_about(ends_at - last->committed_at, left, sizeof left);
    if (!report.job.end_cut)
        log_notice(
            "drill",
            "after the last save the processes took %s to end, and had %s until the deadline", took,
            left);
    else
        log_warn(
            "drill",
            "the processes take more than %s to end, and had %s after the last save, so pchrun "
            "killed them; the next attempt leaves them more time: if it kills them, too, raise "
            "the grace",
            took, left);
}

/* How much of the grace was used for training. Saves do not count, nor do the steps after the last
 * save, because they are lost. */
static void say_use(const struct drill *drill)
{
    char trained[32], grace[32];
    if (drill->nrounds == 0)
        return;
    const struct drill_round *last = &drill->rounds[drill->nrounds - 1];
    if (!last->committed_at)
        return;
    int64_t used = last->decided_at - drill->notice_at;
    for (const struct drill_round *r = drill->rounds; r < last; r++)
        used -= r->committed_at ? r->committed_at - r->decided_at : 0;
    log_notice("drill", "%11s of the %s that the notice left, the job trained for %s", "",
               str_about(drill->config->drill_ns, grace, sizeof grace),
               str_about(used, trained, sizeof trained));
}

static void say_phases(const struct drill *drill)
{
    struct core_report report;
    struct drill_saving saving = {.grace_ns = drill->config->drill_ns,
                                  .save_ns = slowest_save(drill)};
    struct drill_line lines[DRILL_LINES_MAX];
    char waited[32];
    int n = drill_phases_tell(&drill->phases, &saving, lines);
    for (int i = 0; i < n; i++)
        log_line(lines[i].is_bad ? LOG_WARN : LOG_NOTICE, "drill", "%s", lines[i].text);
    core_report(drill->attach->loop->core, &report);
    if (!report.job.has_ranks && drill->config->save.mode == SAVE_ATTACH)
        log_warn("drill",
                 "import: no rank had attached %s after the start of the commands, when the notice "
                 "came; until one does, a notice saves nothing",
                 str_about(drill->notice_at - drill->phases.began_at, waited, sizeof waited));
}

static void say_end(const struct drill *drill, bool fits, int64_t now)
{
    say_rounds(drill);
    say_use(drill);
    log_notice("drill", "%8.3f s  every process has ended", after(drill, now));
    say_phases(drill);
    say_verdict(drill, fits, now);
    if (fits)
        say_how_they_ended(drill);
}

int drill_code(const struct config *config, enum outcome outcome, int code)
{
    if (config->drill_ns == 0 || !verdict_is_preempted(outcome))
        return code;
    return outcome == OUTCOME_PREEMPTED ? 0 : UNFIT;
}

int drill_end(struct drill *drill, enum outcome outcome, int code)
{
    int64_t now = clock_now_ns();
    bool is_first = drill->config->cluster.node_rank == 0;
    if (drill->config->drill_ns == 0)
        return code;
    drill_watch(drill);
    bool is_real = drill->acted_upon[0] && !str_is(drill->acted_upon, SOURCE);
    if (is_real && is_first && verdict_is_preempted(outcome))
        log_warn("drill", "a real notice from %s ended the job, so this was no drill",
                 drill->acted_upon);
    else if (!drill->notice_at && is_first)
        log_warn("drill", "the job has ended before the training was warm: no drill");
    else if (is_first && !verdict_is_preempted(outcome))
        log_warn("drill", "the job has ended before it had to leave: no result; "
                          "give --drill less time, or train longer");
    if (is_real || !drill->notice_at || !verdict_is_preempted(outcome))
        return code;
    int64_t committed_at = drill->nrounds ? drill->rounds[drill->nrounds - 1].committed_at : 0;
    bool is_in_time = committed_at && committed_at <= drill->notice_at + drill->config->drill_ns;
    bool fits = outcome == OUTCOME_PREEMPTED && is_in_time;
    if (is_first)
        say_end(drill, fits, now);
    return fits ? 0 : UNFIT;
}
