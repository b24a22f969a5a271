/* SPDX-License-Identifier: Apache-2.0
 * The start of the job, when all nodes have joined; or its end, if they do not. See chief_parts.h.
 */
#include "core/chief/chief_parts.h"

#include "base/clock.h"
#include "base/str.h"
#include "core/common/verdict.h"

#include <stdio.h>
#include <string.h>

/* Room for the names of about four missing nodes. */
enum { MISSING_SIZE = 160 };
/* How often the steps are read until a rank has finished its first one. */
#define FIRST_GAP_NS (NS_PER_S / 2)
/* A process that attaches has most often done so by then. */
#define ATTACH_NS (60 * NS_PER_S)
/* A shorter run that completed has nothing worth a save. */
#define WORTH_NS (5 * NS_PER_S)

/* Steps that a program reports only if it begins anew. Quick ones are over before they are read. */
enum { FIRST_STEPS = 100 };

/* "1 (hostb), 3 (hostd)": the missing nodes with their names. False: the names are unknown, or
 * there is no room for them. */
static bool name_missing(const struct chief *chief, char *text, size_t size)
{
    const struct core_params *p = chief->params;
    text[0] = '\0';
    for (int i = 0; p->names && i < p->nnodes; i++)
        if (!peer_is(&chief->peers[i], FACT_JOINED) &&
            !str_addf(text, size, "%s%d (%s)", text[0] ? ", " : "", i, p->names[i]))
            return false;
    return p->names;
}

/* The names if they fit; else "1, 3-70", as much as fits. Returns how many nodes are missing. */
static int list_missing(const struct chief *chief, char *text, size_t size)
{
    if (!name_missing(chief, text, size))
        chief_list_without(chief, FACT_JOINED, text, size);
    return chief->params->nnodes - chief->count[FACT_JOINED];
}

/* The log of a job that does not start must say what the job waits for. */
static void say_who_is_missing(struct chief *chief)
{
    char missing[MISSING_SIZE], so_far[32], in[32];
    const struct core_params *p = chief->params;
    int n = list_missing(chief, missing, sizeof missing);
    str_about(chief->out->now - chief->join.since, so_far, sizeof so_far);
    reminder_left(chief_join_until(chief) - chief->out->now, in, sizeof in);
    out_log(chief->out, LOG_NOTICE, "join",
            "still waiting for node%s %s of %d, %s so far (%s in %s)%s%s", n == 1 ? "" : "s",
            missing, p->nnodes, so_far, chief_limit_name(chief), in,
            chief->refusal[0] ? "; last refused: " : "", chief->refusal);
    reminder_next(&chief->join, chief->out->now);
}

/* A health check may take long: health.timeout is the user's. */
static void say_who_checks(struct chief *chief)
{
    char so_far[32], others[32] = "";
    int more = chief->count[FACT_CHECKS] - 1;
    const struct peer *peer = chief_first(chief, FACT_CHECKS);
    if (more > 0)
        snprintf(others, sizeof others, more == 1 ? " and one other node" : " and %d other nodes",
                 more);
    str_about(chief->out->now - peer->checks_since, so_far, sizeof so_far);
    out_log(chief->out, LOG_NOTICE, "join",
            "node %d (%s)%s check%s, %s so far; then the job starts", chief_rank_of(chief, peer),
            peer->at.host, others, more > 0 ? " their health" : "s its health", so_far);
    reminder_next(&chief->join, chief->out->now);
}

/* How many ranks a node whose ranks train says that there are; 0: none trains. */
static uint32_t trained_world(const struct chief *chief)
{
    const struct peer *peer =
        chief_first(chief, any_is(chief, FACT_STEPPED) ? FACT_STEPPED : FACT_OWN);
    return peer ? peer->status.world_size : 0;
}

/* The ranks resume from a save of which fewer ranks may not have every part. */
static bool has_parts(const struct chief *chief)
{
    return chief->params->least_world > 0 && chief->order.commit_step == chief->params->resume_step;
}

/* Steps are seldom read while nothing happens. */
static void read_first_step(struct chief *chief)
{
    if (chief->out->now < chief_first_read_at(chief))
        return;
    chief->gen.first_read_at = chief->out->now + FIRST_GAP_NS;
    out_simple(chief->out, ACT_READ_STEPS);
}

int64_t chief_first_read_at(const struct chief *chief)
{
    bool is_wanted = has_parts(chief) || chief_counts_starts(chief);
    bool is_awaited = is_wanted && chief->order.roster && !any_is(chief, FACT_STEPPED);
    return is_awaited ? chief->gen.first_read_at : CLOCK_NEVER;
}

/* Without a part that another rank saved, the training would go on from a broken state. */
bool chief_check_parts(struct chief *chief)
{
    const struct core_params *p = chief->params;
    char why[PEERMSG_WHY_SIZE];
    read_first_step(chief);
    if (!has_parts(chief))
        return true;
    uint32_t world = chief->order.start ? trained_world(chief) : chief_world(chief);
    if (world == 0 || world >= (uint32_t)p->least_world)
        return true;
    snprintf(why, sizeof why,
             "step %llu was saved by %d ranks, each to its own path; this job has %u; start it "
             "with as many ranks, or, if its ranks load all parts by themselves, set "
             "record.shrink to allow",
             ull(p->resume_step), p->saved_world, world);
    chief_stop(chief, chief->order.start ? OUTCOME_FAILED : OUTCOME_NOT_STARTED, EXIT_OWN_ERROR,
               why);
    return false;
}

static void start(struct chief *chief)
{
    char took[32];
    int64_t ns = chief->out->now - chief->started_at;
    chief->order.start = true;
    chief->order.port = out_port(chief->out);
    chief->is_changed = true;
    chief->gen.began_at = chief->began_at = chief->out->now;
    chief->gen.replace.until = 0; /* a later loss has the whole time */
    for (int i = 0; i < chief->params->nnodes; i++)
        chief->peers[i].may_run = true;
    if (chief->params->nnodes > 1)
        out_log(chief->out, LOG_NOTICE, "join", "all %d nodes are there after %s: starting",
                chief->params->nnodes, str_duration(ns / NS_PER_MS * NS_PER_MS, took, sizeof took));
}

static void end_unjoined(struct chief *chief)
{
    char missing[MISSING_SIZE], took[32], text[PEERMSG_WHY_SIZE];
    const struct core_params *p = chief->params;
    int without = list_missing(chief, missing, sizeof missing);
    bool is_back = chief->rejoin_until > chief->started_at + p->join_timeout_ns;
    str_duration(is_back ? p->reconnect_ns : p->join_timeout_ns, took, sizeof took);
    snprintf(text, sizeof text, "%d of %d nodes did not join%s within %s: node%s %s", without,
             p->nnodes, is_back ? " again" : "", took, without == 1 ? "" : "s", missing);
    if (chief->refusal[0])
        str_addf(text, sizeof text, "; last refused: %s", chief->refusal);
    chief_stop(chief, OUTCOME_NOT_STARTED, EXIT_OWN_ERROR, text);
}

static void end_preempted(struct chief *chief)
{
    char missing[MISSING_SIZE], within[32];
    int n = list_missing(chief, missing, sizeof missing);
    chief->tell_until =
        clock_min(chief_abort_at(chief), chief->out->now + chief->params->reconnect_ns);
    if (n > 0) {
        str_about(chief->tell_until - chief->out->now, within, sizeof within);
        out_log(chief->out, LOG_NOTICE, "join",
                n == 1 ? "node %s is missing; node 0 tells it of the notice if it joins within %s"
                       : "nodes %s are missing; node 0 tells them of the notice if they join "
                         "within %s",
                missing, within);
    }
    chief_stop(chief, OUTCOME_PREEMPTED, 0,
               "the notice came before the start: nothing was started");
}

bool chief_cannot_start(const struct chief *chief)
{
    uint8_t fault = chief->gen.cause.fault;
    return !chief->order.start && (fault == FAULT_START || fault == FAULT_UNFIT);
}

/* A node that cannot start ends the job. The nodes that come a little later must hear why. */
static void end_failed(struct chief *chief)
{
    chief_end_by_fault(chief);
    if (chief_cannot_start(chief))
        chief->tell_until =
            clock_min(chief->out->now + chief->params->tell_ns, chief_join_until(chief));
}

/* A node was not healthy, and no other has taken its place: the job ends as without the wait. */
static bool blame_unfit(struct chief *chief)
{
    for (int i = 0; i < chief->params->nnodes; i++) {
        struct peer *peer = &chief->peers[i];
        struct peer_cause told = {.fault = FAULT_UNFIT,
                                  .rank = -1,
                                  .code = chief->params->exit.unhealthy,
                                  .at_ns = chief->out->now,
                                  .wall_ns = chief->out->wall};
        if (!peer->is_unfit)
            continue;
        cause_say_unfit(told.text, sizeof told.text, peer->at.host,
                        peer->lost_why + strlen(CHIEF_IS_UNFIT));
        str_addf(told.text, sizeof told.text, "; no other node has taken its place");
        chief_note_fault(chief, peer, &told);
        return true;
    }
    return false;
}

void chief_decide_start(struct chief *chief)
{
    bool are_all_there = all_are(chief, FACT_JOINED) && all_are(chief, FACT_HEARD);
    chief_vacate_missing(chief);
    if (!are_all_there)
        chief_cut_measure(chief);
    if (chief_fault_counts(chief)) {
        end_failed(chief);
    } else if (any_is(chief, FACT_STOPS)) {
        chief_stop(chief, OUTCOME_PREEMPTED, 0, "nothing was started");
    } else if (chief_notice_is_near(chief)) {
        end_preempted(chief);
    } else if (are_all_there) {
        /* Each health check has its own deadline. */
        if (any_is(chief, FACT_CHECKS) && chief->out->now >= chief->join.at)
            say_who_checks(chief);
        else if (!any_is(chief, FACT_CHECKS) && chief_check_parts(chief) &&
                 chief_knows_network(chief))
            start(chief);
    } else if (all_are(chief, FACT_JOINED)) {
        return; /* the last one is about to say where it stands; a silent one must join again */
    } else if (chief->out->now >= chief_join_until(chief)) {
        if (blame_unfit(chief))
            end_failed(chief);
        else
            end_unjoined(chief);
    } else if (chief->out->now >= chief->join.at) {
        say_who_is_missing(chief);
    }
}

/* A program that resumes by itself shows it: its ranks attach at a later step than 0, or the first
 * step that they report is high. */
void chief_note_beginning(struct chief *chief)
{
    bool is_early = chief->highest > 0 && chief->highest <= FIRST_STEPS;
    if (any_is(chief, FACT_STEPPED)) {
        chief->has_stepped = true;
        chief->begins_anew = chief->begins_anew || (is_early && !chief->has_resumed);
    } else if (!chief->has_stepped && chief->highest > 0) {
        chief->has_resumed = true;
    }
}

static bool misses_all(const struct chief *chief)
{
    return chief->params->save_mode == SAVE_ATTACH && !any_is(chief, FACT_ATTACHED) &&
           !chief->gen.has_told_unattached;
}

int64_t chief_unattached_at(const struct chief *chief)
{
    bool is_due = misses_all(chief) && !all_are(chief, FACT_ENDED);
    return is_due ? chief->gen.began_at + ATTACH_NS : CLOCK_NEVER;
}

static void tell_unattached(struct chief *chief, enum log_level level, const char *what)
{
    chief->gen.has_told_unattached = true;
    out_log(chief->out, level, "attach",
            "no process has called pch_open() (in Python: pch.attach)%s; %s", what,
            chief_how_to_attach(chief));
}

void chief_say_unattached(struct chief *chief)
{
    if (chief->out->now >= chief_unattached_at(chief))
        tell_unattached(chief, LOG_WARN, " within 1 min: until one does, a notice saves nothing");
}

void chief_say_unsaveable(struct chief *chief)
{
    if (misses_all(chief) && !chief->params->is_drill &&
        chief->out->now - chief->gen.began_at >= WORTH_NS)
        tell_unattached(chief, LOG_NOTICE, ": a notice would have saved nothing");
}
