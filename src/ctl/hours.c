/* SPDX-License-Identifier: Apache-2.0
 * See ctl.h and hours.h. Reads the ledger that node 0 keeps in the state directory. Works while the
 * job runs, and after it has ended.
 */
#include "ctl/hours.h"

#include "base/clock.h"
#include "base/str.h"
#include "base/value.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { CHUNK = 64 * 1024, DATE = 40 };

/* --- the options --- */

#define SINCE_MAX_NS (INT64_C(36500) * 24 * 3600 * NS_PER_S)

bool hours_take_since(struct ctl_options *options, const char *typed, const char *value,
                      struct err *err)
{
    int64_t ns = 0;
    if (date_parse(value, &options->since_ns))
        return true;
    bool is_time = str_to_duration(value, &ns);
    if (is_time && !value_duration(value, 0, SINCE_MAX_NS, &ns, err))
        return err_wrap(err, "%s", typed);
    if (!is_time)
        return err_set(err, ERR_USAGE, 0,
                       "%s: \"%.80s\" is neither a time, such as 24h, nor a date with its zone, "
                       "such as 2026-11-28T10:00:00Z",
                       typed, value);
    options->since_ns = clock_real_ns() - ns;
    return true;
}

/* "FROM..TO" or "FROM..TO=REASON" */
bool hours_take_exclusion(struct ctl_options *options, const char *typed, const char *value,
                          struct err *err)
{
    char from[DATE] = "", to[DATE] = "";
    struct ctl_exclusion *ret = &options->exclusions[options->nexclusions];
    if (options->nexclusions == CTL_EXCLUSIONS_MAX)
        return err_set(err, ERR_USAGE, 0, "%s: at most %d are possible", typed, CTL_EXCLUSIONS_MAX);
    const char *dots = strstr(value, ".."), *reason = strchr(value, '=');
    bool ok = dots && (!reason || reason > dots) && dots - value < DATE;
    size_t len = ok ? (reason ? (size_t)(reason - dots - 2) : strlen(dots + 2)) : 0;
    if (ok && len < sizeof to) {
        snprintf(from, sizeof from, "%.*s", (int)(dots - value), value);
        snprintf(to, sizeof to, "%.*s", (int)len, dots + 2);
    }
    if (!date_parse(from, &ret->from_ns) || !date_parse(to, &ret->to_ns) ||
        ret->to_ns <= ret->from_ns)
        return err_set(err, ERR_USAGE, 0,
                       "%s: \"%.120s\" is not FROM..TO or FROM..TO=REASON, with FROM before TO, "
                       "both with their zone, such as 2026-11-28T10:00:00Z",
                       typed, value);
    ret->reason = reason ? reason + 1 : "";
    options->nexclusions++;
    return true;
}

/* --- the ledger --- */

static bool hours_find(struct hours *hours, struct err *err)
{
    static const char *const below[] = {"/.pchrun/" MARK_FILE, "/" MARK_FILE, ""};
    const char *place = ended_place(hours->options);
    struct stat st;
    for (size_t i = 0; i < ARRAY_LEN(below); i++) {
        bool is_there =
            snprintf(hours->path, sizeof hours->path, "%s%s", place, below[i]) < PATH_MAX &&
            stat(hours->path, &st) == 0;
        if (is_there && S_ISREG(st.st_mode))
            return true;
        if (!is_there && errno == EACCES)
            return openfile_denied("ledger", place, err);
    }
    if (stat(place, &st) != 0)
        return err_set(err, errno == ENOENT ? ERR_USAGE : ERR_SYSTEM, errno,
                       "cannot look for the record of a job's time in %s", place);
    if (hours->options->is_quiet)
        return err_set(err, ERR_USAGE, 0, "%s has no record of a job's time (the file ledger) yet",
                       place);
    return err_set(err, ERR_USAGE, 0,
                   "%s has no record of a job's time (the file ledger); give the job's "
                   "checkpoint.dir or state_dir: pchctl %s DIR (a job without these directories "
                   "keeps no record)",
                   place, hours->options->command);
}

static void take_lines(struct goodput *g, struct lines *lines, bool is_end)
{
    char *line;
    size_t len;
    enum lines_result next;
    while ((next = lines_next(lines, &line, &len)) != LINES_NONE)
        if (next == LINES_ONE)
            goodput_line(g, line, len, true);
        else
            g->damaged++;
    if (is_end && lines_last(lines, &line, &len) == LINES_ONE)
        goodput_line(g, line, len, false);
}

static bool read_ledger(struct hours *hours, struct err *err)
{
    static char data[CHUNK];
    struct lines lines;
    size_t n;
    FILE *file = openfile_text(hours->path);
    if (!file)
        return err_set(err, ERR_SYSTEM, errno, "cannot read %s", hours->path);
    lines_init(&lines, MARK_LINE_MAX, sizeof data);
    bool ok = true;
    while (ok && (n = fread(data, 1, sizeof data, file)) > 0) {
        ok = lines_add(&lines, data, n);
        take_lines(&hours->of, &lines, false);
    }
    take_lines(&hours->of, &lines, true);
    ok = ok && !hours->of.has_no_memory;
    if (!ok || ferror(file))
        err_set(err, ERR_SYSTEM, ok ? errno : ENOMEM, "cannot read %s", hours->path);
    ok = ok && !ferror(file);
    lines_free(&lines);
    fclose(file);
    return ok;
}

static bool hours_is_meant(const struct hours *hours, struct err *err)
{
    const struct goodput *g = &hours->of;
    const char *job = hours->options->job;
    if (g->nruns == 0 && (g->damaged || g->is_torn))
        return err_set(err, ERR_USAGE, 0,
                       "%s is not a ledger of pchrun, or is damaged: none of its lines can be read",
                       hours->path);
    if (g->nruns == 0)
        return err_set(err, ERR_USAGE, 0, "%s has no attempt yet", hours->path);
    return !job || str_is(g->job, job) ||
           err_set(err, ERR_USAGE, 0, "%s is the ledger of job %s, not of job %s", hours->path,
                   g->job, job);
}

bool hours_read(const struct ctl_options *options, struct hours *ret, struct err *err)
{
    *ret = (struct hours){.options = options};
    if (!hours_find(ret, err) || !read_ledger(ret, err) || !hours_is_meant(ret, err))
        return false;
    goodput_end(&ret->of, clock_real_ns() / NS_PER_MS);
    if (options->since_ns)
        goodput_since(&ret->of, options->since_ns / NS_PER_MS);
    for (int i = 0; i < options->nexclusions; i++)
        goodput_exclude(&ret->of, options->exclusions[i].from_ns / NS_PER_MS,
                        options->exclusions[i].to_ns / NS_PER_MS, i);
    return true;
}

void hours_free(struct hours *hours)
{
    goodput_free(&hours->of);
}
