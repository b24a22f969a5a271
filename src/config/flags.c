/* SPDX-License-Identifier: Apache-2.0
 * See sources.h.
 */
#include "base/clock.h"
#include "base/value.h"
#include "config/noticelist.h"
#include "config/origin.h"
#include "config/signames.h"
#include "config/sources.h"
#include "config/values.h"

#include <stdio.h>

#define AT(field)    offsetof(struct flags, field)
#define DRILL_MAX_NS (7 * 24 * 3600 * NS_PER_S)

static const char *const manual_formats[] = {"mdoc", NULL};

static const struct args_row specials[SPECIAL__COUNT] = {
    [SPECIAL_CONFIG] = {"config", 'c', "FILE", "read this configuration file (also PCHRUN_CONFIG)",
                        ARGS_TAKE},
    [SPECIAL_VERBOSE] = {"verbose", 'v', NULL, "say more; may be repeated", ARGS_TAKE,
                         .is_repeated = true},
    [SPECIAL_QUIET] = {"quiet", 'q', NULL, "say less; may be repeated", ARGS_TAKE,
                       .is_repeated = true},
    [SPECIAL_PRINT_CONFIG] = {"print-config", 0, NULL, "show every value and where it came from",
                              ARGS_TAKE},
    [SPECIAL_PRINT_SCHEMA] = {"print-schema", 0, NULL, "show the JSON schema of the file",
                              ARGS_TAKE, .is_last = true},
    [SPECIAL_PRINT_OPTIONS] = {"print-options", 0, "FORMAT", "show the options as a manual: mdoc",
                               ARGS_TAKE, .choices = manual_formats, .is_last = true},
    [SPECIAL_MAKE_KEY] = {"make-key", 0, "FILE", "write a new key for cluster.key_file", ARGS_TAKE,
                          .is_last = true},
    [SPECIAL_DRILL] = {"drill", 0, "GRACE",
                       "test how the job handles a notice that leaves this much time", ARGS_TIME,
                       AT(drill_ns), false, NS_PER_S, DRILL_MAX_NS},
    [SPECIAL_DOCTOR] = {"doctor", 0, NULL, "look for what would go wrong here; run nothing",
                        ARGS_FLAG, AT(is_doctor)},
    [SPECIAL_VERSION] = {"version", 'V', NULL, "show the version", ARGS_VERSION},
    [SPECIAL_HELP] = {"help", 'h', NULL, "show this text", ARGS_HELP},
};

/* The words that the value must be one of; NULL: other values are allowed. */
static const char *const *words_of(const struct option *option)
{
    static const char *signals[64], *notices[32];
    size_t n = 0;
    if (option->type == OPTION_SIGNAL) {
        for (; signame_at((unsigned)n); n++)
            signals[n] = signame_at((unsigned)n);
        return signals;
    }
    if (option->type == OPTION_NOTICES) {
        for (; notice_kind_names[n]; n++)
            notices[n] = notice_kind_names[n];
        notices[n] = "none";
        return notices;
    }
    return option->choices;
}

/* The heading of the group that begins with this row; NULL: no group begins here. */
static const char *title_above(size_t row)
{
    if (row < SPECIAL__COUNT)
        return row == 0 ? "General" : NULL;
    const struct option *option = &options[row - SPECIAL__COUNT];
    const struct option_group *group = option_group(option);
    return option == options || option_group(option - 1) != group ? group->title : NULL;
}

static struct args_row flags_row(size_t i)
{
    if (i < SPECIAL__COUNT)
        return specials[i];
    if (i - SPECIAL__COUNT >= options_count)
        return (struct args_row){0};
    const struct option *option = &options[i - SPECIAL__COUNT];
    bool is_bool = option->type == OPTION_BOOL, is_list = option->type == OPTION_NOTICES;
    return (struct args_row){
        .name = option->key,
        .letter = option->letter,
        .metavar = option->metavar ? option->metavar : value_type(option)->metavar,
        .help = option->help,
        .type = is_bool ? ARGS_YES_NO : ARGS_TAKE,
        .choices = words_of(option),
        .also = option->also,
        .fallback = option->fallback,
        .is_list = is_list,
        .is_repeated = is_list || option->type == OPTION_LIST || option->type == OPTION_SIGNALS};
}

static bool take_special(struct flags *flags, enum special special, const char *typed,
                         const char *value, struct err *err)
{
    int format;
    if (special == SPECIAL_VERBOSE || special == SPECIAL_QUIET) {
        flags->louder += special == SPECIAL_VERBOSE ? 1 : -1;
        return true;
    }
    if (special == SPECIAL_CONFIG && flags->config_file)
        return err_set(err, ERR_USAGE, 0, "-c is there twice (%.100s and %.100s); one file only",
                       flags->config_file, value);
    if (special == SPECIAL_CONFIG) {
        flags->config_file = value;
        return true;
    }
    if (special == SPECIAL_PRINT_OPTIONS && !value_choice(value, manual_formats, &format, err))
        return err_wrap(err, "%s", typed);
    if (special == SPECIAL_MAKE_KEY && !*value)
        return err_set(err, ERR_USAGE, 0, "%s: the value is empty; name a file", typed);
    flags->key_file = value;
    flags->show = (int)special;
    return true;
}

static bool flags_take(void *ctx, size_t row, const char *typed, const char *value, struct err *err)
{
    struct flags *flags = ctx;
    if (row < SPECIAL__COUNT)
        return take_special(flags, (enum special)row, typed, value, err);
    if (!flags->config)
        return true;
    const struct option *option = &options[row - SPECIAL__COUNT];
    char where[OPTION_NAME_MAX + 12];
    snprintf(where, sizeof where, "flag %s", typed);
    return origin_set(flags->config, option, FROM_FLAG, where, err) &&
           (value_from_text(option, value, NULL, flags->config, err) || err_wrap(err, "%s", typed));
}

const struct args flags_args = {
    .program = "pchrun",
    .version = PCHRUN_VERSION,
    .head =
        "Usage: pchrun [options] [--] command [argument ...]\n"
        "\n"
        "Run a training command so that it survives preemption: when notice comes, every process "
        "of\n"
        "the job saves the same step, and pchrun exits with 42, for the scheduler to start it "
        "again.\n"
        "\n"
        "Examples:\n"
        "  pchrun -- python train.py\n"
        "  pchrun -n 8 --grace 110s --checkpoint-dir /scratch/run7 -- python train.py\n"
        "  pchrun -c run7.json --node-rank 1 -- python train.py\n",
    .tail =
        "Every option --a-b-c is also the variable PCHRUN_A_B_C, and a key of the configuration "
        "file;\n"
        "a flag wins over a variable, a variable over the file, the file over the preset. TIME "
        "is a\n"
        "number and its unit: ms, s, m, h or d. See pchrun(1) and pchrun.json(5).\n",
    .left = 38,
    .right = 60,
    .row = flags_row,
    .title = title_above,
    .take = flags_take,
};

enum args_end flags_read(char **argv, FILE *out, struct flags *ret, struct err *err)
{
    struct args_reading reading = {.options = ret, .out = out};
    *ret = (struct flags){.argv = argv, .show = -1};
    enum args_end end = args_read(&flags_args, argv, &reading, err);
    ret->command = reading.command;
    return end;
}

/* -v and -q change the level that the other sources have set. */
static bool apply_loudness(int louder, struct config *config, struct err *err)
{
    const struct option *option = option_by_key("log.level");
    int max = 0;
    while (option->choices[max + 1])
        max++;
    int level = config->log.level + louder;
    config->log.level = level < 0 ? 0 : level > max ? max : level;
    return louder == 0 ||
           origin_set(config, option, FROM_FLAG, louder > 0 ? "flag -v" : "flag -q", err);
}

bool flags_apply(const struct flags *flags, struct config *config, struct err *err)
{
    struct flags again = {.config = config};
    struct args_reading reading = {.options = &again};
    return args_read(&flags_args, flags->argv, &reading, err) == ARGS_RUN &&
           apply_loudness(flags->louder, config, err);
}
