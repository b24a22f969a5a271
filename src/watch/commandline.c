/* SPDX-License-Identifier: Apache-2.0
 * See watchrun.h.
 */
#include "base/str.h"
#include "watch/watchrun.h"

static const struct source *const sources[] = {
    &source_gce,     &source_aws,      &source_azure, &source_alibaba,
    &source_tencent, &source_slurm,    &source_file,  &source_kubernetes,
    &source_pod,     &source_trainjob, NULL,
};

static struct args_word source_word(size_t i)
{
    return sources[i] ? sources[i]->word : (struct args_word){0};
}

#define AT(field)     offsetof(struct watch_options, field)
#define LEAD_USUAL_NS (3600 * NS_PER_S)
#define TIME_MAX_NS   (10 * 365 * 86400 * NS_PER_S)

static const char *const mild_words[] = {"log", "checkpoint", NULL};
static const enum notice_type milds[] = {NOTICE_LOG, NOTICE_CHECKPOINT};

static const struct args_row rows[] = {
    {"help", 'h', NULL, "this text", ARGS_HELP},
    {"version", 'V', NULL, "the version", ARGS_VERSION},
    {"list", 0, NULL, "the names of the sources", ARGS_LIST},
    {"check", 0, NULL, "ask once, say whether the source answers, and exit", ARGS_FLAG,
     AT(is_check)},
    {"lead", 0, "TIME", "report an event as a log entry until it is this near", ARGS_TIME,
     AT(lead_ns), .max = TIME_MAX_NS},
    {"mild", 0, "TYPE", "type of events that the machine survives: log or checkpoint", ARGS_CHOICE,
     AT(mild), .choices = mild_words},
    {"interval", 0, "TIME", "time between two polls, and before a retry", ARGS_TIME,
     AT(interval_ns), false, NS_PER_MS, TIME_MAX_NS},
    {"timeout", 0, "TIME", "time limit of one request [2s]", ARGS_TIME, AT(timeout_ns), true,
     NS_PER_MS, TIME_MAX_NS},
    {"hang", 0, "TIME", "how long the server may hold a request [60s]", ARGS_TIME, AT(hang_ns),
     true, NS_PER_MS, TIME_MAX_NS},
    {"endpoint", 0, "URL", "where the service is: http://HOST[:PORT]", ARGS_TEXT, AT(endpoint),
     true},
    {"name", 0, "NAME", "the name of this machine or pod", ARGS_TEXT, AT(name), true},
    {"acknowledge", 0, "ID", "approve this event, so that it begins at once, and exit", ARGS_TEXT,
     AT(acknowledge), true},
    {"end-time", 0, "DATE", "the end of the job's time", ARGS_TEXT, AT(end_time), true},
    {"annotation", 0, "KEY", "which annotation [pchrun/notice]", ARGS_TEXT, AT(annotation), true},
    {"value", 0, "TEXT", "the only value of the annotation that is a notice", ARGS_TEXT, AT(value),
     true},
    {"log-format", 0, "FORMAT", "format of errors on standard error: text or json [text]",
     ARGS_CHOICE, AT(log_format), .choices = log_format_names},
};

static struct args_row watch_row(size_t i)
{
    return i < ARRAY_LEN(rows) ? rows[i] : (struct args_row){0};
}

const struct args watch_args = {
    .program = "pchrun-watch",
    .version = PCHRUN_VERSION,
    .head = "Usage: pchrun-watch SOURCE [PATH] [options]\n"
            "\n"
            "Print a line of JSON when an end or a disturbance of this machine is announced,\n"
            "changes or is cancelled. See pchrun-watch(1).\n"
            "\nSources:\n",
    .tail = "TIME is a number and its unit: ms, s, m, h or d.\n",
    .left = 23,
    .row = watch_row,
    .word = source_word,
    .word_kind = "source",
};

enum args_end watch_options_read(char **argv, FILE *out, struct watch_options *ret, struct err *err)
{
    struct args_reading reading = {.options = ret, .out = out};
    *ret = (struct watch_options){.interval_ns = -1,
                                  .lead_ns = -1,
                                  .timeout_ns = 2 * NS_PER_S,
                                  .hang_ns = 60 * NS_PER_S,
                                  .mild = -1,
                                  .log_format = LOG_TEXT};
    enum args_end end = args_read(&watch_args, argv, &reading, err);
    if (end != ARGS_RUN)
        return end;
    ret->source = sources[reading.word];
    ret->path = reading.path;
    ret->mild = (int)(ret->mild < 0 ? NOTICE_CANCEL : milds[ret->mild]);
    if (ret->interval_ns < 0)
        ret->interval_ns = ret->source->interval_ns;
    if (ret->lead_ns < 0)
        ret->lead_ns = ret->source->lead_ns ? ret->source->lead_ns : LEAD_USUAL_NS;
    return ARGS_RUN;
}
