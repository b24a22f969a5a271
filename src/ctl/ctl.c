/* SPDX-License-Identifier: Apache-2.0
 * See ctl.h.
 */
#include "ctl/ctl.h"

#include "base/clock.h"
#include "base/str.h"
#include "ctl/ask.h"
#include "ctl/find.h"
#include "ctl/show.h"

#include <errno.h>
#include <inttypes.h>
#include <time.h>
#include <unistd.h>

/* The time between two requests for the progress. */
#define LOOK_NS (100 * NS_PER_MS)
/* Within this time a training rank usually finishes a step. */
#define PACE_NS NS_PER_S
/* How long to wait until node 0 withdraws a notice. */
#define CANCEL_WAIT_NS (3 * NS_PER_S)

struct ctl {
    const struct ctl_options *options;
    char dir[FIND_DIR_MAX];
};

void ctl_complain(const struct err *err)
{
    fprintf(stderr, "pchctl: %s\n", err->text);
}

static bool flush_out(struct err *err)
{
    return (fflush(stdout) == 0 && !ferror(stdout)) ||
           err_set(err, ERR_SYSTEM, errno, "cannot write to standard output");
}

static void pause_for(int64_t ns)
{
    struct timespec left = {.tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S};
    while (ns > 0 && nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

/* --- status --- */

/* True if the speed of an attached rank is still unknown. */
static bool lacks_pace(const struct answer *answer)
{
    const struct json *rank = answer_items(answer->root, "ranks");
    for (; rank; rank = json_next(rank))
        if (answer_bool(rank, "attached") && !answer_bool(rank, "done") &&
            answer_real(rank, "steps_per_second", 0) <= 0)
            return true;
    return false;
}

static void print_status(const struct ctl *ctl, const struct answer *answer)
{
    if (ctl->options->is_json)
        printf("%s\n", answer->text);
    else
        show_status(answer->root);
}

/* pchrun measures the speed of a rank between two requests, so the first shows none. */
static bool run_status(const struct ctl *ctl, struct err *err)
{
    struct answer answer;
    int64_t again_at = clock_now_ns() + PACE_NS;
    bool ok = ask(ctl->dir, CONTROL_STATUS, ctl->options, &answer, err);
    if (ok && lacks_pace(&answer)) {
        answer_free(&answer);
        pause_for(again_at - clock_now_ns());
        ok = ask(ctl->dir, CONTROL_STATUS, ctl->options, &answer, err);
    }
    if (ok)
        print_status(ctl, &answer);
    answer_free(&answer);
    return ok;
}

static bool run_watch(const struct ctl *ctl, struct err *err)
{
    bool is_screen = isatty(STDOUT_FILENO) && !ctl->options->is_json;
    struct answer answer;
    for (bool is_first = true;; is_first = false) {
        bool ok = ask(ctl->dir, CONTROL_STATUS, ctl->options, &answer, err);
        if (ok && is_screen)
            printf("\033[H\033[2J");
        else if (ok && !is_first && !ctl->options->is_json)
            printf("\n");
        if (ok)
            print_status(ctl, &answer);
        answer_free(&answer);
        if (!ok && !is_first && ask_found_nobody(err)) {
            fprintf(stderr, "pchctl: the job has ended\n");
            return true;
        }
        if (!ok || !flush_out(err))
            return false;
        pause_for(ctl->options->interval_ns);
    }
}

/* --- checkpoint --- */

/* *ret_done: the save was committed after the request. False: it will never be committed. */
static bool look_at_save(const struct json *now, const struct json *before, bool *ret_done,
                         struct err *err)
{
    /* Round numbers start again in each generation. If the request came between two generations,
     * the next one makes the save. */
    bool was_between = answer_is(before, "was.state", "restarting");
    int64_t later =
        answer_int(now, "report.generation", 0) - answer_int(before, "was.generation", 0);
    bool is_newer =
        later > 0 || answer_int(now, "report.round.id", 0) > answer_int(before, "was.round", 0);
    bool has_failed = answer_is(now, "report.round.phase", "failed");
    *ret_done = answer_int(now, "report.commit.step", 0) > answer_int(before, "was.commit_step", 0);
    if (*ret_done)
        return true;
    if (is_newer && (has_failed || answer_is(now, "report.round.phase", "aborted")))
        return err_set(err, ERR_PEER, 0, "the save at step %" PRId64 " %s: nothing is committed",
                       answer_int(now, "report.round.save_step", 0),
                       has_failed ? "has failed" : "was called off");
    if (later > was_between)
        return err_set(err, ERR_PEER, 0,
                       "the job was restarted in place before the save was committed; ask again");
    return answer_is(now, "report.outcome", "unknown") ||
           err_set(err, ERR_PEER, 0, "the job ends before the save is committed: %s",
                   answer_text(now, "report.why"));
}

/* *ret gets the last answer in place of the first. */
static bool await_save(const struct ctl *ctl, struct answer *ret, struct err *err)
{
    char about[24];
    int64_t until = clock_now_ns() + ctl->options->wait_ns;
    struct answer before = *ret;
    bool is_done = false, ok = true;
    *ret = (struct answer){0};
    for (;;) {
        answer_free(ret);
        ok = ask(ctl->dir, CONTROL_STATUS, NULL, ret, err) &&
             look_at_save(ret->root, before.root, &is_done, err);
        if (!ok || is_done || clock_now_ns() >= until)
            break;
        pause_for(LOOK_NS);
    }
    answer_free(&before);
    if (ok && !is_done)
        err_set(err, ERR_PEER, 0,
                "nothing was committed within %s; it is still asked for: see pchctl status",
                str_about(ctl->options->wait_ns, about, sizeof about));
    return ok && is_done;
}

static bool run_checkpoint(const struct ctl *ctl, struct err *err)
{
    struct answer answer;
    bool waits = ctl->options->wait_ns > 0;
    bool ok = ask(ctl->dir, CONTROL_SAVE, ctl->options, &answer, err) &&
              (!waits || await_save(ctl, &answer, err));
    if (ok && ctl->options->is_json)
        printf("%s\n", answer.text);
    else if (ok && waits)
        printf("step %" PRId64 " is committed\n", answer_int(answer.root, "report.commit.step", 0));
    else if (ok)
        printf("asked for\n");
    answer_free(&answer);
    return ok;
}

/* --- the end --- */

/* Reads events until the connection is closed; keeps the job's "exit" event. */
static bool await_end(const struct ctl *ctl, struct talk *events, struct answer *ret,
                      struct err *err)
{
    int64_t until = clock_now_ns() + ctl->options->wait_ns;
    char *line, about[24];
    size_t len;
    enum talk_result result;
    while ((result = talk_read(events, until, &line, &len, err)) == TALK_LINE) {
        struct answer event;
        if (answer_read(&event, line, len, err) && answer_is(event.root, "event", "exit")) {
            answer_free(ret);
            *ret = event;
        } else {
            answer_free(&event);
        }
    }
    if (result == TALK_LATE)
        return err_set(err, ERR_PEER, 0,
                       "the job has not ended within %s; the request to end it stays in force",
                       str_about(ctl->options->wait_ns, about, sizeof about));
    if (result == TALK_END && !ret->text)
        return err_set(err, ERR_PEER, 0, "pchrun ended without saying how the job ended");
    return result == TALK_END;
}

static void tell_end(const struct ctl *ctl, const struct answer *end)
{
    if (ctl->options->is_json)
        printf("%s\n", end->text);
    else
        printf("%s, exit code %" PRId64 ": %s\n", answer_text(end->root, "outcome"),
               answer_int(end->root, "exit_code", -1), answer_text(end->root, "text"));
}

/* Waits until node 0 has withdrawn the notice. It keeps a notice that was given on another node.
 * *ret_had: the job had a notice of pchctl. */
static bool await_cancel(const struct ctl *ctl, struct answer *ret, bool *ret_had, struct err *err)
{
    *ret_had = answer_is(ret->root, "was.notice", CONTROL_SOURCE);
    int64_t until = clock_now_ns() + CANCEL_WAIT_NS;
    while (answer_is(ret->root, "report.notice.source", CONTROL_SOURCE)) {
        int64_t node = answer_int(ret->root, "report.notice.node_rank", 0);
        if (clock_now_ns() >= until)
            return err_set(err, ERR_PEER, 0,
                           "the notice holds: it was given on node %" PRId64 "; take it back there",
                           node);
        pause_for(LOOK_NS);
        answer_free(ret);
        if (!ask(ctl->dir, CONTROL_STATUS, NULL, ret, err))
            return false;
    }
    return true;
}

static void ctl_tell_notice(const struct json *answer, bool is_withdrawn)
{
    const char *job = answer_text(answer, "report.job");
    if (answer_int(answer, "report.notice.node_rank", -1) >= 0)
        printf("job %s has a notice, of %s: it saves and leaves\n", job,
               answer_text(answer, "report.notice.source"));
    else
        printf("job %s has no notice%s\n", job,
               is_withdrawn ? " any more: it was withdrawn, and the job goes on" : "");
}

static bool run_end(const struct ctl *ctl, struct err *err)
{
    struct answer answer = {0}, end = {0};
    struct talk events = TALK_NONE;
    struct ctl_options follow = {.follows = true};
    bool cancels = ctl->options->verb == CONTROL_CANCEL, had_notice = false;
    bool waits = ctl->options->wait_ns > 0 && !cancels;
    bool ok = (!waits || talk_open(ctl->dir, CONTROL_EVENTS, &follow, &events, err)) &&
              ask(ctl->dir, ctl->options->verb, ctl->options, &answer, err) &&
              (!cancels || await_cancel(ctl, &answer, &had_notice, err));
    if (ok && !waits && ctl->options->is_json)
        printf("%s\n", answer.text);
    else if (ok && !ctl->options->is_json && ctl->options->verb != CONTROL_STOP)
        ctl_tell_notice(answer.root, had_notice);
    else if (ok && !waits)
        printf("asked for\n");
    if (ok && waits) {
        struct err lost;
        bool is_told = flush_out(&lost); /* a failed write does not end the wait */
        ok = await_end(ctl, &events, &end, err);
        if (ok)
            tell_end(ctl, &end);
        if (ok && !is_told) {
            *err = lost;
            ok = false;
        }
    }
    talk_close(&events);
    answer_free(&answer);
    answer_free(&end);
    return ok;
}

/* --- events --- */

static bool run_events(const struct ctl *ctl, struct err *err)
{
    struct talk talk;
    char *line;
    size_t len;
    enum talk_result result = TALK_FAILED;
    int64_t until = ctl->options->follows ? CLOCK_NEVER : clock_now_ns() + 10 * NS_PER_S;
    bool ok = talk_open(ctl->dir, CONTROL_EVENTS, ctl->options, &talk, err);
    while (ok && (result = talk_read(&talk, until, &line, &len, err)) == TALK_LINE) {
        printf("%s\n", line);
        ok = flush_out(err); /* a program that reads the events needs each at once */
    }
    talk_close(&talk);
    return result == TALK_END;
}

/* --- all --- */

static bool (*const commands[CONTROL__COUNT])(const struct ctl *ctl, struct err *err) = {
    [CONTROL_STATUS] = run_status, [CONTROL_SAVE] = run_checkpoint, [CONTROL_DRAIN] = run_end,
    [CONTROL_CANCEL] = run_end,    [CONTROL_STOP] = run_end,        [CONTROL_EVENTS] = run_events,
};

int ctl_run(const struct ctl_options *options)
{
    struct ctl ctl = {.options = options};
    struct err err;
    if (!find_dir(options, ctl.dir, &err)) {
        ctl_complain(&err);
        return CTL_USAGE;
    }
    bool ok = (options->watches ? run_watch : commands[options->verb])(&ctl, &err);
    if (ok && flush_out(&err))
        return CTL_DONE;
    ctl_complain(&err);
    return CTL_FAILED;
}
