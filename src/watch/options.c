/* SPDX-License-Identifier: Apache-2.0
 * See options.h.
 */
#include "watch/options.h"

#include "base/duration.h"
#include "base/log.h"
#include "base/str.h"
#include "watch/sources.h"

#include <stddef.h>
#include <string.h>

enum show { SHOW_HELP, SHOW_VERSION, SHOW_LIST };

#define AT(field) offsetof(struct watch_options, field)

static const struct option_word mild_words[] = {
    {"log", NOTICE_LOG}, {"checkpoint", NOTICE_CHECKPOINT}, {NULL, 0}};
static const struct option_word format_words[] = {
    {"text", LOG_TEXT}, {"json", LOG_JSON}, {NULL, 0}};

const struct option_row option_rows[] = {
    {"help", 'h', NULL, "this text", KIND_SHOW, SHOW_HELP, false, NULL},
    {"version", 'V', NULL, "the version", KIND_SHOW, SHOW_VERSION, false, NULL},
    {"list", '\0', NULL, "the names of the sources", KIND_SHOW, SHOW_LIST, false, NULL},
    {"check", '\0', NULL, "ask once, say whether the source answers, and end", KIND_FLAG,
     AT(is_check), false, NULL},
    {"lead", '\0', "TIME", "tell what is further ahead as a log, and as itself when so near",
     KIND_TIME, AT(lead_ns), false, NULL},
    {"mild", '\0', "TYPE", "type of events that the machine survives: log or checkpoint", KIND_WORD,
     AT(mild), false, mild_words},
    {"interval", '\0', "TIME", "between two polls, and before a failure is tried again", KIND_TIME,
     AT(interval_ns), false, NULL},
    {"timeout", '\0', "TIME", "for one request [2s]", KIND_TIME, AT(timeout_ns), true, NULL},
    {"hang", '\0', "TIME", "how long the server may hold a request [60s]", KIND_TIME, AT(hang_ns),
     true, NULL},
    {"endpoint", '\0', "URL", "where the service is: http://HOST[:PORT]", KIND_TEXT, AT(endpoint),
     true, NULL},
    {"name", '\0', "NAME", "the machine's own name, as the events have it", KIND_TEXT, AT(name),
     true, NULL},
    {"acknowledge", '\0', "ID", "say that this event is expected, so that it begins, and end",
     KIND_TEXT, AT(acknowledge), true, NULL},
    {"end-time", '\0', "DATE", "the end of the job's time", KIND_TEXT, AT(end_time), true, NULL},
    {"annotation", '\0', "KEY", "which annotation [pchrun/notice]", KIND_TEXT, AT(annotation), true,
     NULL},
    {"value", '\0', "TEXT", "the value that is a notice", KIND_TEXT, AT(value), true, NULL},
    {"log-format", '\0', "FORMAT", "of errors on standard error: text or json [text]", KIND_WORD,
     AT(log_format), false, format_words},
};
const size_t option_rows_count = ARRAY_LEN(option_rows);

bool source_takes(const struct source *source, const struct option_row *row)
{
    char word[32];
    snprintf(word, sizeof word, " %s ", row->name);
    return !row->is_some || strstr(source->options, word);
}

/* ---- output ---- */

static void watch_print_list(FILE *out)
{
    for (const struct source *const *source = sources; *source; source++) {
        char left[40];
        snprintf(left, sizeof left, "%s%s%s", (*source)->name, (*source)->arguments ? " " : "",
                 (*source)->arguments ? (*source)->arguments : "");
        fprintf(out, "  %-18s %s\n", left, (*source)->help);
    }
}

/* "(gce, aws)": the sources that take the option. */
static void watch_print_takers(const struct option_row *row, FILE *out)
{
    const char *before = " (";
    for (const struct source *const *source = sources; *source; source++)
        if (source_takes(*source, row)) {
            fprintf(out, "%s%s", before, (*source)->name);
            before = ", ";
        }
    fprintf(out, ")");
}

static void watch_print_help(FILE *out)
{
    fprintf(out,
            "Usage: pchrun-watch SOURCE [PATH] [options]\n"
            "\n"
            "Print a line of JSON for each thing that is going to happen to this machine, when "
            "it is\n"
            "announced, when it changes, and when it is called off. See pchrun-watch(1).\n"
            "\nSources:\n");
    watch_print_list(out);
    fprintf(out, "\nOptions:\n");
    for (size_t i = 0; i < option_rows_count; i++) {
        char left[40] = "  ";
        if (option_rows[i].letter)
            str_addf(left, sizeof left, "-%c, ", option_rows[i].letter);
        str_addf(left, sizeof left, "--%s%s%s", option_rows[i].name,
                 option_rows[i].metavar ? " " : "",
                 option_rows[i].metavar ? option_rows[i].metavar : "");
        fprintf(out, "%-22s %s", left, option_rows[i].help);
        if (option_rows[i].is_some)
            watch_print_takers(&option_rows[i], out);
        fprintf(out, "\n");
    }
    fprintf(out, "\nTIME is a number and its unit: ms, s, m, h or d.\n");
}

static enum options_result watch_show_text(const struct option_row *row, FILE *out)
{
    if (row->offset == SHOW_HELP)
        watch_print_help(out);
    else if (row->offset == SHOW_VERSION)
        fprintf(out, "pchrun-watch %s\n", PCHRUN_VERSION);
    else
        watch_print_list(out);
    return OPTIONS_SHOWN;
}

/* ---- parsing ---- */

static bool set_time(const struct option_row *row, const char *value, int64_t *ret, struct err *err)
{
    int64_t least = row->offset == AT(lead_ns) ? 0 : NS_PER_MS;
    return duration_parse(value, least, 10 * 365 * 86400 * NS_PER_S, ret, err) ||
           err_wrap(err, "--%s", row->name);
}

static bool set_word(const struct option_row *row, const char *value, unsigned *ret,
                     struct err *err)
{
    for (const struct option_word *at = row->words; at->word; at++)
        if (str_is(at->word, value)) {
            *ret = at->value;
            return true;
        }
    return err_set(err, ERR_USAGE, 0, "--%s: \"%.80s\" is neither \"%s\" nor \"%s\"", row->name,
                   value, row->words[0].word, row->words[1].word);
}

static bool watch_set_option(const struct option_row *row, const char *value,
                             struct watch_options *ret, struct err *err)
{
    void *field = (char *)ret + row->offset;
    if (!value)
        return err_set(err, ERR_USAGE, 0, "--%s needs a value (%s)", row->name, row->metavar);
    if (!*value)
        return err_set(err, ERR_USAGE, 0, "--%s: the value is empty", row->name);
    switch (row->kind) {
    case KIND_TEXT:
        *(const char **)field = value;
        break;
    case KIND_TIME:
        return set_time(row, value, field, err);
    case KIND_WORD:
        return set_word(row, value, field, err);
    case KIND_FLAG:
    case KIND_SHOW:
        break;
    }
    return true;
}

static const struct option_row *watch_find_option(const char *name, size_t len, struct err *err)
{
    char typed[64];
    const struct option_row *nearest = NULL;
    snprintf(typed, sizeof typed, "%.*s", (int)(len < 60 ? len : 60), name);
    unsigned best = str_near(typed) + 1;
    for (size_t i = 0; i < option_rows_count; i++) {
        unsigned distance = str_distance(typed, option_rows[i].name);
        if (distance == 0)
            return &option_rows[i];
        if (distance < best) {
            best = distance;
            nearest = &option_rows[i];
        }
    }
    if (nearest)
        err_set(err, ERR_USAGE, 0, "unknown option --%s; the nearest is --%s", typed,
                nearest->name);
    else
        err_set(err, ERR_USAGE, 0,
                "unknown option --%s; pchrun-watch --help shows all that there "
                "are",
                typed);
    return NULL;
}

static const struct option_row *find_letter(const char *word, struct err *err)
{
    for (size_t i = 0; i < option_rows_count; i++)
        if (option_rows[i].letter == word[1] && !word[2])
            return &option_rows[i];
    err_set(err, ERR_USAGE, 0, "unknown option %.20s; pchrun-watch --help shows all options", word);
    return NULL;
}

/* SOURCE, then PATH. */
static bool watch_take_word(const char *word, struct watch_options *ret, struct err *err)
{
    if (!ret->source) {
        ret->source = source_find(word, err);
        return ret->source != NULL;
    }
    if (!ret->source->arguments || ret->path)
        return err_set(err, ERR_USAGE, 0, "\"%.80s\" is one argument too many", word);
    ret->path = word;
    return *word || err_set(err, ERR_USAGE, 0, "the path is empty");
}

/* Fills in the source's defaults. */
static bool watch_settle_options(struct watch_options *ret, unsigned given, struct err *err)
{
    const struct source *source = ret->source;
    if (!source)
        return err_set(err, ERR_USAGE, 0,
                       "which source? pchrun-watch --list shows all that there are");
    if (source->arguments && source->arguments[0] != '[' && !ret->path)
        return err_set(err, ERR_USAGE, 0, "%s needs its %s", source->name, source->arguments);
    for (size_t i = 0; i < option_rows_count; i++)
        if ((given & 1U << i) && !source_takes(source, &option_rows[i]))
            return err_set(err, ERR_USAGE, 0, "%s takes no --%s", source->name,
                           option_rows[i].name);
    if (ret->interval_ns < 0)
        ret->interval_ns = source->interval_ns;
    if (ret->lead_ns < 0)
        ret->lead_ns = source->lead_ns;
    return true;
}

/* One word, or two. True: go on. */
static bool watch_take_option(char ***argv, bool *is_words, struct watch_options *ret,
                              const struct option_row **row, struct err *err)
{
    const char *word = *(*argv)++;
    *row = NULL;
    if (*is_words || word[0] != '-' || !word[1])
        return watch_take_word(word, ret, err);
    if (str_is(word, "--")) {
        *is_words = true;
        return true;
    }
    size_t len = str_starts(word, "--") ? strcspn(word + 2, "=") : 0;
    *row = len > 0 ? watch_find_option(word + 2, len, err) : find_letter(word, err);
    if (!*row || (*row)->kind == KIND_SHOW)
        return *row != NULL;
    if ((*row)->kind == KIND_FLAG) {
        *(bool *)((char *)ret + (*row)->offset) = true;
        return word[2 + len] != '=' ||
               err_set(err, ERR_USAGE, 0, "--%s takes no value", (*row)->name);
    }
    bool is_joined = word[2 + len] == '=';
    const char *value = is_joined ? word + 2 + len + 1 : **argv;
    *argv += !is_joined && value;
    return watch_set_option(*row, value, ret, err);
}

enum options_result options_read(char **argv, FILE *out, struct watch_options *ret, struct err *err)
{
    *ret = (struct watch_options){.interval_ns = -1,
                                  .lead_ns = -1,
                                  .timeout_ns = 2 * NS_PER_S,
                                  .hang_ns = 60 * NS_PER_S,
                                  .mild = NOTICE_CANCEL,
                                  .log_format = LOG_TEXT};
    unsigned given = 0;
    bool is_words = false;
    const struct option_row *row;
    if (*argv)
        argv++;
    while (*argv) {
        if (!watch_take_option(&argv, &is_words, ret, &row, err))
            return OPTIONS_BAD;
        if (row && row->kind == KIND_SHOW)
            return watch_show_text(row, out);
        if (row)
            given |= 1U << (row - option_rows);
    }
    return watch_settle_options(ret, given, err) ? OPTIONS_RUN : OPTIONS_BAD;
}
