/* SPDX-License-Identifier: Apache-2.0
 * See options.h.
 */
#include "ctl/options.h"

#include "base/clock.h"
#include "base/duration.h"
#include "base/str.h"

#include <stddef.h>
#include <string.h>

#define DAY_NS (24 * 3600 * NS_PER_S)

const struct option_command option_commands[CONTROL__COUNT] = {
    [CONTROL_STATUS] = {"how the job stands", 0},
    [CONTROL_SAVE] = {"save and go on, and wait for the commit", 60 * NS_PER_S},
    [CONTROL_DRAIN] = {"give a notice by hand: save and leave", 0},
    [CONTROL_STOP] = {"end the job, which is not to be started again", 60 * NS_PER_S},
    [CONTROL_EVENTS] = {"what has happened, as lines of JSON", 0},
};

enum show { SHOW_HELP, SHOW_VERSION };

#define AT(field)  offsetof(struct ctl_options, field)
#define FOR(verb)  OPTION_FOR(verb)
#define ALL        (FOR(CONTROL__COUNT) - 1)
#define WAITS      (FOR(CONTROL_SAVE) | FOR(CONTROL_DRAIN) | FOR(CONTROL_STOP))
#define BUT_EVENTS (ALL & ~FOR(CONTROL_EVENTS))

const struct option_row option_rows[] = {
    {"help", 'h', NULL, "this text", KIND_SHOW, SHOW_HELP, ALL},
    {"version", 'V', NULL, "the version", KIND_SHOW, SHOW_VERSION, ALL},
    {"job", 'j', "NAME", "the job of this name", KIND_TEXT, AT(job), ALL},
    {"node", 'n', "N", "its node of this number", KIND_NODE, AT(node), ALL},
    {"run-dir", '\0', "DIR", "where its socket is: run_dir of pchrun.json(5)", KIND_TEXT,
     AT(run_dir), ALL},
    {"json", '\0', NULL, "print the answer as JSON", KIND_FLAG, AT(is_json), BUT_EVENTS},
    {"watch", 'w', NULL, "again and again, until the job ends", KIND_FLAG, AT(watches),
     FOR(CONTROL_STATUS)},
    {"interval", '\0', "TIME", "how often [1s]", KIND_TIME, AT(interval_ns), FOR(CONTROL_STATUS)},
    {"wait", '\0', "TIME", "how long to wait, 0: not at all [checkpoint, stop: 60s; drain: 0]",
     KIND_TIME, AT(wait_ns), WAITS},
    {"in", '\0', "TIME", "when the end comes [grace of pchrun.json(5)]", KIND_TIME, AT(in_ns),
     FOR(CONTROL_DRAIN)},
    {"text", '\0', "TEXT", "why, for people", KIND_TEXT, AT(text), FOR(CONTROL_DRAIN)},
    {"cancel", '\0', NULL, "take the notice back", KIND_FLAG, AT(cancels), FOR(CONTROL_DRAIN)},
    {"follow", 'f', NULL, "also what happens from now on, until the job ends", KIND_FLAG,
     AT(follows), FOR(CONTROL_EVENTS)},
};
const size_t option_rows_count = ARRAY_LEN(option_rows);

/* --- what is shown --- */

static const char help_head[] =
    "Usage: pchctl [options] COMMAND [options]\n"
    "\n"
    "See how a job that runs under pchrun stands, and tell it what to do. See pchctl(1).\n"
    "\nCommands:\n";
static const char help_tail[] =
    "\nTIME is a number and its unit: ms, s, m, h or d. Without --job, --node and --run-dir the "
    "job is\nthat of PCH_SOCKET, else the only one of this user on this machine.\n"
    "\nExamples:\n"
    "  pchctl status --watch\n"
    "  pchctl checkpoint && cp -r /scratch/run7 /archive\n"
    "  pchctl --job run7 drain --in 2m --text \"the rack goes down\"\n"
    "  pchctl events --follow | jq -r 'select(.event == \"committed\").step'\n";

static void print_takers(const struct option_row *row, FILE *out)
{
    const char *before = " (";
    if (row->commands == ALL || row->commands == BUT_EVENTS)
        return;
    for (unsigned i = 0; i < CONTROL__COUNT; i++)
        if ((row->commands & FOR(i)) && option_commands[i].help) {
            fprintf(out, "%s%s", before, control_name((enum control_verb)i));
            before = ", ";
        }
    fprintf(out, ")");
}

static void print_help(FILE *out)
{
    fputs(help_head, out);
    for (unsigned i = 0; i < CONTROL__COUNT; i++)
        if (option_commands[i].help)
            fprintf(out, "  %-18s %s\n", control_name((enum control_verb)i),
                    option_commands[i].help);
    fprintf(out, "\nOptions:\n");
    for (size_t i = 0; i < option_rows_count; i++) {
        char left[40] = "  ";
        if (option_rows[i].letter)
            str_addf(left, sizeof left, "-%c, ", option_rows[i].letter);
        str_addf(left, sizeof left, "--%s%s%s", option_rows[i].name,
                 option_rows[i].metavar ? " " : "",
                 option_rows[i].metavar ? option_rows[i].metavar : "");
        fprintf(out, "%-20s %s", left, option_rows[i].help);
        print_takers(&option_rows[i], out);
        fprintf(out, "\n");
    }
    fputs(help_tail, out);
}

static enum options_result ctl_show_text(const struct option_row *row, FILE *out)
{
    if (row->offset == SHOW_HELP)
        print_help(out);
    else
        fprintf(out, "pchctl %s\n", PCHRUN_VERSION);
    return OPTIONS_SHOWN;
}

/* --- what is read --- */

static bool set_value(const struct option_row *row, const char *value, void *field, struct err *err)
{
    int64_t node;
    switch (row->kind) {
    case KIND_TIME:
        return duration_parse(value, 0, 365 * DAY_NS, field, err) ||
               err_wrap(err, "--%s", row->name);
    case KIND_NODE:
        if (!str_to_i64(value, 0, INT32_MAX, &node))
            return err_set(err, ERR_USAGE, 0, "--%s: \"%.40s\" is no node's number", row->name,
                           value);
        *(int *)field = (int)node;
        return true;
    default:
        *(const char **)field = value;
        return *value || err_set(err, ERR_USAGE, 0, "--%s is empty", row->name);
    }
}

static bool ctl_set_option(const struct option_row *row, const char *value, bool is_joined,
                           struct ctl_options *ret, struct err *err)
{
    void *field = (char *)ret + row->offset;
    if (row->kind == KIND_FLAG && is_joined)
        return err_set(err, ERR_USAGE, 0, "--%s takes no value", row->name);
    if (row->kind == KIND_FLAG) {
        *(bool *)field = true;
        return true;
    }
    if (!value)
        return err_set(err, ERR_USAGE, 0, "--%s needs its %s", row->name, row->metavar);
    return set_value(row, value, field, err);
}

static const struct option_row *ctl_find_option(const char *word, size_t len, struct err *err)
{
    for (size_t i = 0; i < option_rows_count; i++)
        if ((word[1] == '-' && strlen(option_rows[i].name) == len &&
             strncmp(option_rows[i].name, word + 2, len) == 0) ||
            (word[1] != '-' && option_rows[i].letter == word[1] && !word[2]))
            return &option_rows[i];
    err_set(err, ERR_USAGE, 0, "unknown option %.40s; pchctl --help shows all that there are",
            word);
    return NULL;
}

static bool take_command(const char *word, bool *has_command, struct ctl_options *ret,
                         struct err *err)
{
    if (*has_command)
        return err_set(err, ERR_USAGE, 0, "\"%.40s\" is one argument too many", word);
    *has_command = control_verb_of(word, &ret->verb) && option_commands[ret->verb].help;
    return *has_command ||
           err_set(err, ERR_USAGE, 0,
                   "unknown command \"%.40s\"; pchctl --help shows all that there are", word);
}

static bool ctl_settle_options(struct ctl_options *ret, bool has_command, unsigned given,
                               struct err *err)
{
    if (!has_command)
        return err_set(err, ERR_USAGE, 0, "which command? pchctl --help shows all that there are");
    for (size_t i = 0; i < option_rows_count; i++)
        if ((given & 1U << i) && !(option_rows[i].commands & FOR(ret->verb)))
            return err_set(err, ERR_USAGE, 0, "%s takes no --%s", control_name(ret->verb),
                           option_rows[i].name);
    if (ret->cancels && (ret->in_ns >= 0 || ret->text))
        return err_set(err, ERR_USAGE, 0, "--cancel takes back what was given; it goes alone");
    if (ret->text && strlen(ret->text) > CONTROL_TEXT_MAX)
        return err_set(err, ERR_USAGE, 0, "--text has more than %d bytes", CONTROL_TEXT_MAX);
    if (ret->interval_ns == 0)
        return err_set(err, ERR_USAGE, 0, "--interval: 0 is no interval");
    if (ret->interval_ns < 0)
        ret->interval_ns = NS_PER_S;
    if (ret->wait_ns < 0)
        ret->wait_ns = option_commands[ret->verb].wait_ns;
    if (ret->cancels)
        ret->verb = CONTROL_CANCEL;
    return true;
}

enum options_result options_read(char **argv, FILE *out, struct ctl_options *ret, struct err *err)
{
    unsigned given = 0;
    bool has_command = false;
    *ret = (struct ctl_options){.node = -1, .interval_ns = -1, .wait_ns = -1, .in_ns = -1};
    if (*argv)
        argv++;
    while (*argv) {
        const char *word = *argv++;
        if (word[0] != '-' || !word[1]) {
            if (!take_command(word, &has_command, ret, err))
                return OPTIONS_BAD;
            continue;
        }
        size_t len = word[1] == '-' ? strcspn(word + 2, "=") : 0;
        const struct option_row *row = ctl_find_option(word, len, err);
        if (row && row->kind == KIND_SHOW)
            return ctl_show_text(row, out);
        bool is_joined = row && word[1] == '-' && word[2 + len] == '=';
        bool takes_next = row && row->kind != KIND_FLAG && !is_joined;
        const char *value = is_joined ? word + 2 + len + 1 : takes_next ? *argv : NULL;
        argv += takes_next && value;
        if (!row || !ctl_set_option(row, value, is_joined, ret, err))
            return OPTIONS_BAD;
        given |= 1U << (row - option_rows);
    }
    return ctl_settle_options(ret, has_command, given, err) ? OPTIONS_RUN : OPTIONS_BAD;
}
