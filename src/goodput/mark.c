/* SPDX-License-Identifier: Apache-2.0
 * See mark.h.
 */
#include "goodput/mark.h"

#include "base/str.h"
#include "json/writer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The checksum is the last member. It is of all that stands before it. */
#define SUM_BEGIN ", \"sum\": \""
#define SUM_END   "\"}"

enum { SUM_DIGITS = 16 };

static const char *const names[MARK__COUNT] = {
    [MARK_NONE] = "none",         [MARK_STARTING] = "starting",
    [MARK_WAITING] = "waiting",   [MARK_UNATTACHED] = "unattached",
    [MARK_TRAINING] = "training", [MARK_SAVING] = "saving",
    [MARK_HUNG] = "hung",         [MARK_RESTARTING] = "restarting",
    [MARK_STOPPING] = "stopping", [MARK_ENDED] = "ended",
    [MARK_COMMIT] = "commit",     [MARK_TICK] = "tick",
};

const char *mark_name(enum mark_kind kind)
{
    return kind < MARK__COUNT ? names[kind] : names[MARK_NONE];
}

static void write_members(const struct mark *mark, struct writer *w)
{
    writer_object(w, NULL);
    writer_int(w, "at_ms", mark->at_ms);
    writer_int(w, "mono_ms", mark->mono_ms);
    writer_int(w, "attempt", mark->attempt);
    writer_int(w, "generation", mark->generation);
    writer_text(w, "mark", mark_name(mark->kind));
    writer_int(w, "step", (int64_t)mark->step);
    if (mark->outcome[0])
        writer_text(w, "outcome", mark->outcome);
    if (mark->job[0])
        writer_text(w, "job", mark->job);
    if (mark->job_start_ms > 0)
        writer_int(w, "job_start_ms", mark->job_start_ms);
    if (mark->loading_ms > 0)
        writer_int(w, "loading_ms", mark->loading_ms);
    if (mark->dropped > 0)
        writer_int(w, "dropped", mark->dropped);
    writer_end(w);
}

size_t mark_compose(const struct mark *mark, char text[MARK_LINE_MAX])
{
    struct writer w;
    size_t len = 0;
    writer_init(&w, MARK_LINE_MAX, WRITER_LINE);
    write_members(mark, &w);
    const char *members = writer_done(&w, &len);
    int n = members ? snprintf(text, MARK_LINE_MAX, "%.*s", (int)len - 2, members) : MARK_LINE_MAX;
    writer_free(&w);
    if (n >= MARK_LINE_MAX)
        return 0;
    n += snprintf(text + n, (size_t)(MARK_LINE_MAX - n), SUM_BEGIN "%016" PRIx64 SUM_END "\n",
                  str_hash(text));
    return n < MARK_LINE_MAX ? (size_t)n : 0;
}

static bool has_its_sum(const char *line, size_t len)
{
    const size_t tail = strlen(SUM_BEGIN) + SUM_DIGITS + strlen(SUM_END);
    char text[MARK_LINE_MAX], sum[64];
    if (len < tail || len >= sizeof text || strlen(line) != len)
        return false;
    snprintf(text, sizeof text, "%.*s", (int)(len - tail), line);
    snprintf(sum, sizeof sum, SUM_BEGIN "%016" PRIx64 SUM_END, str_hash(text));
    return str_is(line + (len - tail), sum);
}

/* No time and no step is as large. With such limits no sum overflows. */
#define NUMBER_MAX (INT64_C(1) << 52)

static bool take_number(const struct json *root, const char *key, int64_t *ret)
{
    *ret = json_int_at(root, key, 0);
    return *ret >= 0 && *ret < NUMBER_MAX;
}

static bool take_numbers(const struct json *root, struct mark *ret)
{
    int64_t step;
    bool ok = take_number(root, "at_ms", &ret->at_ms) &&
              take_number(root, "mono_ms", &ret->mono_ms) &&
              take_number(root, "attempt", &ret->attempt) &&
              take_number(root, "generation", &ret->generation) &&
              take_number(root, "job_start_ms", &ret->job_start_ms) &&
              take_number(root, "loading_ms", &ret->loading_ms) &&
              take_number(root, "step", &step) && take_number(root, "dropped", &ret->dropped);
    ret->step = ok ? (uint64_t)step : 0;
    return ok;
}

static bool take_kind(const struct json *root, enum mark_kind *ret)
{
    for (*ret = MARK_NONE; *ret < MARK__COUNT; ++*ret)
        if (json_is_at(root, "mark", names[*ret]))
            return true;
    return false;
}

bool mark_parse(const char *line, size_t len, struct mark *ret, bool *ret_is_damaged)
{
    struct err err;
    JSON_CLEANUP struct json *root =
        has_its_sum(line, len) ? json_read("ledger", line, len, &err) : NULL;
    *ret = (struct mark){0};
    *ret_is_damaged = !root || !json_make_printable(root, &err) || !take_numbers(root, ret);
    if (*ret_is_damaged || !take_kind(root, &ret->kind))
        return false;
    str_copy(ret->outcome, sizeof ret->outcome, json_text_at(root, "outcome"));
    str_copy(ret->job, sizeof ret->job, json_text_at(root, "job"));
    return true;
}
