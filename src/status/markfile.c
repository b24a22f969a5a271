/* SPDX-License-Identifier: Apache-2.0
 * See markfile.h.
 */
#include "status/markfile.h"

#include "base/clock.h"
#include "base/str.h"
#include "core/common/verdict.h"
#include "status/status.h"

#include <errno.h>
#include <limits.h>

/* Until a rank has finished a step, the steps are read again after this part of the time that the
 * start has taken so far. So the end of a start is known to one in a hundred. */
#define FIRST_STEP_PART     128
#define FIRST_STEP_LEAST_NS (20 * NS_PER_MS)

static struct mark mark_at(const struct markfile *marks, enum mark_kind kind, int64_t mono_ns)
{
    return (struct mark){.kind = kind,
                         .at_ms = (clock_real_ns() - (clock_now_ns() - mono_ns)) / NS_PER_MS,
                         .mono_ms = mono_ns / NS_PER_MS,
                         .attempt = marks->params->attempt,
                         .generation = marks->generation};
}

static int64_t longest_loading_ms(const struct markfile *marks)
{
    static struct status_ranks ranks; /* too large for the stack */
    struct core_report report;
    core_report(marks->attach->loop->core, &report);
    status_look_aside(&ranks, marks->attach);
    return (int64_t)status_longest_loading(&ranks, &report) / NS_PER_MS;
}

static void markfile_write(struct markfile *marks, struct mark *mark)
{
    char line[MARK_LINE_MAX];
    mark->loading_ms = longest_loading_ms(marks);
    if (!marks->has_begun) {
        str_copy(mark->job, sizeof mark->job, marks->params->job);
        mark->job_start_ms = marks->job_start_ms;
    }
    marks->has_begun = true;
    size_t len = mark_compose(mark, line);
    linefile_add(&marks->file, line, len);
    marks->tick_at = clock_now_ns() + MARK_TICK_MS * NS_PER_MS;
}

static uint64_t newest_step(const struct markfile *marks, uint64_t known)
{
    uint64_t step = status_newest_step(marks->attach);
    return step > known ? step : known;
}

/* --- time --- */

static bool awaits_first_step(const struct markfile *marks)
{
    return marks->kind == MARK_STARTING && marks->has_attached && marks->params->nnodes == 1;
}

static void plan_timer(struct markfile *marks)
{
    int64_t now = clock_now_ns(), at = marks->tick_at;
    int64_t pause = (now - marks->began_at) / FIRST_STEP_PART;
    if (awaits_first_step(marks))
        at = clock_min(at, now + (pause > FIRST_STEP_LEAST_NS ? pause : FIRST_STEP_LEAST_NS));
    watch_at(&marks->timer, at);
}

static void markfile_on_timer(void *ctx)
{
    struct markfile *marks = ctx;
    if (awaits_first_step(marks))
        attach_read_steps(marks->attach);
    if (clock_now_ns() >= marks->tick_at) {
        struct mark tick = mark_at(marks, MARK_TICK, clock_now_ns());
        bool trains = marks->kind == MARK_TRAINING || marks->kind == MARK_SAVING;
        tick.step = trains ? newest_step(marks, 0) : 0;
        markfile_write(marks, &tick);
    }
    plan_timer(marks);
}

/* --- marks --- */

/* The steps that a save takes in the background, or that follow a reading. */
static bool wants_newest(const struct markfile *marks, enum mark_kind kind)
{
    bool goes_on = kind == MARK_TRAINING && marks->kind != MARK_STARTING &&
                   marks->kind != MARK_WAITING && marks->kind != MARK_UNATTACHED;
    return goes_on || kind == MARK_RESTARTING || kind == MARK_WAITING || kind == MARK_STOPPING;
}

static void take_mark(struct markfile *marks, const struct action *action)
{
    enum mark_kind kind = action->mark.kind;
    bool begins = kind == MARK_STARTING &&
                  (!marks->has_begun || action->mark.generation != marks->generation);
    if (begins) {
        marks->has_attached = false;
        marks->began_at = action->mark.at;
    }
    marks->generation = action->mark.generation;
    struct mark mark = mark_at(marks, kind, action->mark.at);
    mark.step =
        wants_newest(marks, kind) ? newest_step(marks, action->mark.step) : action->mark.step;
    if (kind != MARK_COMMIT)
        marks->kind = kind;
    markfile_write(marks, &mark);
    plan_timer(marks);
}

static void take_exit(struct markfile *marks, const struct action *action)
{
    struct mark mark = mark_at(marks, MARK_ENDED, clock_now_ns());
    mark.step = newest_step(marks, 0);
    str_copy(mark.outcome, sizeof mark.outcome, verdict_name(action->exit.outcome));
    marks->kind = MARK_ENDED;
    markfile_write(marks, &mark);
    watch_at(&marks->timer, CLOCK_NEVER);
    linefile_flush(&marks->file);
}

void markfile_take(struct markfile *marks, const struct action *action)
{
    if (!marks->file.out.file.path || marks->kind == MARK_ENDED)
        return;
    if (action->type == ACT_MARK) {
        take_mark(marks, action);
    } else if (action->type == ACT_EXIT) {
        take_exit(marks, action);
    } else if (action->type == ACT_PROC_SEND && action->proc.msg->type == PROCMSG_WELCOME) {
        marks->has_attached = true;
        plan_timer(marks);
    }
}

/* --- begin and end --- */

static void note_lost(void *ctx, unsigned count, char *text, size_t size)
{
    const struct markfile *marks = ctx;
    struct mark mark = mark_at(marks, MARK_NONE, clock_now_ns());
    char line[MARK_LINE_MAX];
    mark.dropped = count;
    mark_compose(&mark, line);
    str_copy(text, size, line);
}

bool markfile_open(struct markfile *marks, const char *dir, struct reap *reap,
                   struct event_base *base, struct err *err)
{
    char path[PATH_MAX] = "";
    if (!dir || marks->params->node_rank != 0 || marks->params->is_drill)
        return true;
    if (!str_addf(path, sizeof path, "%s/" MARK_FILE, dir))
        return err_set(err, ERR_USAGE, ENAMETOOLONG, "state_dir '%s'", dir);
    marks->tick_at = CLOCK_NEVER;
    marks->file = (struct linefile){
        .out = {.topic = "ledger", .loss = "pchctl goodput will lack some hours", .ctx = marks},
        .note = note_lost};
    if (!linefile_open(&marks->file, path, reap, base, err))
        return false;
    watch_init(&marks->timer, base, markfile_on_timer, marks);
    return true;
}

void markfile_free(struct markfile *marks)
{
    watch_end(&marks->timer);
    linefile_free(&marks->file);
}
