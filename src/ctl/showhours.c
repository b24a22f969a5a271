/* SPDX-License-Identifier: Apache-2.0
 * See ctl.h. Where the hours of a job went, as a table or as JSON.
 */
#include "ctl/hours.h"

#include "base/clock.h"
#include "base/str.h"
#include "json/writer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#define HOURS_SCHEMA  "pchrun.goodput"
#define HOURS_VERSION 1

enum { JSON_MAX = 64 * 1024 * 1024 };

static double share_of(int64_t part, int64_t whole)
{
    return whole > 0 ? (double)part / (double)whole : 0;
}

/* --- the table --- */

/* In the order of the table. */
static const struct column {
    enum goodput_kind kind;
    const char *name, *text;
} columns[] = {
    {GOODPUT_KEPT, "KEPT", "training, kept"},
    {GOODPUT_LOST, "LOST", "training, lost"},
    {GOODPUT_LOADING, "DATA", "training, waiting for data"},
    {GOODPUT_SAVING, "SAVE", "saving"},
    {GOODPUT_HUNG, "HUNG", "hung"},
    {GOODPUT_STARTING, "START", "starting"},
    {GOODPUT_UNATTACHED, "BLIND", "not attached: steps unknown"},
    {GOODPUT_RESTARTING, "AGAIN", "restarting in place"},
    {GOODPUT_WAITING, "NODES", "waiting for nodes"},
    {GOODPUT_STOPPING, "STOP", "stopping"},
    {GOODPUT_PREPARING, "PREP", "preparing: before pchrun"},
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

static void show_share(int64_t ms, int64_t whole)
{
    char text[GOODPUT_WORD];
    printf(" %5s", ms ? goodput_percent(ms, whole, text) : "-");
}

static void show_row(const char *name, const struct goodput_sums *sums, const char *end)
{
    char text[GOODPUT_WORD];
    printf("%-8s %12s", name, goodput_lasting(sums->wall_ms, text));
    for (size_t i = 0; i < ARRAY_LEN(columns); i++)
        if (has_column[i])
            show_share(sums->ms[columns[i].kind], sums->wall_ms);
    if (has_rest)
        show_share(rest_of(sums), sums->wall_ms);
    printf("%s%s\n", *end ? "  " : "", end);
}

static void show_runs(const struct goodput *g, const struct goodput_sums *all)
{
    char number[GOODPUT_WORD];
    choose_columns(all);
    printf("\nin %% of the time of each attempt:\n%-8s %12s", "ATTEMPT", "TIME");
    for (size_t i = 0; i < ARRAY_LEN(columns); i++)
        if (has_column[i])
            printf(" %5s", columns[i].name);
    printf("%s  END\n", has_rest ? "  REST" : "");
    for (int i = 0; i < g->nruns; i++) {
        struct goodput_sums sums = goodput_sum(g, i);
        if (sums.wall_ms == 0) /* cut off, or excluded */
            continue;
        snprintf(number, sizeof number, "%" PRId64, g->runs[i].attempt);
        show_row(number, &sums, goodput_ending(g, i));
    }
    show_row("all", all, "");
}

static void show_sums(const struct goodput *g, const struct goodput_sums *all)
{
    char text[GOODPUT_WORD], part[GOODPUT_WORD];
    printf("\n%-28s %13s %7s\n", "WHERE THE TIME WENT", "TIME", "%");
    for (size_t i = 0; i < ARRAY_LEN(columns); i++) {
        int64_t ms = all->ms[columns[i].kind];
        if (ms == 0 && columns[i].kind != GOODPUT_KEPT)
            continue;
        printf("%-28s %13s %7s", columns[i].text, goodput_lasting(ms, text),
               goodput_percent(ms, all->wall_ms, part));
        if (columns[i].kind == GOODPUT_LOST && all->lost_steps)
            printf("  %llu step%s", ull(all->lost_steps), all->lost_steps == 1 ? "" : "s");
        if (columns[i].kind == GOODPUT_KEPT && g->is_running && g->uncommitted_ms)
            printf("  %s of it not committed yet", goodput_lasting(g->uncommitted_ms, part));
        printf("\n");
    }
    printf("%-28s %13s %7s\n", "all", goodput_lasting(all->wall_ms, text), "100.0");
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
    char text[GOODPUT_WORD], from[GOODPUT_WORD], to[GOODPUT_WORD], reason[GOODPUT_WORD * 2];
    const struct ctl_options *o = hours->options;
    if (o->nexclusions)
        printf("\nnot counted (dates in UTC):\n");
    for (int i = 0; i < o->nexclusions; i++) {
        const struct ctl_exclusion *e = &o->exclusions[i];
        str_copy(reason, sizeof reason, e->reason);
        printf("%-28s %13s  %s to %s\n", *reason ? str_printable(reason) : "(no reason is given)",
               goodput_lasting(excluded_ms(&hours->of, i), text),
               goodput_date(e->from_ns / NS_PER_MS, from), goodput_date(e->to_ns / NS_PER_MS, to));
    }
}

static void show_hours(const struct hours *hours, const struct goodput_notes *notes)
{
    const struct goodput *g = &hours->of;
    struct goodput_sums all = goodput_sum(g, -1);
    char from[GOODPUT_WORD], to[GOODPUT_WORD], text[GOODPUT_WORD], kept[GOODPUT_WORD];
    if (g->nspans == 0) {
        printf("job %s: nothing has happened since then\n", g->job);
        return;
    }
    const struct goodput_span *last = &g->spans[g->nspans - 1];
    printf("job %s, %s to %s UTC%s\n", g->job, goodput_date(g->spans[0].at_ms, from),
           goodput_date(last->at_ms + last->ms, to), g->is_running ? ", still running" : "");
    printf("goodput %s %%: %s of %s were training that was kept\n",
           goodput_percent(all.ms[GOODPUT_KEPT], all.wall_ms, text),
           goodput_lasting(all.ms[GOODPUT_KEPT], kept), goodput_lasting(all.wall_ms, from));
    show_sums(g, &all);
    show_exclusions(hours);
    show_runs(g, &all);
    for (int i = 0; i < notes->n; i++)
        printf("%snote: %s\n", i == 0 ? "\n" : "", notes->text[i]);
}

/* --- JSON --- */

static void hours_add_date(struct writer *w, const char *key, int64_t ms)
{
    char text[GOODPUT_WORD];
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
        writer_text(w, "end", goodput_ending(g, i));
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
        writer_int(w, "loading_ms", span->loading_ms);
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

static bool print_json(const struct hours *hours, const struct goodput_notes *notes,
                       struct err *err)
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
    bool ok = hours_read(options, &hours, err);
    struct goodput_notes notes = goodput_find_notes(&hours.of);
    if (ok && options->is_json)
        ok = print_json(&hours, &notes, err);
    else if (ok)
        show_hours(&hours, &notes);
    hours_free(&hours);
    return ok;
}
