/* SPDX-License-Identifier: Apache-2.0
 * See hours.h. The notices, first failures and ends of a job, from its journals.
 *
 * Every node tells them. Node 0 knows the whole job, but it may be killed before it can write, so
 * the journal of the lowest other node is read, too. A moment that both tell is taken once.
 */
#include "ctl/hours.h"

#include "base/clock.h"
#include "base/sigtext.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Two nodes tell the same notice within this time. */
#define SAME_MS INT64_C(5000)
/* The journal may begin this much after the ledger. */
#define LATE_MS INT64_C(60000)

enum { MOMENTS_MAX = 20000, NO_NODE = -1 };

struct reading {
    struct moments *moments;
    size_t room;
    int64_t first_ms; /* of the first event of node 0; 0: none */
    int64_t dropped;
    bool is_full, has_no_memory;
};

/* --- one moment --- */

/* "SIGTERM to node 1, 25 s left" */
static void moment_of_notice(const struct json *event, struct timeline_moment *ret)
{
    char left[24] = "";
    int64_t ms = json_int_at(event, "left_ms", 0);
    const char *text = json_text_at(event, "text");
    str_addf(ret->label, sizeof ret->label, "%.40s to node %" PRId64, json_text_at(event, "source"),
             json_int_at(event, "of_node", -1));
    str_addf(ret->text, sizeof ret->text, "notice: %s", ret->label);
    if (ms > 0)
        str_addf(ret->text, sizeof ret->text, ", %s left",
                 str_about((ms + 500) / 1000 * NS_PER_S, left, sizeof left));
    if (*text)
        str_addf(ret->text, sizeof ret->text, ": %s", text);
}

/* "SIGSEGV", "exit code 1"; the text of a kind that has no short name. */
static void name_cause(const struct json *event, char *ret, size_t size)
{
    static const struct {
        const char *kind, *name;
    } names[] = {{"lost", "lost"},
                 {"hang", "the job stood still here"},
                 {"gave_up", "gave up its wait"},
                 {"silent", "ended without pch_done()"},
                 {"start", "could not start"},
                 {"unhealthy", "not healthy"}};
    int64_t code = json_int_at(event, "code", 0);
    if (json_is_at(event, "kind", "signal") && code > 128 && code < 256)
        str_copy(ret, size, SIGTEXT((int)code - 128));
    else if (json_is_at(event, "kind", "exit"))
        str_addf(ret, size, "exit code %" PRId64, code);
    else
        str_copy(ret, size, json_text_at(event, "text"));
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (json_is_at(event, "kind", names[i].kind))
            str_copy(ret, size, names[i].name);
}

/* "rank 3 on node 1: SIGSEGV" */
static void moment_of_cause(const struct json *event, struct timeline_moment *ret)
{
    char cause[48] = "";
    int64_t rank = json_int_at(event, "rank", -1);
    name_cause(event, cause, sizeof cause);
    if (rank >= 0)
        str_addf(ret->label, sizeof ret->label, "rank %" PRId64 " on ", rank);
    str_addf(ret->label, sizeof ret->label, "node %" PRId64, json_int_at(event, "of_node", -1));
    str_addf(ret->text, sizeof ret->text, "first failure: %s: %s", ret->label,
             json_text_at(event, "text"));
    str_addf(ret->label, sizeof ret->label, ": %s", cause);
}

/* An end may have no process, node or rank that failed: "no_progress". */
static void moment_of_reason(const struct json *event, struct timeline_moment *ret)
{
    ret->told_by = NO_NODE;
    str_copy(ret->label, sizeof ret->label, json_text_at(event, "outcome"));
    str_addf(ret->text, sizeof ret->text, "first failure: %s", json_text_at(event, "text"));
}

static bool is_always(const struct json *event)
{
    return true;
}

/* A user who stops the job is no failure. */
static bool is_cause(const struct json *event)
{
    return !json_is_at(event, "kind", "stopped");
}

static bool is_failure(const struct json *event)
{
    static const char *const failures[] = {"failed", "node_lost", "hang", "no_progress", NULL};
    return str_is_one_of(json_text_at(event, "outcome"), failures);
}

static void moment_of_end(const struct json *event, struct timeline_moment *ret)
{
    str_addf(ret->text, sizeof ret->text, "exit code %" PRId64 ": %s",
             json_int_at(event, "exit_code", -1), json_text_at(event, "text"));
}

static const struct teller {
    const char *event;
    enum timeline_kind kind;
    bool (*applies)(const struct json *event);
    void (*tell)(const struct json *event, struct timeline_moment *ret);
} tellers[] = {
    {"notice", TIMELINE_NOTICE, is_always, moment_of_notice},
    {"failed", TIMELINE_CAUSE, is_cause, moment_of_cause},
    {"exit", TIMELINE_CAUSE, is_failure, moment_of_reason},
    {"exit", TIMELINE_END, is_always, moment_of_end},
};

/* --- the list --- */

/* A generation has one first failure, and an attempt one end. */
static bool moments_are_same(const struct timeline_moment *a, const struct timeline_moment *b)
{
    int64_t apart = a->at_ms - b->at_ms;
    if (a->kind != b->kind || a->attempt != b->attempt)
        return false;
    if (a->kind == TIMELINE_CAUSE)
        return a->generation == b->generation;
    return a->kind == TIMELINE_END ||
           (str_is(a->label, b->label) && apart < SAME_MS && apart > -SAME_MS);
}

/* A later line of a node about the same failure has more. Its first end may be that of a pchrun
 * which left, and was replaced. */
static bool knows_more(const struct timeline_moment *moment, const struct timeline_moment *known)
{
    if (moment->kind == TIMELINE_END)
        return known->told_by == moment->told_by;
    return moment->kind == TIMELINE_CAUSE && moment->told_by != NO_NODE &&
           (known->told_by == moment->told_by || known->told_by == NO_NODE);
}

/* The time is that of the first line. */
static void moments_add(struct reading *reading, const struct timeline_moment *moment)
{
    struct moments *moments = reading->moments;
    for (size_t i = moments->n; i-- > 0;)
        if (moments_are_same(&moments->list[i], moment)) {
            if (knows_more(moment, &moments->list[i])) {
                memcpy(moments->list[i].label, moment->label, sizeof moment->label);
                memcpy(moments->list[i].text, moment->text, sizeof moment->text);
                moments->list[i].told_by = moment->told_by;
            }
            return;
        }
    if (moments->n == reading->room && moments->n < MOMENTS_MAX) {
        size_t room = reading->room ? 2 * reading->room : 64;
        struct timeline_moment *list = reallocarray(moments->list, room, sizeof *list);
        reading->has_no_memory = reading->has_no_memory || !list;
        moments->list = list ? list : moments->list;
        reading->room = list ? room : reading->room;
    }
    reading->is_full = moments->n == reading->room;
    if (!reading->is_full)
        moments->list[moments->n++] = *moment;
}

static void moments_take_event(struct reading *reading, const struct json *event)
{
    int64_t ns;
    if (json_is_at(event, "event", "dropped"))
        reading->dropped += json_int_at(event, "count", 0);
    if (!date_parse(json_text_at(event, "ts"), &ns))
        return;
    if (reading->first_ms == 0)
        reading->first_ms = ns / NS_PER_MS;
    for (size_t i = 0; i < ARRAY_LEN(tellers); i++)
        if (json_is_at(event, "event", tellers[i].event) && tellers[i].applies(event)) {
            struct timeline_moment moment = {.kind = tellers[i].kind,
                                             .attempt = json_int_at(event, "attempt", 0),
                                             .generation = json_int_at(event, "generation", 0),
                                             .at_ms = ns / NS_PER_MS,
                                             .told_by = json_int_at(event, "node", NO_NODE)};
            tellers[i].tell(event, &moment);
            moments_add(reading, &moment);
        }
}

/* Most lines are of other events, and are not read. */
static void moments_take_line(void *ctx, char *line, size_t len)
{
    struct reading *reading = ctx;
    struct answer event = {0};
    struct err err;
    bool is_wanted = reading->first_ms == 0 || strstr(line, "\"dropped\"");
    for (size_t i = 0; i < ARRAY_LEN(tellers); i++)
        is_wanted = is_wanted || strstr(line, tellers[i].event);
    if (is_wanted && answer_read(&event, line, len, &err))
        moments_take_event(reading, event.root);
    answer_free(&event);
}

/* --- the journals --- */

/* The lowest node above 0 that has a journal in the directory; -1: none. */
static int64_t find_other_node(const char *dir)
{
    int64_t ret = -1;
    struct dirent *entry;
    DIR *stream = opendir(dir);
    while (stream && (entry = readdir(stream))) {
        int64_t node;
        char number[16] = "";
        int len = 0;
        if (sscanf(entry->d_name, "events.%15[0-9].jsonl%n", number, &len) == 1 && len > 0 &&
            str_to_i64(number, 1, INT32_MAX, &node) && (ret < 0 || node < ret))
            ret = node;
    }
    if (stream)
        closedir(stream);
    return ret;
}

static int moments_compare(const void *a, const void *b)
{
    const struct timeline_moment *one = a, *other = b;
    return (one->at_ms > other->at_ms) - (one->at_ms < other->at_ms);
}

static void PRINTF_LIKE(2, 3) moments_note(struct moments *moments, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (moments->nnotes < TIMELINE_NOTES_MAX)
        vsnprintf(moments->notes[moments->nnotes++], TIMELINE_NOTE, format, args);
    va_end(args);
}

static void note_lacks(const struct reading *reading, bool is_there, const struct goodput *g)
{
    char date[GOODPUT_WORD];
    struct moments *moments = reading->moments;
    if (!is_there)
        moments_note(moments,
                     "no journal of node 0 is beside the ledger: notices and failures are missing");
    else if (g->nspans > 0 && reading->first_ms > g->spans[0].at_ms + LATE_MS)
        moments_note(moments, "the journal begins at %s: earlier notices and failures are missing",
                     goodput_date(reading->first_ms, date));
    if (reading->dropped > 0)
        moments_note(moments, "the journal lacks %" PRId64 " events that node 0 could not write",
                     reading->dropped);
    if (reading->is_full)
        moments_note(moments, "there are more notices and failures than are drawn");
}

bool moments_read(const struct hours *hours, struct moments *ret, struct err *err)
{
    char dir[PATH_MAX];
    struct reading reading = {.moments = ret};
    const char *slash = strrchr(hours->path, '/');
    *ret = (struct moments){.n = 0};
    snprintf(dir, sizeof dir, "%.*s", slash ? (int)(slash - hours->path) : 1,
             slash ? hours->path : ".");
    bool is_there = events_each(dir, 0, moments_take_line, &reading);
    int64_t other = find_other_node(dir), dropped = reading.dropped;
    if (other > 0)
        events_each(dir, other, moments_take_line, &reading);
    reading.dropped = dropped;
    if (ret->n > 0)
        qsort(ret->list, ret->n, sizeof *ret->list, moments_compare);
    note_lacks(&reading, is_there, &hours->of);
    return !reading.has_no_memory ||
           err_set(err, ERR_SYSTEM, ENOMEM, "cannot read the journal in %s", dir);
}

void moments_free(struct moments *moments)
{
    free(moments->list);
}
