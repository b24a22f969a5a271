/* SPDX-License-Identifier: Apache-2.0
 * See report.h.
 */
#include "status/report.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "commands/evidence.h"
#include "core/common/verdict.h"
#include "status/journal.h"
#include "status/status.h"
#include "wire/control.h"
#include "json/json.h"
#include "json/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REPORT_MAX (8 * 1024 * 1024)

/* --- the contents --- */

static void add_time(struct writer *w, const char *key, int64_t mono_ns)
{
    char text[32];
    if (mono_ns == 0 || mono_ns == CLOCK_NEVER) {
        writer_null(w, key);
        return;
    }
    clock_iso8601(clock_real_ns() - (clock_now_ns() - mono_ns), text, sizeof text);
    writer_text(w, key, text);
}

/* Milliseconds between two times; null if one of them is unset. */
static void add_ms(struct writer *w, const char *key, int64_t from, int64_t to)
{
    writer_int_if(w, key, (to - from) / NS_PER_MS, from != 0 && to != 0);
}

static void add_notice(struct writer *w, const struct core_report *r)
{
    if (!writer_object_if(w, "notice", r->notice.is_live))
        return;
    writer_text(w, "source", r->notice.label.source);
    writer_text(w, "id", r->notice.label.id);
    writer_int(w, "node_rank", r->notice.node_rank);
    add_time(w, "at", r->notice.at);
    add_time(w, "deadline", r->notice.deadline);
    writer_text(w, "text", r->notice.label.text);
    writer_end(w);
}

/* Another node than node 0 is not told the host: the first cause most often has it. */
static const char *vacant_host(const struct report *report, const struct core_report *r,
                               const struct core_vacancy *vacancy)
{
    if (vacancy->host[0])
        return vacancy->host;
    if (r->first_cause.fault && r->first_cause.node == vacancy->node)
        return r->first_cause.host;
    bool is_named = report->params->names && vacancy->node < report->params->nnodes;
    return is_named ? report->params->names[vacancy->node] : NULL;
}

static void add_wait(struct writer *w, const struct report *report, const struct core_report *r)
{
    const struct core_wait *wait = &r->wait;
    int n = wait->nvacant < CORE_VACANCIES ? wait->nvacant : CORE_VACANCIES;
    if (!writer_object_if(w, "waits_for", wait->since != 0))
        return;
    writer_list(w, "nodes");
    for (int i = 0; i < n; i++) {
        writer_object(w, NULL);
        writer_int(w, "node_rank", wait->vacant[i].node);
        writer_text(w, "host", vacant_host(report, r, &wait->vacant[i]));
        add_time(w, "since", wait->vacant[i].since);
        writer_end(w);
    }
    writer_end(w);
    writer_int(w, "more", wait->nvacant - n);
    add_time(w, "since", wait->since);
    add_time(w, "until", wait->nvacant > 0 ? wait->until : CLOCK_NEVER);
    add_time(w, "starts_after", wait->fence_at);
    writer_end(w);
}

static void add_network(struct writer *w, const struct core_network *network)
{
    bool has_rate = network->known > 0;
    if (!writer_object_if(w, "network", network->pairs > 0))
        return;
    writer_int(w, "pairs", network->pairs);
    writer_int(w, "not_connected", network->failed);
    writer_int(w, "unknown", network->pairs - network->known - network->failed);
    writer_int_if(w, "median_bytes_per_s", (int64_t)network->median, has_rate);
    writer_int_if(w, "slowest_bytes_per_s", (int64_t)network->least, has_rate);
    writer_int_if(w, "slowest_node", network->slowest, has_rate);
    writer_end(w);
}

/* Only node 0 knows the spares. */
static void add_spares(struct writer *w, const struct report *report)
{
    struct core_spare_report list[SPARES_MAX];
    if (report->params->spares == 0 || report->params->node_rank != 0)
        return;
    int n = core_spares(report->core, list, SPARES_MAX);
    writer_list(w, "spares");
    for (int i = 0; i < n; i++) {
        writer_object(w, NULL);
        writer_int(w, "number", list[i].number);
        writer_text(w, "host", list[i].host);
        writer_int_if(w, "takes_place_of", list[i].place, list[i].place >= 0);
        writer_end(w);
    }
    writer_end(w);
}

static void add_round(struct writer *w, const struct core_report *r)
{
    if (!writer_object_if(w, "round", r->round.id != 0))
        return;
    writer_int(w, "id", r->round.id);
    writer_text(w, "phase", r->round.phase);
    writer_int(w, "save_step", (int64_t)r->round.save_step);
    add_ms(w, "decided_ms", r->round.opened_at, r->round.decided_at);
    add_ms(w, "saved_ms", r->round.opened_at, r->round.saved_at);
    add_ms(w, "committed_ms", r->round.opened_at, r->round.committed_at);
    writer_end(w);
}

static void add_steps(struct writer *w, const struct core_report *r, const struct record *record)
{
    if (writer_object_if(w, "commit", r->commit_step != 0)) {
        writer_int(w, "step", (int64_t)r->commit_step);
        writer_text(w, "path", record_known_path(record, r->commit_step));
        add_time(w, "at", r->commit_at);
        if (r->without[0])
            writer_text(w, "without", r->without);
        writer_end(w);
    }
    uint64_t kept = r->commit_step > r->resumed_step ? r->commit_step : r->resumed_step;
    writer_object(w, "steps");
    writer_int(w, "resumed", (int64_t)r->resumed_step);
    writer_int(w, "last", (int64_t)r->last_step);
    if (r->job.final_step)
        writer_int(w, "final", (int64_t)r->job.final_step);
    /* A completed job loses no step. */
    bool is_lost = r->last_step > kept && r->outcome != OUTCOME_COMPLETED;
    writer_int(w, "lost", is_lost ? (int64_t)(r->last_step - kept) : 0);
    writer_end(w);
}

/* Without a state directory no commit outlives pchrun. */
static uint64_t next_step(const struct report *report, const struct core_report *r)
{
    return report->params->has_record ? r->commit_step : 0;
}

char *report_say_next(const struct report *report, char *text, size_t size)
{
    struct core_report r;
    report_read(report, &r);
    text[0] = '\0';
    uint64_t step = next_step(report, &r);
    const char *path = record_known_path(report->record, step);
    if (!r.tells_next)
        return text;
    if (step > 0)
        str_addf(text, size, "the next start resumes at step %llu%s%s", (unsigned long long)step,
                 path ? " of " : "", path ? path : "");
    else
        str_addf(text, size, "the next start begins anew: %s",
                 r.commit_step > 0 ? "without checkpoint.dir or state_dir no commit is kept"
                                   : "nothing was committed");
    return text;
}

static void add_next(struct writer *w, const struct core_report *r, const struct report *report)
{
    if (!writer_object_if(w, "next_start", r->tells_next))
        return;
    uint64_t step = next_step(report, r);
    writer_int(w, "step", (int64_t)step);
    writer_text(w, "path", record_known_path(report->record, step));
    writer_end(w);
}

static void add_cause(struct writer *w, const char *key, const struct peer_cause *cause)
{
    char at[32];
    if (!writer_object_if(w, key, cause->fault))
        return;
    writer_int(w, "node_rank", cause->node);
    writer_int(w, "rank", cause->rank);
    writer_text(w, "host", cause->host);
    writer_int(w, "pid", cause->pid);
    writer_text(w, "at", clock_iso8601(cause->wall_ns, at, sizeof at));
    writer_int(w, "code", cause->code);
    writer_int_if(w, "signal", cause->code - EXIT_BY_SIGNAL, cause->fault == FAULT_SIGNAL);
    writer_text(w, "text", cause->text);
    writer_text(w, "stderr", *cause->tail ? cause->tail : NULL);
    writer_end(w);
}

/* The generations tell how many restarts there were in this attempt. */
static void add_restarts(struct writer *w, const struct report *report)
{
    const struct restart_policy *policy = &report->params->restart;
    bool may_wait = report->params->replace_wait_ns > 0;
    if (!writer_object_if(w, "restarts", policy->max > 0 || may_wait))
        return;
    writer_int(w, "max", policy->max);
    writer_int_if(w, "window_ms", policy->window_ns / NS_PER_MS, policy->window_ns > 0);
    writer_int_if(w, "replace_max", report->params->replace_max, may_wait);
    add_cause(w, "last_cause", &report->journal->last_cause);
    writer_end(w);
}

static void report_add_sources(struct writer *w, const struct inbox *inbox)
{
    writer_list(w, "sources");
    for (size_t i = 0; i < inbox->count; i++) {
        const struct source *source = &inbox->sources[i];
        writer_object(w, NULL);
        writer_text(w, "name", source->name);
        writer_text(w, "state", source_state(source));
        writer_int(w, "restarts", source->restarts);
        add_time(w, "last_line", source->last_line_at);
        writer_text(w, "last_error", *source->last_error ? source->last_error : NULL);
        writer_end(w);
    }
    writer_end(w);
}

static void report_add_ranks(struct writer *w, const struct report *report)
{
    static struct status_ranks ranks; /* too large for the stack */
    status_look_aside(&ranks, report->attach);
    writer_list(w, "ranks");
    for (int i = 0; i < ranks.n; i++) {
        struct peer_rank rank = status_rank(&ranks, i);
        writer_object(w, NULL);
        status_add_rank(w, report->params->node_rank, &rank, 0);
        writer_bool(w, "victim", ranks.list[i].is_victim);
        writer_end(w);
    }
    writer_end(w);
}

void report_read(const struct report *report, struct core_report *ret)
{
    core_report(report->core, ret);
    if (report->record->committed <= ret->commit_step)
        return;
    ret->commit_step = report->record->committed;
    ret->commit_at = report->record->committed_at;
}

void report_write(const struct report *report, struct writer *w, const char *key)
{
    char now[32];
    struct core_report r;
    report_read(report, &r);
    bool is_known = r.outcome != OUTCOME_UNKNOWN;
    writer_object(w, key);
    writer_text(w, "schema", REPORT_SCHEMA);
    writer_int(w, "version", REPORT_VERSION);
    writer_text(w, "written", clock_iso8601(clock_real_ns(), now, sizeof now));
    writer_text(w, "job", report->params->job);
    writer_int(w, "attempt", r.attempt);
    writer_int(w, "generation", r.generation);
    writer_int(w, "node_rank", report->params->node_rank);
    writer_int(w, "nnodes", report->params->nnodes);
    writer_text(w, "host", report->params->host);
    writer_text(w, "state", node_state_name(r.state));
    writer_text(w, "outcome", verdict_name(r.outcome));
    writer_int_if(w, "exit_code", report->exit_code >= 0 ? report->exit_code : r.exit_code,
                  is_known);
    writer_text(w, "why", r.why);
    add_notice(w, &r);
    add_wait(w, report, &r);
    add_spares(w, report);
    add_round(w, &r);
    writer_int_if(w, "save_every_ms", r.job.save_every_ns / NS_PER_MS, r.job.save_every_ns > 0);
    add_steps(w, &r, report->record);
    add_next(w, &r, report);
    add_cause(w, "first_cause", &r.first_cause);
    add_restarts(w, report);
    strikes_write(&report->record->history.strikes, w);
    report_add_sources(w, report->inbox);
    writer_int_if(w, "ranks_expected", r.ranks_expected, r.ranks_expected >= 0);
    report_add_ranks(w, report);
    hook_write(report->hook, w, "exit_hook");
    health_write(report->health, w, "health");
    add_network(w, &r.job.network);
    logs_write(report->logs, is_known, w, "logs");
    writer_text(w, "evidence", report->evidence->path);
    writer_end(w);
}

/* --- writing it --- */

static void report_write_file(void *ctx)
{
    struct report *report = ctx;
    struct core_report r;
    struct writer w;
    size_t len = 0;
    core_report(report->core, &r);
    /* Node 0 has not admitted this node: the report of the last attempt stays. */
    if (report->is_of_attempts && r.attempt == 0)
        return;
    writer_init(&w, REPORT_MAX, WRITER_PRETTY);
    report_write(report, &w, NULL);
    const char *text = writer_done(&w, &len);
    outfile_write(&report->out, text, len);
    writer_free(&w);
}

/* An older report may be left of a job that began anew in this directory, with smaller numbers. */
bool report_is_ours(void *ctx, struct err *err)
{
    const struct report *report = ctx;
    const char *path = report->out.file.path;
    struct core_report r;
    struct err unread;
    int64_t written;
    JSON_CLEANUP struct json *root = path ? json_read_written(path, REPORT_MAX, &unread) : NULL;
    core_report(report->core, &r);
    int64_t attempt = json_int_at(root, "attempt", 0);
    int64_t generation = json_int_at(root, "generation", 0);
    bool is_later = attempt > r.attempt || (attempt == r.attempt && generation > r.generation);
    if (r.attempt == 0 || !is_later || !json_is_at(root, "job", report->params->job) ||
        json_int_at(root, "node_rank", -1) != report->params->node_rank ||
        !date_parse(json_text_at(root, "written"), &written) || written <= report->since)
        return true;
    const char *host = json_text_at(root, "host");
    if (attempt > r.attempt)
        return err_set(err, ERR_REPLACED, 0, "attempt %" PRId64 " on %.64s has taken over the job",
                       attempt, host);
    return err_set(err, ERR_REPLACED, 0,
                   "another pchrun on %.64s has taken this node's place in generation %" PRId64,
                   host, generation);
}

bool report_open(struct report *report, const char *path, struct reap *reap,
                 struct event_base *base, struct err *err)
{
    report->exit_code = -1;
    report->since = clock_real_ns();
    report->out = (struct outfile){.topic = "report",
                                   .what = "report",
                                   .option = "report",
                                   .write = report_write_file,
                                   .is_ours = report_is_ours,
                                   .owner = report,
                                   .ctx = report};
    return outfile_open(&report->out, path, reap, base, err);
}

void report_free(struct report *report)
{
    outfile_free(&report->out);
}

/* --- the last line, for Kubernetes --- */

/* Kubernetes reads no more than this. */
enum { LAST_LINE_MAX = 4096 };
#define LAST_LINE_WAIT_NS (2 * NS_PER_S)

struct last_line {
    const char *path, *text;
};

/* Runs in a child, since the file system may not answer. The child answers 0 or the errno. */
static void write_last_line(const void *arg, int answer)
{
    const struct last_line *line = arg;
    /* The flags: no terminal becomes ours, and a pipe without a reader does not block. */
    FD_CLEANUP int fd = open(line->path, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    /* Only a regular file can be truncated. */
    bool ok = fd >= 0 && ftruncate(fd, 0) == 0 &&
              fd_write_all(fd, line->text, strnlen(line->text, LAST_LINE_MAX));
    int why = ok ? 0 : errno;
    if (!fd_write_all(answer, &why, sizeof why))
        _exit(1);
}

void report_last_line(const char *path, const char *text)
{
    struct reap reap = {0};
    struct helper helper = {.reap = &reap};
    struct last_line line = {path, text};
    struct err err;
    int64_t until = clock_now_ns() + LAST_LINE_WAIT_NS;
    int why = 0;
    if (!path || !*text ||
        (str_is(path, REPORT_TERMINATION_LOG) && !getenv("KUBERNETES_SERVICE_HOST")))
        return;
    if (!helper_ask(&helper, write_last_line, &line, &err))
        log_debug("end", "%s", err.text);
    else if (helper_read(&helper, -1, until, &why, sizeof why) != HELPER_ANSWER || why)
        log_debug("end", "cannot write '%s': %s", path, why ? strerror(why) : "no answer");
    helper_end(&helper, true, until);
    reap_end(&reap);
}
