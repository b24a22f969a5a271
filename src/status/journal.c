/* SPDX-License-Identifier: Apache-2.0
 * See journal.h.
 */
#include "status/journal.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/sigtext.h"
#include "base/str.h"
#include "core/common/cause.h"
#include "core/common/verdict.h"
#include "goodput/mark.h"
#include "json/writer.h"

#include <stdio.h>
#include <string.h>

#define LINE_MAX_BYTES 8192
#define FILE_MAX_BYTES (4 * 1024 * 1024)

/* The nodes' deadlines for one notice differ by the time that its message takes. */
#define SAME_DEADLINE_NS NS_PER_S

/* --- lines --- */

static void journal_keep(struct journal *journal, const char *text, size_t len)
{
    if (journal->count == JOURNAL_KEPT) {
        const uint8_t *oldest = buf_bytes(&journal->kept);
        const uint8_t *end = memchr(oldest, '\n', buf_len(&journal->kept));
        buf_drop(&journal->kept, (size_t)(end + 1 - oldest));
        journal->count--;
    }
    if (buf_add(&journal->kept, text, len))
        journal->count++;
}

static void journal_begin(const struct journal *journal, struct writer *w, const char *event)
{
    char ts[32];
    struct core_report report;
    core_report(journal->core, &report);
    writer_init(w, LINE_MAX_BYTES, WRITER_LINE);
    writer_object(w, NULL);
    writer_text(w, "ts", clock_iso8601(clock_real_ns(), ts, sizeof ts));
    writer_int(w, "node", journal->params->node_rank);
    writer_int(w, "attempt", report.attempt);
    writer_int(w, "generation", report.generation);
    writer_text(w, "event", event);
}

static void journal_end(struct journal *journal, struct writer *w)
{
    size_t len;
    writer_end(w);
    const char *text = writer_done(w, &len);
    if (text) {
        journal_keep(journal, text, len);
        linefile_add(&journal->file, text, len);
        if (journal->on_line)
            journal->on_line(journal->ctx, text, len);
    }
    writer_free(w);
}

/* --- what the core does --- */

/* These topics become events of their own; no other line reports them. All others are "log". */
static const char *event_of_topic(const char *topic)
{
    static const char *const events[] = {"join", "lost", "network", "restart", "slow", NULL};
    return topic && str_is_one_of(topic, events) ? topic : "log";
}

/* Node 0 knows which ranks the commit did without. */
static void journal_add_commit(const struct journal *journal, struct writer *w,
                               const struct action *action)
{
    struct core_report report;
    core_report(journal->core, &report);
    writer_int(w, "step", (int64_t)action->step);
    if (report.without[0])
        writer_text(w, "without", report.without);
}

/* Writes the line of an action that has one. */
static void write_action(struct journal *journal, const struct action *action)
{
    static const char *const targets[] = {
        [TARGET_CHILDREN] = "commands", [TARGET_RANKS] = "ranks", [TARGET_TREE] = "all"};
    struct writer w;
    switch (action->type) {
    case ACT_START:
        journal_begin(journal, &w, "started");
        writer_int(&w, "commands", journal->params->children);
        writer_int(&w, "resume_step", (int64_t)action->start.resume_step);
        break;
    case ACT_SIGNAL:
        journal_begin(journal, &w, "signal");
        writer_text(&w, "signal", SIGTEXT(action->signal.number));
        writer_text(&w, "to", targets[action->signal.target]);
        break;
    case ACT_PROC_SEND:
        if (action->proc.msg->type != PROCMSG_WELCOME)
            return;
        journal_begin(journal, &w, "attached");
        writer_int(&w, "rank", action->proc.msg->rank);
        writer_int(&w, "resume_step", (int64_t)action->proc.msg->step);
        break;
    case ACT_PREPARE:
        journal_begin(journal, &w, "saved");
        writer_int(&w, "step", (int64_t)action->step);
        writer_int(&w, "ranks", action->ranks);
        break;
    case ACT_COMMITTED:
        journal_begin(journal, &w, "committed");
        journal_add_commit(journal, &w, action);
        break;
    case ACT_MARK:
        if (action->mark.kind == MARK_COMMIT) /* "committed" has it */
            return;
        journal_begin(journal, &w, "phase");
        writer_text(&w, "phase", mark_name(action->mark.kind));
        writer_int(&w, "step", (int64_t)action->mark.step);
        break;
    case ACT_LOG:
        if (action->log.level >= LOG_DEBUG)
            return;
        journal_begin(journal, &w, event_of_topic(action->log.topic));
        writer_text(&w, "level", log_level_names[action->log.level]);
        writer_text(&w, "topic", action->log.topic);
        writer_text(&w, "text", action->log.text);
        break;
    default:
        return;
    }
    journal_end(journal, &w);
}

/* --- what it reports --- */

static void tell_state(struct journal *journal, const struct core_report *r)
{
    struct writer w;
    if (journal->seen.state == r->state)
        return;
    journal->seen.state = r->state;
    journal_begin(journal, &w, "state");
    writer_text(&w, "state", node_state_name(r->state));
    journal_end(journal, &w);
}

static void tell_round(struct journal *journal, const struct core_report *r)
{
    struct writer w;
    bool is_new =
        r->round.id != journal->seen.round.id || r->round.phase != journal->seen.round.phase;
    journal->seen.round = r->round;
    if (!is_new || r->round.id == 0)
        return;
    journal_begin(journal, &w, "round");
    writer_int(&w, "round", r->round.id);
    writer_text(&w, "phase", r->round.phase);
    writer_int(&w, "step", (int64_t)r->round.save_step);
    journal_end(journal, &w);
}

static bool is_same_notice(const struct core_report *a, const struct core_report *b)
{
    if (!a->notice.is_live || !b->notice.is_live)
        return a->notice.is_live == b->notice.is_live;
    int64_t moved = a->notice.deadline - b->notice.deadline;
    return a->notice.node_rank == b->notice.node_rank &&
           str_is(a->notice.label.source, b->notice.label.source) &&
           str_is(a->notice.label.id, b->notice.label.id) && moved < SAME_DEADLINE_NS &&
           moved > -SAME_DEADLINE_NS;
}

static void journal_tell_notice(struct journal *journal, const struct core_report *r)
{
    struct writer w;
    if (is_same_notice(r, &journal->seen))
        return;
    journal->seen.notice = r->notice;
    journal_begin(journal, &w, r->notice.is_live ? "notice" : "notice_over");
    if (r->notice.is_live) {
        int64_t left = r->notice.deadline - clock_now_ns();
        writer_text(&w, "source", r->notice.label.source);
        writer_text(&w, "id", r->notice.label.id);
        writer_int(&w, "of_node", r->notice.node_rank);
        writer_int(&w, "left_ms", left > 0 ? left / NS_PER_MS : 0);
        writer_text(&w, "text", r->notice.label.text);
    }
    journal_end(journal, &w);
}

static bool is_same_wait(const struct core_wait *a, const struct core_wait *b)
{
    bool is_same = !a->since == !b->since && a->nvacant == b->nvacant;
    for (int i = 0; is_same && i < CORE_VACANCIES; i++)
        is_same = a->vacant[i].node == b->vacant[i].node;
    return is_same;
}

static void tell_wait(struct journal *journal, const struct core_report *r)
{
    struct writer w;
    const struct core_wait *wait = &r->wait;
    bool is_same = is_same_wait(wait, &journal->seen.wait);
    int n = wait->nvacant < CORE_VACANCIES ? wait->nvacant : CORE_VACANCIES;
    journal->seen.wait = *wait;
    if (wait->since == 0 || is_same)
        return;
    int64_t now = clock_now_ns();
    journal_begin(journal, &w, "waits_for");
    writer_list(&w, "of_nodes");
    for (int i = 0; i < n; i++)
        writer_int(&w, NULL, wait->vacant[i].node);
    writer_end(&w);
    writer_int(&w, "more", wait->nvacant - n);
    writer_int_if(&w, "left_ms", (wait->until - now) / NS_PER_MS, n > 0);
    writer_int(&w, "starts_after_ms",
               wait->fence_at > now ? (wait->fence_at - now) / NS_PER_MS : 0);
    journal_end(journal, &w);
}

/* A line of the event "failed". */
struct journal_failure {
    const char *kind, *text;
    int node, rank, pid, code;
    uint64_t last_step;
};

static void journal_tell_failed(struct journal *journal, const struct journal_failure *failure)
{
    struct writer w;
    journal_begin(journal, &w, "failed");
    writer_text(&w, "kind", failure->kind);
    writer_int(&w, "of_node", failure->node);
    writer_int(&w, "rank", failure->rank);
    writer_int(&w, "pid", failure->pid);
    writer_int(&w, "code", failure->code);
    writer_int(&w, "last_step", (int64_t)failure->last_step);
    writer_text(&w, "text", failure->text);
    journal_end(journal, &w);
}

/* A failure may be reported before its process ends. If its text changes later, a new line has the
 * new text. */
static void tell_cause(struct journal *journal, const struct core_report *r)
{
    const struct peer_cause *cause = &r->first_cause;
    if (str_is(journal->seen.first_cause.text, cause->text))
        return;
    journal->seen.first_cause = *cause;
    if (!cause->fault)
        return;
    journal->last_cause = *cause;
    journal_tell_failed(journal, &(struct journal_failure){.kind = cause_kind(cause->fault),
                                                           .text = cause->text,
                                                           .node = cause->node,
                                                           .rank = cause->rank,
                                                           .pid = cause->pid,
                                                           .code = cause->code,
                                                           .last_step = r->last_step});
}

/* Node 0 finds a hang. The rank that is behind has not failed, so the report names no first cause.
 */
static void tell_hang(struct journal *journal, const struct core_report *r)
{
    const struct core_hang *hang = &r->job.hang;
    if (str_is(journal->seen.job.hang.text, hang->text))
        return;
    journal->seen.job.hang = *hang;
    if (!hang->text[0])
        return;
    journal->last_cause = (struct peer_cause){.fault = FAULT_GAVE_UP,
                                              .node = hang->node,
                                              .rank = hang->rank,
                                              .pid = hang->pid,
                                              .code = journal->params->exit.hang,
                                              .wall_ns = clock_real_ns()};
    str_copy(journal->last_cause.text, sizeof journal->last_cause.text, hang->text);
    journal_tell_failed(journal, &(struct journal_failure){.kind = "hang",
                                                           .text = hang->text,
                                                           .node = hang->node,
                                                           .rank = hang->rank,
                                                           .pid = hang->pid,
                                                           .code = journal->params->exit.hang,
                                                           .last_step = r->job.last_step});
}

/* The number tells a client whether its own request was given up. */
static void tell_given_up(struct journal *journal, const struct core_report *r)
{
    struct writer w;
    if (journal->seen.stops_given_up == r->stops_given_up)
        return;
    journal->seen.stops_given_up = r->stops_given_up;
    journal_begin(journal, &w, "stop_given_up");
    writer_int(&w, "number", r->stops_given_up);
    writer_text(&w, "text", r->why_given_up);
    journal_end(journal, &w);
}

void journal_take(struct journal *journal, const struct action *action)
{
    /* These actions come with a change of the core's report. */
    bool is_telling = action->type == ACT_STATE || action->type == ACT_GATE ||
                      action->type == ACT_NOTICE || action->type == ACT_COMMITTED ||
                      action->type == ACT_PROC_SEND;
    journal->is_dirty = journal->is_dirty || is_telling;
    write_action(journal, action);
    /* On a single node a failure and the restart after it may be one event of the core. */
    if (action->type == ACT_STATE) {
        struct core_report report;
        core_report(journal->core, &report);
        counts_take(&journal->counts, &report);
        tell_cause(journal, &report);
        tell_hang(journal, &report);
    }
}

void journal_settle(struct journal *journal)
{
    struct core_report report;
    if (!journal->is_dirty)
        return;
    journal->is_dirty = false;
    core_report(journal->core, &report);
    counts_take(&journal->counts, &report);
    tell_cause(journal, &report);
    tell_hang(journal, &report);
    journal_tell_notice(journal, &report);
    tell_wait(journal, &report);
    tell_round(journal, &report);
    tell_given_up(journal, &report);
    tell_state(journal, &report);
}

void journal_exit(struct journal *journal, enum outcome outcome, int code, const char *why)
{
    struct writer w;
    struct core_report report;
    journal->is_dirty = true;
    journal_settle(journal);
    core_report(journal->core, &report);
    journal_begin(journal, &w, "exit");
    writer_text(&w, "outcome", verdict_name(outcome));
    writer_int(&w, "exit_code", code);
    writer_int(&w, "last_step",
               (int64_t)(report.job.last_step ? report.job.last_step : report.last_step));
    writer_text(&w, "text", why);
    journal_end(journal, &w);
    linefile_flush(&journal->file);
}

/* --- begin and end --- */

static void note_dropped(void *ctx, unsigned count, char *text, size_t size)
{
    snprintf(text, size, "{\"event\":\"dropped\",\"count\":%u}\n", count);
}

bool journal_open(struct journal *journal, const char *path, struct reap *reap,
                  struct event_base *base, struct err *err)
{
    journal->is_dirty = true;
    journal->seen.state = NODE__COUNT;
    journal->file = (struct linefile){.out = {.topic = "events",
                                              .what = "journal",
                                              .option = "events.file",
                                              .file = {.max = FILE_MAX_BYTES},
                                              .ctx = journal},
                                      .note = note_dropped};
    buf_init(&journal->kept, (size_t)JOURNAL_KEPT * LINE_MAX_BYTES);
    return linefile_open(&journal->file, path, reap, base, err);
}

void journal_free(struct journal *journal)
{
    linefile_free(&journal->file);
    buf_free(&journal->kept);
    journal->count = 0;
}
