/* SPDX-License-Identifier: Apache-2.0
 * See ctl.h. Where the hours of a job went: the ledger that node 0 keeps in the state directory,
 * as a table or as JSON. Works while the job runs, and after it has ended.
 */
#include "ctl/ctl.h"

#include "base/clock.h"
#include "base/str.h"
#include "base/value.h"
#include "goodput/goodput.h"
#include "json/writer.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define HOURS_SCHEMA  "pchrun.goodput"
#define HOURS_VERSION 1

enum { CHUNK = 64 * 1024, JSON_MAX = 64 * 1024 * 1024, CELL = 40, NOTE = 160 };

struct hours {
    const struct ctl_options *options;
    char path[PATH_MAX]; /* of the ledger */
    struct goodput of;
};

/* --- the options --- */

#define SINCE_MAX_NS (INT64_C(36500) * 24 * 3600 * NS_PER_S)

bool hours_take_since(struct ctl_options *options, const char *typed, const char *value,
                      struct err *err)
{
    int64_t ns = 0;
    struct err ignored;
    if (date_parse(value, &options->since_ns))
        return true;
    if (!value_duration(value, 0, SINCE_MAX_NS, &ns, &ignored))
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
    char from[CELL] = "", to[CELL] = "";
    struct ctl_exclusion *ret = &options->exclusions[options->nexclusions];
    if (options->nexclusions == CTL_EXCLUSIONS_MAX)
        return err_set(err, ERR_USAGE, 0, "%s: at most %d are possible", typed, CTL_EXCLUSIONS_MAX);
    const char *dots = strstr(value, ".."), *reason = strchr(value, '=');
    bool ok = dots && (!reason || reason > dots) && dots - value < CELL;
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
    if (stat(place, &st) != 0)
        return err_set(err, errno == ENOENT ? ERR_USAGE : ERR_SYSTEM, errno,
                       "cannot look for a ledger in %s", place);
    for (size_t i = 0; i < ARRAY_LEN(below); i++)
        if (snprintf(hours->path, sizeof hours->path, "%s%s", place, below[i]) < PATH_MAX &&
            stat(hours->path, &st) == 0 && S_ISREG(st.st_mode))
            return true;
    return err_set(err, ERR_USAGE, 0,
                   "no ledger is in %s; give the job's checkpoint.dir or state_dir: pchctl goodput "
                   "DIR (a job without these directories has none)",
                   place);
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
    FILE *file = fopen(hours->path, "re");
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

/* --- times --- */

/* "9.3 s", "12 min 5 s", "20 h 12 min" */
static const char *lasting(int64_t ms, char text[CELL])
{
    int64_t s = (ms + 500) / 1000, min = (s + 30) / 60;
    if (ms < 60 * 1000)
        snprintf(text, CELL, "%.1f s", (double)ms / 1000);
    else if (s < 3600)
        snprintf(text, CELL, "%" PRId64 " min %2" PRId64 " s", s / 60, s % 60);
    else
        snprintf(text, CELL, "%" PRId64 " h %2" PRId64 " min", min / 60, min % 60);
    return text;
}

/* "2026-11-28 10:00" */
static const char *hours_date(int64_t ms, char text[CELL])
{
    clock_iso8601(ms * NS_PER_MS, text, CELL);
    text[10] = ' ';
    text[16] = '\0';
    return text;
}

static double share_of(int64_t part, int64_t whole)
{
    return whole > 0 ? (double)part / (double)whole : 0;
}

/* "91.2"; a share that is not 0 is not printed as 0, and one that is not all not as all. */
static const char *percent(int64_t part, int64_t whole, char text[CELL])
{
    double share = 100 * share_of(part, whole);
    if (part > 0 && share < 0.05)
        str_copy(text, CELL, "<0.1");
    else if (part < whole && share > 99.9)
        str_copy(text, CELL, "99.9");
    else
        snprintf(text, CELL, "%.1f", share);
    return text;
}

/* --- the notes --- */

enum { NOTES_MAX = 8 };

struct notes {
    char text[NOTES_MAX][NOTE];
    int n;
};

static void hours_note(struct notes *notes, int64_t count, const char *one, const char *several)
{
    if (count > 0 && notes->n < NOTES_MAX)
        snprintf(notes->text[notes->n++], NOTE, "%" PRId64 " %s", count,
                 count == 1 ? one : several);
}

/* Lines and ends that the figures lack. */
static struct notes find_notes(const struct goodput *g)
{
    struct notes notes = {.n = 0};
    int64_t killed = 0, jumped = 0;
    for (int i = 0; i < g->nruns; i++) {
        killed += !g->runs[i].outcome[0] && !(g->is_running && i == g->nruns - 1);
        jumped += g->runs[i].has_jumped;
    }
    if (g->is_torn)
        str_copy(notes.text[notes.n++], NOTE, "the last line is cut, and does not count");
    hours_note(&notes, g->damaged, "line is damaged, and does not count",
               "lines are damaged, and do not count");
    hours_note(&notes, g->dropped, "line is missing: node 0 could not write it",
               "lines are missing: node 0 could not write them");
    hours_note(&notes, g->strange, "line is of a later pchrun, and does not count",
               "lines are of a later pchrun, and do not count");
    hours_note(&notes, g->stray, "line of an attempt that had been replaced does not count",
               "lines of attempts that had been replaced do not count");
    hours_note(&notes, killed,
               "attempt has no end: pchrun was killed; up to a minute of it counts as queued",
               "attempts have no end: pchrun was killed; up to a minute of each counts as queued");
    hours_note(&notes, jumped, "attempt saw the clock being set; its own time is right",
               "attempts saw the clock being set; their own time is right");
    return notes;
}

/* --- the table --- */

/* In the order of the table. */
static const struct column {
    enum goodput_kind kind;
    const char *name, *text;
} columns[] = {
    {GOODPUT_KEPT, "KEPT", "training, kept"},
    {GOODPUT_LOST, "LOST", "training, lost"},
    {GOODPUT_SAVING, "SAVE", "saving"},
    {GOODPUT_HUNG, "HUNG", "hung"},
    {GOODPUT_STARTING, "START", "starting"},
    {GOODPUT_UNATTACHED, "BLIND", "not attached: steps unknown"},
    {GOODPUT_RESTARTING, "AGAIN", "restarting in place"},
    {GOODPUT_WAITING, "NODES", "waiting for nodes"},
    {GOODPUT_STOPPING, "STOP", "stopping"},
    {GOODPUT_QUEUED, "QUEUE", "queued between attempts"},
};

/* So many columns fit into 80 characters. If there are more kinds of spans, the last column has all
 * that are not among the largest. */
enum { COLUMNS_MAX = 6 };

static bool has_column[ARRAY_LEN(columns)], has_rest;

static size_t largest_without(const struct goodput_sums *all)
{
    size_t ret = 0;
    int64_t most = -1;
    for (size_t i = 0; i < ARRAY_LEN(columns); i++)
        if (!has_column[i] && all->ms[columns[i].kind] > most) {
            most = all->ms[columns[i].kind];
            ret = i;
        }
    return ret;
}

static void choose_columns(const struct goodput_sums *all)
{
    int n = 0;
    for (size_t i = 0; i < ARRAY_LEN(columns); i++)
        n += all->ms[columns[i].kind] > 0;
    has_rest = n > COLUMNS_MAX;
    for (n = has_rest ? COLUMNS_MAX - 1 : n; n > 0; n--)
        has_column[largest_without(all)] = true;
}

static int64_t rest_of(const struct goodput_sums *sums)
{
    int64_t ms = 0;
    for (size_t i = 0; i < ARRAY_LEN(columns); i++)
        ms += has_column[i] ? 0 : sums->ms[columns[i].kind];
    return ms;
}

static const char *end_of(const struct goodput *g, int run)
{
    if (g->runs[run].outcome[0])
        return g->runs[run].outcome;
    return g->is_running && run == g->nruns - 1 ? "running" : "killed";
}

static void show_share(int64_t ms, int64_t whole)
{
    char text[CELL];
    printf(" %5s", ms ? percent(ms, whole, text) : "-");
}

static void show_row(const char *name, const struct goodput_sums *sums, const char *end)
{
    char text[CELL];
    printf("%-8s %12s", name, lasting(sums->wall_ms, text));
    for (size_t i = 0; i < ARRAY_LEN(columns); i++)
        if (has_column[i])
            show_share(sums->ms[columns[i].kind], sums->wall_ms);
    if (has_rest)
        show_share(rest_of(sums), sums->wall_ms);
    printf("%s%s\n", *end ? "  " : "", end);
}

static void show_runs(const struct goodput *g, const struct goodput_sums *all)
{
    char number[CELL];
    choose_columns(all);
    printf("\n%-8s %12s", "ATTEMPT", "TIME");
    for (size_t i = 0; i < ARRAY_LEN(columns); i++)
        if (has_column[i])
            printf(" %5s", columns[i].name);
    printf("%s  END\n", has_rest ? "  REST" : "");
    for (int i = 0; i < g->nruns; i++) {
        struct goodput_sums sums = goodput_sum(g, i);
        if (sums.wall_ms == 0) /* cut off, or excluded */
            continue;
        snprintf(number, sizeof number, "%" PRId64, g->runs[i].attempt);
        show_row(number, &sums, end_of(g, i));
    }
    show_row("all", all, "");
}

static void show_sums(const struct goodput *g, const struct goodput_sums *all)
{
    char text[CELL], part[CELL];
    printf("\n%-28s %13s %7s\n", "WHERE THE TIME WENT", "TIME", "%");
    for (size_t i = 0; i < ARRAY_LEN(columns); i++) {
        int64_t ms = all->ms[columns[i].kind];
        if (ms == 0 && columns[i].kind != GOODPUT_KEPT)
            continue;
        printf("%-28s %13s %7s", columns[i].text, lasting(ms, text),
               percent(ms, all->wall_ms, part));
        if (columns[i].kind == GOODPUT_LOST && all->lost_steps)
            printf("  %llu step%s", ull(all->lost_steps), all->lost_steps == 1 ? "" : "s");
        if (columns[i].kind == GOODPUT_KEPT && g->is_running && g->uncommitted_ms)
            printf("  %s of it not committed yet", lasting(g->uncommitted_ms, part));
        printf("\n");
    }
    printf("%-28s %13s %7s\n", "all", lasting(all->wall_ms, text), "100.0");
}

static int64_t excluded_ms(const struct goodput *g, int exclusion)
{
    int64_t ms = 0;
    for (size_t i = 0; i < g->nspans; i++)
        if (g->spans[i].kind == GOODPUT_EXCLUDED && g->spans[i].exclusion == exclusion)
            ms += g->spans[i].ms;
    return ms;
}

static void show_exclusions(const struct hours *hours)
{
    char text[CELL], from[CELL], to[CELL], reason[CELL * 2];
    const struct ctl_options *o = hours->options;
    if (o->nexclusions)
        printf("\nnot counted:\n");
    for (int i = 0; i < o->nexclusions; i++) {
        const struct ctl_exclusion *e = &o->exclusions[i];
        str_copy(reason, sizeof reason, e->reason);
        printf("%-28s %13s  %s to %s\n", *reason ? str_printable(reason) : "(no reason is given)",
               lasting(excluded_ms(&hours->of, i), text), hours_date(e->from_ns / NS_PER_MS, from),
               hours_date(e->to_ns / NS_PER_MS, to));
    }
}

static void show_hours(const struct hours *hours, const struct notes *notes)
{
    const struct goodput *g = &hours->of;
    struct goodput_sums all = goodput_sum(g, -1);
    char from[CELL], to[CELL], text[CELL], kept[CELL];
    if (g->nspans == 0) {
        printf("job %s: nothing has happened since then\n", g->job);
        return;
    }
    const struct goodput_span *last = &g->spans[g->nspans - 1];
    printf("job %s, %s to %s UTC%s\n", g->job, hours_date(g->spans[0].at_ms, from),
           hours_date(last->at_ms + last->ms, to), g->is_running ? ", still running" : "");
    printf("goodput %s %%: %s of %s were training that was kept\n",
           percent(all.ms[GOODPUT_KEPT], all.wall_ms, text), lasting(all.ms[GOODPUT_KEPT], kept),
           lasting(all.wall_ms, from));
    show_sums(g, &all);
    show_exclusions(hours);
    show_runs(g, &all);
    for (int i = 0; i < notes->n; i++)
        printf("%snote: %s\n", i == 0 ? "\n" : "", notes->text[i]);
}

/* --- JSON --- */

static void hours_add_date(struct writer *w, const char *key, int64_t ms)
{
    char text[CELL];
    writer_text(w, key, clock_iso8601(ms * NS_PER_MS, text, sizeof text));
}

static void add_sums(struct writer *w, const struct goodput_sums *sums)
{
    writer_int(w, "wall_ms", sums->wall_ms);
    writer_real(w, "goodput", share_of(sums->ms[GOODPUT_KEPT], sums->wall_ms));
    writer_int(w, "lost_steps", (int64_t)sums->lost_steps);
    writer_object(w, "ms");
    for (int i = 0; i < GOODPUT__COUNT; i++)
        writer_int(w, goodput_name((enum goodput_kind)i), sums->ms[i]);
    writer_end(w);
}

static void add_runs(struct writer *w, const struct goodput *g)
{
    writer_list(w, "attempts");
    for (int i = 0; i < g->nruns; i++) {
        const struct goodput_run *run = &g->runs[i];
        struct goodput_sums sums = goodput_sum(g, i);
        writer_object(w, NULL);
        writer_int(w, "attempt", run->attempt);
        hours_add_date(w, "from", run->at_ms);
        writer_text(w, "end", end_of(g, i));
        writer_int(w, "generations", run->generations);
        writer_int(w, "resumed_step", (int64_t)run->resumed);
        writer_int(w, "commit_step", (int64_t)run->commit);
        writer_int(w, "last_step", (int64_t)run->last_step);
        add_sums(w, &sums);
        writer_end(w);
    }
    writer_end(w);
}

static void add_spans(struct writer *w, const struct goodput *g)
{
    writer_list(w, "spans");
    for (size_t i = 0; i < g->nspans; i++) {
        const struct goodput_span *span = &g->spans[i];
        writer_object(w, NULL);
        writer_text(w, "kind", goodput_name(span->kind));
        writer_int(w, "attempt", g->runs[span->run].attempt);
        writer_int(w, "generation", span->generation);
        hours_add_date(w, "from", span->at_ms);
        writer_int(w, "ms", span->ms);
        writer_int(w, "from_step", (int64_t)span->from_step);
        writer_int(w, "to_step", (int64_t)span->to_step);
        writer_end(w);
    }
    writer_end(w);
}

static void add_exclusions(struct writer *w, const struct hours *hours)
{
    writer_list(w, "excluded");
    for (int i = 0; i < hours->options->nexclusions; i++) {
        const struct ctl_exclusion *e = &hours->options->exclusions[i];
        writer_object(w, NULL);
        hours_add_date(w, "from", e->from_ns / NS_PER_MS);
        hours_add_date(w, "to", e->to_ns / NS_PER_MS);
        writer_text(w, "reason", e->reason);
        writer_int(w, "ms", excluded_ms(&hours->of, i));
        writer_end(w);
    }
    writer_end(w);
}

static bool print_json(const struct hours *hours, const struct notes *notes, struct err *err)
{
    struct goodput_sums all = goodput_sum(&hours->of, -1);
    struct writer w;
    writer_init(&w, JSON_MAX, WRITER_LINE);
    writer_object(&w, NULL);
    writer_text(&w, "schema", HOURS_SCHEMA);
    writer_int(&w, "version", HOURS_VERSION);
    writer_text(&w, "job", hours->of.job);
    writer_bool(&w, "running", hours->of.is_running);
    writer_int(&w, "uncommitted_ms", hours->of.uncommitted_ms);
    add_sums(&w, &all);
    add_runs(&w, &hours->of);
    add_exclusions(&w, hours);
    add_spans(&w, &hours->of);
    writer_list(&w, "notes");
    for (int i = 0; i < notes->n; i++)
        writer_text(&w, NULL, notes->text[i]);
    writer_end(&w);
    writer_end(&w);
    const char *text = writer_done(&w, NULL);
    if (text)
        fputs(text, stdout);
    writer_free(&w);
    return text || err_set(err, ERR_SYSTEM, ENOMEM, "cannot show %s", hours->path);
}

bool hours_show(const struct ctl_options *options, struct err *err)
{
    static struct hours hours;
    hours.options = options;
    bool ok = hours_find(&hours, err) && read_ledger(&hours, err) && hours_is_meant(&hours, err);
    if (ok) {
        goodput_end(&hours.of, clock_real_ns() / NS_PER_MS);
        if (options->since_ns)
            goodput_since(&hours.of, options->since_ns / NS_PER_MS);
        for (int i = 0; i < options->nexclusions; i++)
            goodput_exclude(&hours.of, options->exclusions[i].from_ns / NS_PER_MS,
                            options->exclusions[i].to_ns / NS_PER_MS, i);
        struct notes notes = find_notes(&hours.of);
        if (options->is_json)
            ok = print_json(&hours, &notes, err);
        else
            show_hours(&hours, &notes);
    }
    goodput_free(&hours.of);
    return ok;
}
