/* SPDX-License-Identifier: Apache-2.0
 * See ctl.h. Looks at jobs: at one in full, or at several, with a line for each.
 */
#include "ctl/ctl.h"

#include "base/clock.h"
#include "base/str.h"

#include <stdio.h>
#include <unistd.h>

/* Within this time a training rank usually finishes a step. */
#define PACE_NS NS_PER_S

/* --- asking --- */

struct look {
    const struct ctl_options *options;
    struct find_jobs *jobs;
    bool is_list;
    struct answer answers[FIND_JOBS_MAX];
};

static struct look look_begin(struct ctl *ctl)
{
    return (struct look){.options = ctl->options, .jobs = &ctl->jobs, .is_list = ctl->jobs.n > 1};
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
        answer_free(&look->answers[i]);
}

/* Returns how many jobs have answered. *err: why the last of the others has not. */
static int look_ask(struct look *look, struct err *err)
{
    int n = 0;
    for (int i = 0; i < look->jobs->n; i++) {
        const char *dir = look->jobs->dirs[i];
        if (ask(dir, CONTROL_STATUS, look->options, &look->answers[i], err))
            n++;
        else
            answer_free(&look->answers[i]);
    }
    return n;
}

/* pchrun measures the speed of a rank between two requests, so the first shows none. */
static int look_ask_for_pace(struct look *look, struct err *err)
{
    int64_t again_at = clock_now_ns() + PACE_NS;
    int n = look_ask(look, err);
    bool is_again = false;
    for (int i = 0; i < look->jobs->n; i++)
        is_again = is_again || lacks_pace_or_age(&look->answers[i]);
    if (!is_again)
        return n;
    look_forget(look);
    ask_pause(again_at - clock_now_ns());
    return look_ask(look, err);
}

/* --- printing --- */

static void look_print(const struct look *look)
{
    bool is_json = look->options->is_json;
    if (!is_json && look->is_list)
        show_job(NULL, NULL);
    for (int i = 0; i < look->jobs->n; i++) {
        const struct answer *answer = &look->answers[i];
        if (answer->root && is_json)
            printf("%s\n", answer->text);
        else if (answer->root && look->is_list)
            show_job(answer->root, look->jobs->dirs[i]);
        else if (answer->root)
            show_status(answer->root, NULL);
    }
}

static void tell_silent(const struct find_jobs *jobs)
{
    if (jobs->silent[0])
        fprintf(stderr, "pchctl: not shown: %s\n", jobs->silent);
}

bool look_show(struct ctl *ctl, struct err *err)
{
    bool is_over;
    if (ctl->options->path)
        return offline_show(ctl->options, &is_over, err);
    struct look look = look_begin(ctl);
    tell_silent(look.jobs);
    bool ok = look_ask_for_pace(&look, err) > 0;
    if (ok)
        look_print(&look);
    look_forget(&look);
    return ok;
}

/* --- watching --- */

static bool look_is_over(const struct look *look, const struct err *err)
{
    if (!ask_found_nobody(err) && look->jobs->n > 0)
        return false;
    fprintf(stderr, "pchctl: %s ended\n", look->is_list ? "the jobs have" : "the job has");
    return true;
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

/* One job is followed to its end. Of several jobs some end, and others begin. */
bool look_watch(struct ctl *ctl, struct err *err)
{
    if (ctl->options->path)
        return watch_files(ctl->options, err);
    struct look look = look_begin(ctl);
    tell_silent(look.jobs);
    for (bool is_first = true;; is_first = false) {
        bool ok = is_first || !look.is_list || find_jobs(ctl->options, &ctl->jobs, err);
        ok = ok && look_ask(&look, err) > 0;
        if (ok) {
            begin_screen(ctl->options, is_first);
            look_print(&look);
        }
        look_forget(&look);
        if (!ok && !is_first && look_is_over(&look, err))
            return true;
        if (!ok || !args_flush(stdout, err))
            return false;
        ask_pause(ctl->options->interval_ns);
    }
}
