/* SPDX-License-Identifier: Apache-2.0
 * See ctl.h.
 */
#include "ctl/ctl.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"

#include <inttypes.h>

/* The time between two requests for the progress. */
#define LOOK_NS (100 * NS_PER_MS)
/* How long to wait until node 0 withdraws a notice. */
#define CANCEL_WAIT_NS (3 * NS_PER_S)

/* Exit codes. */
enum {
    CTL_DONE,
    CTL_FAILED, /* refused, failed, or not in time */
    CTL_USAGE,  /* a wrong command line, or no job or several jobs fit */
};

static bool run_top(struct ctl *ctl, struct err *err)
{
    return ctl->screen->show(ctl->options, ctl->jobs.dirs[0], err);
}

/* --- checkpoint --- */

/* *ret_done: the save was committed after the request. False: it will never be committed. */
static bool look_at_save(const struct json *now, const struct json *before, bool *ret_done,
                         struct err *err)
{
    /* Round numbers start again in each generation. If the request came between two generations,
     * the next one makes the save. */
    bool was_between = json_is_at(before, "was.state", "restarting");
    int64_t later =
        json_int_at(now, "report.generation", 0) - json_int_at(before, "was.generation", 0);
    bool is_newer =
        later > 0 || json_int_at(now, "report.round.id", 0) > json_int_at(before, "was.round", 0);
    bool has_failed = json_is_at(now, "report.round.phase", "failed");
    *ret_done =
        json_int_at(now, "report.commit.step", 0) > json_int_at(before, "was.commit_step", 0);
    if (*ret_done)
        return true;
    if (is_newer && (has_failed || json_is_at(now, "report.round.phase", "aborted")))
        return err_set(err, ERR_PEER, 0, "the save at step %" PRId64 " %s: nothing is committed",
                       json_int_at(now, "report.round.save_step", 0),
                       has_failed ? "has failed" : "was called off");
    if (later > was_between)
        return err_set(err, ERR_PEER, 0,
                       "the job was restarted in place before the save was committed; ask again");
    return json_is_at(now, "report.outcome", "unknown") ||
           err_set(err, ERR_PEER, 0, "the job ends before the save is committed: %s",
                   json_text_at(now, "report.why"));
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
        ok = ask(ctl->jobs.dirs[0], CONTROL_STATUS, NULL, ret, err) &&
             look_at_save(ret->root, before.root, &is_done, err);
        if (!ok || is_done || clock_now_ns() >= until)
            break;
        ask_pause(LOOK_NS);
    }
    answer_free(&before);
    if (ok && !is_done)
        err_set(err, ERR_PEER, 0,
                "nothing was committed within %s; the request stays in force: see pchctl status",
                str_about(ctl->options->wait_ns, about, sizeof about));
    return ok && is_done;
}

static bool run_checkpoint(struct ctl *ctl, struct err *err)
{
    struct answer answer;
    bool waits = ctl->options->wait_ns > 0;
    bool ok = ask(ctl->jobs.dirs[0], CONTROL_SAVE, ctl->options, &answer, err) &&
              (!waits || await_save(ctl, &answer, err));
    if (ok && ctl->options->is_json)
        printf("%s\n", answer.text);
    else if (ok && waits)
        printf("step %" PRId64 " is committed\n",
               json_int_at(answer.root, "report.commit.step", 0));
    else if (ok)
        printf("asked for\n");
    answer_free(&answer);
    return ok;
}

/* --- the end --- */

/* Keeps the job's "exit" event in *ret. False: a request after `before` was given up. */
static bool take_event(struct answer *event, int64_t before, struct answer *ret, struct err *err)
{
    bool goes_on = json_is_at(event->root, "event", "stop_given_up") &&
                   json_int_at(event->root, "number", 0) > before;
    if (goes_on)
        err_set(err, ERR_PEER, 0, "%s", json_text_at(event->root, "text"));
    if (json_is_at(event->root, "event", "exit")) {
        answer_free(ret);
        *ret = *event;
    } else {
        answer_free(event);
    }
    return !goes_on;
}

/* Reads events until the connection is closed, or until a request after `before` is given up. */
static bool await_end(const struct ctl *ctl, struct talk *events, int64_t before,
                      struct answer *ret, struct err *err)
{
    int64_t until = clock_now_ns() + ctl->options->wait_ns;
    char *line, about[24];
    size_t len;
    enum talk_result result;
    while ((result = talk_read(events, until, &line, &len, err)) == TALK_LINE) {
        struct answer event;
        if (!answer_read(&event, line, len, err))
            answer_free(&event);
        else if (!take_event(&event, before, ret, err))
            return false;
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
        printf("%s, exit code %" PRId64 ": %s\n", json_text_at(end->root, "outcome"),
               json_int_at(end->root, "exit_code", -1), json_text_at(end->root, "text"));
}

/* Waits until node 0 has withdrawn the notice. It keeps a notice that was given on another node.
 * *ret_had: the job had a notice of pchctl. */
static bool await_cancel(struct ctl *ctl, struct answer *ret, bool *ret_had, struct err *err)
{
    *ret_had = json_is_at(ret->root, "was.notice", CONTROL_SOURCE);
    int64_t until = clock_now_ns() + CANCEL_WAIT_NS;
    while (json_is_at(ret->root, "report.notice.source", CONTROL_SOURCE)) {
        int64_t node = json_int_at(ret->root, "report.notice.node_rank", 0);
        if (clock_now_ns() >= until)
            return err_set(err, ERR_PEER, 0,
                           "the notice is still in force: it was given on node %" PRId64
                           "; withdraw it there",
                           node);
        ask_pause(LOOK_NS);
        answer_free(ret);
        if (!ask(ctl->jobs.dirs[0], CONTROL_STATUS, NULL, ret, err))
            return false;
    }
    return true;
}

static void ctl_tell_notice(const struct json *answer, bool is_withdrawn)
{
    const char *job = json_text_at(answer, "report.job");
    if (json_int_at(answer, "report.notice.node_rank", -1) >= 0)
        printf("job %s has a notice from %s: it saves, if it can, and ends\n", job,
               json_text_at(answer, "report.notice.source"));
    else
        printf("job %s has no notice%s\n", job,
               is_withdrawn ? " any more: it was withdrawn, and the job goes on" : "");
}

static bool run_end(struct ctl *ctl, struct err *err)
{
    struct answer answer = {0}, end = {0};
    struct talk events = {.fd = -1};
    struct ctl_options follow = {.follows = true};
    bool cancels = ctl->options->verb == CONTROL_CANCEL, had_notice = false;
    bool waits = ctl->options->wait_ns > 0 && !cancels;
    bool ok = (!waits || talk_open(ctl->jobs.dirs[0], CONTROL_EVENTS, &follow, &events, err)) &&
              ask(ctl->jobs.dirs[0], ctl->options->verb, ctl->options, &answer, err) &&
              (!cancels || await_cancel(ctl, &answer, &had_notice, err));
    if (ok && !waits && ctl->options->is_json)
        printf("%s\n", answer.text);
    else if (ok && !ctl->options->is_json && ctl->options->verb != CONTROL_STOP)
        ctl_tell_notice(answer.root, had_notice);
    else if (ok && !waits)
        printf("asked for\n");
    if (ok && waits) {
        fflush(stdout); /* a failed write does not end the wait; ctl_main() sees it */
        int64_t before = json_int_at(answer.root, "was.stops_given_up", 0);
        ok = await_end(ctl, &events, ctl->options->saves ? before : INT64_MAX, &end, err);
        if (ok)
            tell_end(ctl, &end);
    }
    talk_close(&events);
    answer_free(&answer);
    answer_free(&end);
    return ok;
}

/* --- events --- */

static bool run_events(struct ctl *ctl, struct err *err)
{
    struct talk talk;
    char *line;
    size_t len;
    enum talk_result result = TALK_FAILED;
    int64_t until = ctl->options->follows ? CLOCK_NEVER : clock_now_ns() + 10 * NS_PER_S;
    bool ok = talk_open(ctl->jobs.dirs[0], CONTROL_EVENTS, ctl->options, &talk, err);
    while (ok && (result = talk_read(&talk, until, &line, &len, err)) == TALK_LINE) {
        printf("%s\n", line);
        ok = args_flush(stdout, err); /* a program that reads the events needs each event at once */
    }
    talk_close(&talk);
    return result == TALK_END;
}

/* --- goodput --- */

static bool run_goodput(struct ctl *ctl, struct err *err)
{
    return hours_show(ctl->options, err);
}

/* --- timeline --- */

static bool run_timeline(struct ctl *ctl, struct err *err)
{
    return timeline_show(ctl->options, err);
}

/* --- the command line --- */

/* In place of a verb: the command asks no pchrun. */
#define ASKS_NONE CONTROL__COUNT

static const struct command {
    enum control_verb verb;
    int64_t wait_ns; /* how long the command waits without --wait */
    const char *help, *options;
    ctl_fn *run;
    const char *name; /* NULL: that of the verb */
} commands[] = {
    {CONTROL_STATUS, 0, "the state of all jobs, or of one by its files", " json watch interval ",
     look_show},
    {CONTROL_STATUS, 0, "the state of the job on the whole screen, live", " interval ", run_top,
     "top"},
    {CONTROL_SAVE, 60 * NS_PER_S, "make the job save and go on; wait for the commit", " json wait ",
     run_checkpoint},
    {CONTROL_DRAIN, 0, "give a notice by hand: save and leave", " json wait in text cancel ",
     run_end},
    {CONTROL_STOP, 60 * NS_PER_S, "end the job for good", " json wait save ", run_end},
    {CONTROL_EVENTS, 0, "the events so far, as lines of JSON", " follow ", run_events},
    {ASKS_NONE, 0, "where the hours of a job went, from its files", " json since exclude ",
     run_goodput, "goodput"},
    {ASKS_NONE, 0, "the same as a picture, in SVG", " output since exclude ", run_timeline,
     "timeline"},
};

static struct args_word ctl_word(size_t i)
{
    if (i >= ARRAY_LEN(commands))
        return (struct args_word){0};
    bool asks = commands[i].verb != ASKS_NONE;
    const char *name = commands[i].name;
    bool has_path = !asks || commands[i].run == look_show;
    return (struct args_word){.name = name ? name : control_names[commands[i].verb],
                              .path = has_path ? "[DIR]" : NULL,
                              .help = commands[i].help,
                              .options = commands[i].options};
}

#define AT(field)   offsetof(struct ctl_options, field)
#define TIME_MAX_NS (365 * 24 * 3600 * NS_PER_S)

static const struct args_row rows[] = {
    {"help", 'h', NULL, "this text", ARGS_HELP},
    {"version", 'V', NULL, "the version", ARGS_VERSION},
    {"job", 'j', "NAME", "the job of this name", ARGS_TEXT, AT(job)},
    {"node", 'n', "N", "the job's node with this number", ARGS_NUMBER, AT(node), .max = INT32_MAX},
    {"run-dir", 0, "DIR", "where its socket is: run_dir of pchrun.json(5)", ARGS_TEXT, AT(run_dir)},
    {"json", 0, NULL, "print the answer as JSON", ARGS_FLAG, AT(is_json), true},
    {"watch", 'w', NULL, "repeat the output until the job ends", ARGS_FLAG, AT(watches), true},
    {"interval", 0, "TIME", "how often [1s]", ARGS_TIME, AT(interval_ns), true, NS_PER_MS,
     TIME_MAX_NS},
    {"wait", 0, "TIME", "time to wait, 0: not at all [60s, drain: 0]", ARGS_TIME, AT(wait_ns), true,
     0, TIME_MAX_NS},
    {"in", 0, "TIME", "time until the end [grace of pchrun.json(5)]", ARGS_TIME, AT(in_ns), true, 0,
     TIME_MAX_NS},
    {"text", 0, "TEXT", "why, for people", ARGS_TEXT, AT(text), true, .max = CONTROL_TEXT_MAX},
    {"cancel", 0, NULL, "withdraw the notice", ARGS_FLAG, AT(cancels), true},
    {"save", 0, NULL, "save first; without a commit the job goes on", ARGS_FLAG, AT(saves), true},
    {"since", 0, "TIME", "only the last TIME, or from a date on", ARGS_TAKE, .is_some = true},
    {"exclude", 0, "SPAN", "FROM..TO[=REASON]: dates between which no hour counts", ARGS_TAKE,
     .is_some = true, .is_repeated = true},
    {"output", 'o', "FILE", "the file [-, the standard output]", ARGS_TEXT, AT(output), true},
    {"follow", 'f', NULL, "also new events, until the job ends", ARGS_FLAG, AT(follows), true},
};

static struct args_row ctl_row(size_t i)
{
    return i < ARRAY_LEN(rows) ? rows[i] : (struct args_row){0};
}

static bool ctl_take(void *options, size_t row, const char *typed, const char *value,
                     struct err *err)
{
    bool is_since = str_is(rows[row].name, "since");
    return (is_since ? hours_take_since : hours_take_exclusion)(options, typed, value, err);
}

const struct args ctl_args = {
    .program = "pchctl",
    .version = PCHRUN_VERSION,
    .head = "Usage: pchctl [options] COMMAND [options]\n\nShow the state of a job that runs under "
            "pchrun, and control it. See pchctl(1).\n\nCommands:\n",
    .tail =
        "TIME is a number and its unit: ms, s, m, h or d. Without --job, --node and --run-dir the "
        "job is\n"
        "that of PCH_SOCKET, else the only one of this user on this machine; status shows all.\n"
        "\nExamples:\n"
        "  pchctl checkpoint && cp -r /scratch/run7 /archive\n"
        "  pchctl --job run7 drain --in 2m --text \"the rack goes down\"\n"
        "  pchctl timeline /scratch/run7 --since 24h -o run7.svg\n",
    .left = 21,
    .row = ctl_row,
    .word = ctl_word,
    .word_kind = "command",
    .take = ctl_take,
    .too_many = "choose a job by --job NAME",
};

static enum args_end ctl_read_options(char **argv, struct ctl_options *ret, struct err *err)
{
    struct args_reading reading = {.options = ret, .out = stdout};
    *ret = (struct ctl_options){.node = -1, .interval_ns = NS_PER_S, .wait_ns = -1, .in_ns = -1};
    enum args_end end = args_read(&ctl_args, argv, &reading, err);
    if (end != ARGS_RUN)
        return end;
    if (ret->cancels && (ret->in_ns >= 0 || ret->text)) {
        err_set(err, ERR_USAGE, 0,
                "--cancel withdraws the notice; use it without other options of drain");
        return ARGS_BAD;
    }
    const struct command *command = &commands[reading.word];
    ret->path = reading.path;
    if ((command->verb == ASKS_NONE || ret->path) && ret->run_dir) {
        err_set(err, ERR_USAGE, 0,
                "%s reads files; name the checkpoint directory, and not --run-dir",
                command->verb == ASKS_NONE ? command->name : "status DIR");
        return ARGS_BAD;
    }
    ret->command = command->name;
    if (ret->wait_ns < 0)
        ret->wait_ns = command->wait_ns;
    ret->verb = ret->cancels ? CONTROL_CANCEL : command->verb;
    ret->run = ret->watches ? look_watch : command->run;
    return ARGS_RUN;
}

static bool ctl_find(struct ctl *ctl, struct err *err)
{
    const struct ctl_options *options = ctl->options;
    if (options->verb == ASKS_NONE || options->path)
        return true;
    if (options->run == run_top)
        return ctl->screen->is_possible(err) && find_dir(options, ctl->jobs.dirs[0], err);
    if (options->verb == CONTROL_STATUS)
        return find_jobs(options, &ctl->jobs, err);
    return find_dir(options, ctl->jobs.dirs[0], err);
}

int ctl_main(char **argv, const struct ctl_screen *screen)
{
    struct ctl_options options;
    struct ctl ctl = {.options = &options, .screen = screen};
    struct err err;
    unsigned opened;
    enum args_end end = ARGS_BAD;
    if (fd_fill_standard(&opened, &err))
        end = ctl_read_options(argv, &options, &err);
    if (end == ARGS_SHOWN)
        return CTL_DONE;
    bool is_found = end == ARGS_RUN && ctl_find(&ctl, &err);
    if (is_found && options.run(&ctl, &err) && args_flush(stdout, &err))
        return CTL_DONE;
    if (end == ARGS_RUN)
        find_explain(&options, &err);
    /* It may have a text of a file, or of the pchrun of another user. */
    fprintf(stderr, "pchctl: %s\n", str_printable(err.text));
    return !is_found && err.code == ERR_USAGE ? CTL_USAGE : CTL_FAILED;
}
