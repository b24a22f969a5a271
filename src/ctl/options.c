/* SPDX-License-Identifier: Apache-2.0
 * See options.h.
 */
#include "ctl/options.h"

#include "base/clock.h"
#include "base/str.h"

static const struct command {
    enum control_verb verb;
    int64_t wait_ns; /* how long the command waits without --wait */
    const char *help, *options;
} commands[] = {
    {CONTROL_STATUS, 0, "how the job stands", " json watch interval "},
    {CONTROL_SAVE, 60 * NS_PER_S, "save and go on, and wait for the commit", " json wait "},
    {CONTROL_DRAIN, 0, "give a notice by hand: save and leave", " json wait in text cancel "},
    {CONTROL_STOP, 60 * NS_PER_S, "end the job, which is not to be started again", " json wait "},
    {CONTROL_EVENTS, 0, "what has happened, as lines of JSON", " follow "},
};

static struct args_word ctl_word(size_t i)
{
    if (i >= ARRAY_LEN(commands))
        return (struct args_word){0};
    return (struct args_word){.name = control_name(commands[i].verb),
                              .help = commands[i].help,
                              .options = commands[i].options};
}

#define AT(field)   offsetof(struct ctl_options, field)
#define TIME_MAX_NS (365 * 24 * 3600 * NS_PER_S)

static const struct args_row rows[] = {
    {"help", 'h', NULL, "this text", ARGS_HELP},
    {"version", 'V', NULL, "the version", ARGS_VERSION},
    {"job", 'j', "NAME", "the job of this name", ARGS_TEXT, AT(job)},
    {"node", 'n', "N", "its node of this number", ARGS_NUMBER, AT(node), .max = INT32_MAX},
    {"run-dir", 0, "DIR", "where its socket is: run_dir of pchrun.json(5)", ARGS_TEXT, AT(run_dir)},
    {"json", 0, NULL, "print the answer as JSON", ARGS_FLAG, AT(is_json), true},
    {"watch", 'w', NULL, "again and again, until the job ends", ARGS_FLAG, AT(watches), true},
    {"interval", 0, "TIME", "how often [1s]", ARGS_TIME, AT(interval_ns), true, 1, TIME_MAX_NS},
    {"wait", 0, "TIME", "how long to wait, 0: not at all [checkpoint, stop: 60s; drain: 0]",
     ARGS_TIME, AT(wait_ns), true, 0, TIME_MAX_NS},
    {"in", 0, "TIME", "when the end comes [grace of pchrun.json(5)]", ARGS_TIME, AT(in_ns), true, 0,
     TIME_MAX_NS},
    {"text", 0, "TEXT", "why, for people", ARGS_TEXT, AT(text), true, .max = CONTROL_TEXT_MAX},
    {"cancel", 0, NULL, "take the notice back", ARGS_FLAG, AT(cancels), true},
    {"follow", 'f', NULL, "also what happens from now on, until the job ends", ARGS_FLAG,
     AT(follows), true},
};

static struct args_row ctl_row(size_t i)
{
    return i < ARRAY_LEN(rows) ? rows[i] : (struct args_row){0};
}

const struct args ctl_args = {
    .program = "pchctl",
    .version = PCHRUN_VERSION,
    .head = "Usage: pchctl [options] COMMAND [options]\n"
            "\n"
            "See how a job that runs under pchrun stands, and tell it what to do. See pchctl(1).\n"
            "\nCommands:\n",
    .tail =
        "TIME is a number and its unit: ms, s, m, h or d. Without --job, --node and --run-dir the "
        "job is\nthat of PCH_SOCKET, else the only one of this user on this machine.\n"
        "\nExamples:\n"
        "  pchctl status --watch\n"
        "  pchctl checkpoint && cp -r /scratch/run7 /archive\n"
        "  pchctl --job run7 drain --in 2m --text \"the rack goes down\"\n"
        "  pchctl events --follow | jq -r 'select(.event == \"committed\").step'\n",
    .left = 21,
    .row = ctl_row,
    .word = ctl_word,
    .word_kind = "command",
};

enum args_end ctl_options_read(char **argv, FILE *out, struct ctl_options *ret, struct err *err)
{
    struct args_reading reading = {.options = ret, .out = out};
    *ret = (struct ctl_options){.node = -1, .interval_ns = NS_PER_S, .wait_ns = -1, .in_ns = -1};
    enum args_end end = args_read(&ctl_args, argv, &reading, err);
    if (end != ARGS_RUN)
        return end;
    if (ret->cancels && (ret->in_ns >= 0 || ret->text)) {
        err_set(err, ERR_USAGE, 0, "--cancel takes back what was given; it goes alone");
        return ARGS_BAD;
    }
    if (ret->wait_ns < 0)
        ret->wait_ns = commands[reading.word].wait_ns;
    ret->verb = ret->cancels ? CONTROL_CANCEL : commands[reading.word].verb;
    return ARGS_RUN;
}
