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
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Between two checks of the progress. */
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

static int ctl_fail(const struct err *err)
{
    ctl_complain(err);
    return CTL_FAILED;
}

static int flush_out(int code)
{
    struct err err;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    err_set(&err, ERR_SYSTEM, errno, "cannot write to standard output");
    return ctl_fail(&err);
}

static void pause_for(int64_t ns)
{
    struct timespec left = {.tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S};
    while (ns > 0 && nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

/* --- status --- */

/* Is the speed of an attached rank still unknown? */
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
        show_status(answer->root, stdout);
}

/* The speed is the number of steps between two requests. */
static int run_status(const struct ctl *ctl)
{
    struct answer answer;
    struct err err;
    int64_t again_at = clock_now_ns() + PACE_NS;
    bool ok = ask(ctl->dir, CONTROL_STATUS, ctl->options, &answer, &err);
    if (ok && lacks_pace(&answer)) {
        answer_free(&answer);
        pause_for(again_at - clock_now_ns());
        ok = ask(ctl->dir, CONTROL_STATUS, ctl->options, &answer, &err);
    }
    if (ok)
        print_status(ctl, &answer);
    answer_free(&answer);
    return ok ? flush_out(CTL_DONE) : ctl_fail(&err);
}

static int run_watch(const struct ctl *ctl)
{
    bool is_screen = isatty(STDOUT_FILENO) && !ctl->options->is_json;
    struct answer answer;
    struct err err;
    for (bool is_first = true;; is_first = false) {
        bool ok = ask(ctl->dir, CONTROL_STATUS, ctl->options, &answer, &err);
        if (ok && is_screen)
            printf("\033[H\033[2J");
        else if (ok && !is_first && !ctl->options->is_json)
            printf("\n");
        if (ok)
            print_status(ctl, &answer);
        answer_free(&answer);
        if (flush_out(CTL_DONE) != CTL_DONE)
            return CTL_FAILED;
        if (!ok && !is_first && ask_found_nobody(&err)) {
            fprintf(stderr, "pchctl: the job has ended\n");
            return CTL_DONE;
        }
        if (!ok)
            return ctl_fail(&err);
        pause_for(ctl->options->interval_ns);
    }
}

/* --- checkpoint --- */

enum look { LOOK_WAITS, LOOK_DONE, LOOK_FAILED };

/* Has the save finished since the answer to the request? */
static enum look look_at_save(const struct json *now, const struct json *before, struct err *err)
{
    char phase[16], why[640];
    int64_t step = answer_int(now, "report.commit.step", 0);
    /* Round numbers begin anew in each generation. A save requested between two generations is made
     * in the next. */
    bool was_between = str_is(answer_text(before, "was.state", phase, sizeof phase), "restarting");
    int64_t later =
        answer_int(now, "report.generation", 0) - answer_int(before, "was.generation", 0);
    bool is_newer =
        later > 0 || answer_int(now, "report.round.id", 0) > answer_int(before, "was.round", 0);
    answer_text(now, "report.round.phase", phase, sizeof phase);
    if (step > answer_int(before, "was.commit_step", 0))
        return LOOK_DONE;
    if (is_newer && (str_is(phase, "failed") || str_is(phase, "aborted"))) {
        err_set(err, ERR_PEER, 0, "the save at step %" PRId64 " %s: nothing is committed",
                answer_int(now, "report.round.save_step", 0),
                str_is(phase, "failed") ? "has failed" : "was called off");
        return LOOK_FAILED;
    }
    if (later > was_between) {
        err_set(err, ERR_PEER, 0,
                "the job was restarted in place before the save was committed; ask again");
        return LOOK_FAILED;
    }
    if (!str_is(answer_text(now, "report.outcome", phase, sizeof phase), "unknown")) {
        err_set(err, ERR_PEER, 0, "the job ends before the save is committed: %s",
                answer_text(now, "report.why", why, sizeof why));
        return LOOK_FAILED;
    }
    return LOOK_WAITS;
}

static enum look await_save(const struct ctl *ctl, const struct answer *before,
                            struct answer *ret_last, struct err *err)
{
    char about[24];
    int64_t until = clock_now_ns() + ctl->options->wait_ns;
    for (;;) {
        answer_free(ret_last);
        if (!ask(ctl->dir, CONTROL_STATUS, NULL, ret_last, err))
            return LOOK_FAILED;
        enum look look = look_at_save(ret_last->root, before->root, err);
        if (look != LOOK_WAITS)
            return look;
        if (clock_now_ns() >= until)
            break;
        pause_for(LOOK_NS);
    }
    err_set(err, ERR_PEER, 0,
            "nothing was committed within %s; it is still asked for: see pchctl status",
            str_about(ctl->options->wait_ns, about, sizeof about));
    return LOOK_FAILED;
}

static int run_checkpoint(const struct ctl *ctl)
{
    struct answer before, last = {0};
    struct err err;
    enum look look = LOOK_FAILED;
    if (ask(ctl->dir, CONTROL_SAVE, ctl->options, &before, &err))
        look = ctl->options->wait_ns > 0 ? await_save(ctl, &before, &last, &err) : LOOK_WAITS;
    const struct answer *told = last.root ? &last : &before;
    if (look != LOOK_FAILED && ctl->options->is_json)
        printf("%s\n", told->text);
    else if (look == LOOK_DONE)
        printf("step %" PRId64 " is committed\n", answer_int(told->root, "report.commit.step", 0));
    else if (look == LOOK_WAITS)
        printf("asked for\n");
    answer_free(&before);
    answer_free(&last);
    return look == LOOK_FAILED ? ctl_fail(&err) : flush_out(CTL_DONE);
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
        struct json *root = json_read("event", line, len, err);
        char event[16];
        if (str_is(answer_text(root, "event", event, sizeof event), "exit")) {
            answer_free(ret);
            *ret = (struct answer){.root = root, .text = strdup(line)};
        } else {
            json_free(root);
        }
    }
    if (result == TALK_LATE)
        return err_set(err, ERR_PEER, 0, "the job has not ended within %s; it is still asked to",
                       str_about(ctl->options->wait_ns, about, sizeof about));
    if (result == TALK_END && !ret->text)
        return err_set(err, ERR_PEER, 0, "pchrun has gone without a word of how the job ended");
    return result == TALK_END;
}

static int tell_end(const struct ctl *ctl, const struct answer *end)
{
    char outcome[32], text[512];
    if (ctl->options->is_json)
        printf("%s\n", end->text);
    else
        printf("%s, exit code %" PRId64 ": %s\n",
               answer_text(end->root, "outcome", outcome, sizeof outcome),
               answer_int(end->root, "exit_code", -1),
               answer_text(end->root, "text", text, sizeof text));
    return flush_out(CTL_DONE);
}

/* Node 0 withdraws the job's notice a moment later, and only a notice given on this node. *ret_had:
 * the job had one. */
static bool await_cancel(const struct ctl *ctl, struct answer *ret, bool *ret_had, struct err *err)
{
    char source[32];
    *ret_had = str_is(answer_text(ret->root, "was.notice", source, sizeof source), CONTROL_SOURCE);
    int64_t until = clock_now_ns() + CANCEL_WAIT_NS;
    while (str_is(answer_text(ret->root, "report.notice.source", source, sizeof source),
                  CONTROL_SOURCE)) {
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
    char job[64], source[32];
    answer_text(answer, "report.job", job, sizeof job);
    bool is_live = answer_int(answer, "report.notice.node_rank", -1) >= 0;
    if (is_live)
        printf("job %s has a notice, of %s: it saves and leaves\n", job,
               answer_text(answer, "report.notice.source", source, sizeof source));
    else
        printf("job %s has no notice%s\n", job,
               is_withdrawn ? " any more: it was withdrawn, and the job goes on" : "");
}

static int ask_and_wait(const struct ctl *ctl, struct talk *events)
{
    struct answer answer = {0}, end = {0};
    struct err err;
    struct ctl_options follow = {.follows = true};
    bool cancels = ctl->options->verb == CONTROL_CANCEL, had_notice = false;
    bool waits = ctl->options->wait_ns > 0 && !cancels;
    bool ok = (!waits || (talk_open(ctl->dir, events, &err) &&
                          ask_send(events, CONTROL_EVENTS, &follow, &err))) &&
              ask(ctl->dir, ctl->options->verb, ctl->options, &answer, &err) &&
              (!cancels || await_cancel(ctl, &answer, &had_notice, &err));
    if (ok && !waits && ctl->options->is_json)
        printf("%s\n", answer.text);
    else if (ok && !ctl->options->is_json && ctl->options->verb != CONTROL_STOP)
        ctl_tell_notice(answer.root, had_notice);
    else if (ok && !waits)
        printf("asked for\n");
    int code = ok ? flush_out(CTL_DONE) : CTL_FAILED;
    ok = ok && (!waits || await_end(ctl, events, &end, &err));
    if (ok && waits && code == CTL_DONE)
        code = tell_end(ctl, &end);
    answer_free(&answer);
    answer_free(&end);
    return ok ? code : ctl_fail(&err);
}

static int run_end(const struct ctl *ctl)
{
    struct talk events = TALK_NONE;
    int code = ask_and_wait(ctl, &events);
    talk_close(&events);
    return code;
}

/* --- events --- */

static int run_events(const struct ctl *ctl)
{
    struct talk talk = TALK_NONE;
    struct err err;
    char *line;
    size_t len;
    enum talk_result result = TALK_FAILED;
    int64_t until = ctl->options->follows ? CLOCK_NEVER : clock_now_ns() + 10 * NS_PER_S;
    int code = CTL_DONE;
    if (talk_open(ctl->dir, &talk, &err) && ask_send(&talk, CONTROL_EVENTS, ctl->options, &err))
        while (code == CTL_DONE &&
               (result = talk_read(&talk, until, &line, &len, &err)) == TALK_LINE) {
            printf("%s\n", line);
            code = flush_out(CTL_DONE); /* the reader waits for each line */
        }
    talk_close(&talk);
    if (result == TALK_LATE)
        err_set(&err, ERR_PEER, 0, "pchrun does not answer; is it stopped?");
    return result == TALK_FAILED || result == TALK_LATE ? ctl_fail(&err) : code;
}

/* --- all --- */

static int (*const commands[CONTROL__COUNT])(const struct ctl *ctl) = {
    [CONTROL_STATUS] = run_status, [CONTROL_SAVE] = run_checkpoint, [CONTROL_DRAIN] = run_end,
    [CONTROL_CANCEL] = run_end,    [CONTROL_STOP] = run_end,        [CONTROL_EVENTS] = run_events,
};

int ctl_run(const struct ctl_options *options)
{
    struct ctl ctl = {.options = options};
    struct err err;
    if (!find_dir(options, ctl.dir, stderr, &err)) {
        ctl_complain(&err);
        return CTL_USAGE;
    }
    return options->watches ? run_watch(&ctl) : commands[options->verb](&ctl);
}
