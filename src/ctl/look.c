/* SPDX-License-Identifier: Apache-2.0
 * See ctl.h. Looks at jobs: at one in full, or at several, with a line for each.
 */
#include "ctl/ctl.h"

#include "base/clock.h"
#include "base/str.h"
#include "json/writer.h"

#include <stdio.h>
#include <unistd.h>

/* Within this time a training rank usually finishes a step. */
#define PACE_NS NS_PER_S

/* Node 0 asks the other nodes before it answers. */
#define LOOK_WAIT_NS (5 * NS_PER_S)

/* --- asking --- */

struct look {
    const struct ctl_options *options;
    struct find_jobs *jobs;
    bool is_list;
    struct asked asked[FIND_JOBS_MAX]; /* as jobs->dirs */
    struct answer last;                /* of the only job, when it answered last */
};

static void look_begin(struct look *look, struct ctl *ctl)
{
    *look = (struct look){.options = ctl->options, .jobs = &ctl->jobs};
    look->is_list = ctl->jobs.n + ctl->jobs.nsilent > 1;
}

/* True if the speed of an attached rank is still unknown. */
static bool lacks_pace_or_age(const struct answer *answer)
{
    const struct json *rank = json_items_at(answer->root, "ranks");
    for (; rank; rank = json_next(rank))
        if (json_bool_at(rank, "attached") && !json_bool_at(rank, "done") &&
            (json_real_at(rank, "steps_per_second", 0) <= 0 ||
             json_bool_at(rank, "step_age_is_least")))
            return true;
    return false;
}

static void look_forget(struct look *look)
{
    for (int i = 0; i < look->jobs->n; i++)
        answer_free(&look->asked[i].answer);
}

static bool asked_is_silent(const struct asked *asked)
{
    return !asked->answer.root && !ask_found_nobody(&asked->err);
}

/* Returns how many jobs have answered, or do not answer: the other pchruns are gone. */
static int look_ask(struct look *look)
{
    int n = look->jobs->nsilent;
    for (int i = 0; i < look->jobs->n; i++)
        str_copy(look->asked[i].dir, FIND_DIR_MAX, look->jobs->dirs[i]);
    ask_each(look->asked, look->jobs->n, look->options, LOOK_WAIT_NS);
    for (int i = 0; i < look->jobs->n; i++)
        n += look->asked[i].answer.root || asked_is_silent(&look->asked[i]);
    return n;
}

/* pchrun measures the speed of a rank between two requests, so the first shows none. */
static void look_ask_for_pace(struct look *look)
{
    int64_t again_at = clock_now_ns() + PACE_NS;
    bool is_again = false;
    look_ask(look);
    for (int i = 0; i < look->jobs->n; i++)
        is_again = is_again || lacks_pace_or_age(&look->asked[i].answer);
    if (!is_again)
        return;
    look_forget(look);
    ask_pause(again_at - clock_now_ns());
    look_ask(look);
}

/* --- printing --- */

static void print_silent(const struct look *look, const struct find_silent *silent)
{
    struct writer w;
    size_t len;
    if (!look->options->is_json) {
        show_silent(silent, look->is_list);
        return;
    }
    writer_init(&w, CONTROL_ANSWER_MAX, WRITER_LINE);
    writer_object(&w, NULL);
    writer_int(&w, "version", CONTROL_VERSION);
    writer_bool(&w, "ok", false);
    writer_text(&w, "error", silent->why);
    writer_text(&w, "run_dir", silent->dir);
    writer_end(&w);
    const char *text = writer_done(&w, &len);
    printf("%s", text ? text : "");
    writer_free(&w);
}

static void print_asked(const struct look *look, const struct asked *asked)
{
    struct find_silent silent;
    if (asked->answer.root && look->options->is_json) {
        printf("%s\n", asked->answer.text);
    } else if (asked->answer.root && look->is_list) {
        show_job(asked->answer.root, asked->dir);
    } else if (asked->answer.root) {
        show_status(asked->answer.root, NULL);
    } else if (asked_is_silent(asked)) {
        str_fit(silent.dir, sizeof silent.dir, asked->dir);
        str_fit(silent.why, sizeof silent.why, asked->err.text);
        print_silent(look, &silent);
    }
}

static void look_print(const struct look *look)
{
    if (!look->options->is_json && look->is_list)
        show_job(NULL, NULL);
    for (int i = 0; i < look->jobs->n; i++)
        print_asked(look, &look->asked[i]);
    for (int i = 0; i < look->jobs->nsilent; i++)
        print_silent(look, &look->jobs->silent[i]);
}

/* True if a job has answered; else *err: why the last one has not. */
static bool look_has_answer(const struct look *look, struct err *err)
{
    for (int i = 0; i < look->jobs->n; i++) {
        if (look->asked[i].answer.root)
            return true;
        *err = look->asked[i].err;
    }
    return false;
}

bool look_show(struct ctl *ctl, struct err *err)
{
    static struct look look; /* too large for a stack */
    bool is_over;
    if (ctl->options->path)
        return offline_show(ctl->options, &is_over, err);
    look_begin(&look, ctl);
    look_ask_for_pace(&look);
    bool ok = look_has_answer(&look, err);
    if (ok)
        look_print(&look);
    look_forget(&look);
    return ok;
}

/* --- watching --- */

struct look_end {
    const struct json *last; /* the last answer */
    bool is_told;            /* the last line of its attempt tells the end */
};

/* The order of the lines counts, since a clock may be set back. An earlier job that kept no record
 * may have had the same attempt in the same journal, but the lines of this one follow it. */
static void look_take_event(void *ctx, char *line, size_t len)
{
    struct look_end *end = ctx;
    struct answer event;
    struct err err;
    if (answer_read(&event, line, len, &err) &&
        json_int_at(event.root, "attempt", 0) == json_int_at(end->last, "report.attempt", 0))
        end->is_told = json_is_at(event.root, "event", "exit");
    answer_free(&event);
}

/* pchrun writes the end to its journal before it closes its socket. */
static void look_tell_end(const struct look *look)
{
    struct look_end end = {.last = look->last.root};
    const char *journal = json_text_at(end.last, "events_file");
    if (look->is_list)
        fprintf(stderr, "pchctl: no pchrun is left\n");
    else if (!*journal || !events_of(journal, look_take_event, &end))
        fprintf(stderr, "pchctl: pchrun is gone; without its journal it is unknown whether the job "
                        "has ended or pchrun was killed\n");
    else if (end.is_told)
        fprintf(stderr, "pchctl: the job has ended\n");
    else
        fprintf(stderr, "pchctl: pchrun was killed: %s tells no end of the job\n", journal);
}

static void begin_screen(const struct ctl_options *options, bool is_first)
{
    if (isatty(STDOUT_FILENO) && !options->is_json)
        printf("\033[H\033[2J");
    else if (!is_first && !options->is_json)
        printf("\n");
}

/* The files are read again until they tell of the end. */
static bool watch_files(const struct ctl_options *options, struct err *err)
{
    bool is_over = false;
    for (bool is_first = true; !is_over; is_first = false) {
        if (!is_first)
            ask_pause(options->interval_ns);
        begin_screen(options, is_first);
        if (!offline_show(options, &is_over, err) || !args_flush(stdout, err))
            return false;
    }
    return true;
}

/* True if a pchrun is there: one that does not answer may go on later. */
static bool look_once_more(struct look *look, struct ctl *ctl)
{
    struct err ignored;
    /* Of several jobs some end, and others begin. */
    if (look->is_list && !find_jobs(ctl->options, look->jobs, &ignored))
        look->jobs->n = 0;
    return look_ask(look) > 0;
}

static void look_keep_last(struct look *look)
{
    if (look->is_list || !look->asked[0].answer.root)
        return;
    answer_free(&look->last);
    look->last = look->asked[0].answer;
    look->asked[0].answer = (struct answer){0};
}

bool look_watch(struct ctl *ctl, struct err *err)
{
    static struct look look; /* too large for a stack */
    if (ctl->options->path)
        return watch_files(ctl->options, err);
    look_begin(&look, ctl);
    look_ask(&look);
    bool ok = look_has_answer(&look, err), is_there = ok;
    for (bool is_first = true; ok && is_there; is_first = false) {
        begin_screen(ctl->options, is_first);
        look_print(&look);
        ok = args_flush(stdout, err);
        look_keep_last(&look);
        look_forget(&look);
        ask_pause(ok ? ctl->options->interval_ns : 0);
        is_there = ok && look_once_more(&look, ctl);
    }
    look_forget(&look);
    if (ok)
        look_tell_end(&look);
    answer_free(&look.last);
    return ok;
}
