/* SPDX-License-Identifier: Apache-2.0
 * See config.h: reads the command line, the file and the environment, applies all sources in their
 * order, and says what follows from the result.
 */
#include "config/config.h"

#include "base/clock.h"
#include "base/keyfile.h"
#include "base/str.h"
#include "base/value.h"
#include "config/loadsteps.h"
#include "config/noticelist.h"
#include "config/options.h"
#include "config/presets.h"
#include "config/rules.h"
#include "config/text.h"
#include "config/values.h"
#include "json/json.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AT(field)    offsetof(struct flags, field)
#define DRILL_MAX_NS (7 * 24 * 3600 * NS_PER_S)
#define PREFIX       "PCHRUN_"
#define CONFIG_FILE  "PCHRUN_CONFIG="

/* ---- the command line ---- */

/* The parsed command line. Texts point into argv. */
struct flags {
    char **argv;
    const char *config_file; /* NULL: none */
    char **command;          /* may be empty */
    int show;                /* enum special: what to print; -1: nothing */
    const char *key_file;    /* with SPECIAL_MAKE_KEY: where to write the key */
    int64_t drill_ns;        /* with SPECIAL_DRILL; 0: none */
    bool is_doctor;          /* with SPECIAL_DOCTOR */
    int louder;              /* the number of -v, minus that of -q */
    struct config *config;   /* the struct to fill in; NULL: only parse the options */
};

static const char *const helps[] = {"all", NULL};

static const struct args_row specials[SPECIAL__COUNT] = {
    [SPECIAL_CONFIG] = {"config", 'c', "FILE", "the configuration file (also PCHRUN_CONFIG)",
                        ARGS_TAKE, .is_usual = true},
    [SPECIAL_VERBOSE] = {"verbose", 'v', NULL, "log more; may be repeated", ARGS_TAKE,
                         .is_repeated = true},
    [SPECIAL_QUIET] = {"quiet", 'q', NULL, "log less; may be repeated", ARGS_TAKE,
                       .is_repeated = true},
    [SPECIAL_PRINT_CONFIG] = {"print-config", 0, NULL, "show every value and where it came from",
                              ARGS_TAKE},
    [SPECIAL_PRINT_SCHEMA] = {"print-schema", 0, NULL, "show the JSON schema of the file",
                              ARGS_TAKE, .is_last = true},
    [SPECIAL_MAKE_KEY] = {"make-key", 0, "FILE", "write a new key for cluster.key_file", ARGS_TAKE,
                          .is_last = true, .is_usual = true},
    [SPECIAL_DRILL] = {"drill", 0, "GRACE", "try a notice that leaves this much time", ARGS_TIME,
                       AT(drill_ns), false, NS_PER_S, DRILL_MAX_NS, .is_usual = true},
    [SPECIAL_DOCTOR] = {"doctor", 0, NULL, "check this machine for problems; run nothing",
                        ARGS_FLAG, AT(is_doctor), .is_usual = true},
    [SPECIAL_VERSION] = {"version", 'V', NULL, "show the version", ARGS_VERSION},
    [SPECIAL_HELP] = {"help", 'h', "[all]", "show these options, or all of them", ARGS_HELP,
                      .choices = helps, .is_usual = true},
};

/* The words that the value must be one of; NULL: other values are allowed. */
static const char *const *words_of(const struct option *option)
{
    return option->type == OPTION_SIGNAL    ? signame_list()
           : option->type == OPTION_NOTICES ? notice_kind_names
                                            : option->choices;
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
    bool is_bool = option->type == OPTION_BOOL || option->type == OPTION_SWITCH,
         is_list = option->type == OPTION_NOTICES || option->type == OPTION_CHOICES;
    return (struct args_row){
        .name = option->key,
        .letter = option->letter,
        .metavar = option->metavar ? option->metavar : value_types[option->type].metavar,
        .help = option->help,
        .type = is_bool ? ARGS_YES_NO : ARGS_TAKE,
        .choices = words_of(option),
        .also = option->also,
        .fallback = option->fallback,
        .is_list = is_list,
        .is_usual = option->is_usual,
        .is_repeated = option->type == OPTION_NOTICES || option->type == OPTION_LIST ||
                       option->type == OPTION_SIGNALS};
}

static bool take_special(struct flags *flags, enum special special, const char *typed,
                         const char *value, struct err *err)
{
    if (special == SPECIAL_VERBOSE || special == SPECIAL_QUIET) {
        flags->louder += special == SPECIAL_VERBOSE ? 1 : -1;
        return true;
    }
    if (special == SPECIAL_CONFIG && flags->config_file)
        return err_set(err, ERR_USAGE, 0, "-c is given twice (%.100s and %.100s); one file only",
                       flags->config_file, value);
    if (special == SPECIAL_CONFIG) {
        flags->config_file = value;
        return true;
    }
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
           (value_from_text(option, value, flags->config, err) || err_wrap(err, "%s", typed));
}

const struct args flags_args = {
    .program = "pchrun",
    .version = PCHRUN_VERSION,
    .head = "Usage: pchrun [options] [--] command [argument ...]\n"
            "\n"
            "Run a training command so that it survives preemption: when notice comes, every\n"
            "rank that has attached saves the same step. Then pchrun exits with 42, and the\n"
            "scheduler starts the job again. A program attaches by libpch, in Python by\n"
            "pch.attach(); or unchanged by --instrument.\n"
            "\n"
            "Examples:\n"
            "  pchrun --checkpoint-dir run7 -n 8 -- python train.py          8 ranks\n"
            "  pchrun --checkpoint-dir run7 --instrument -- python train.py  unchanged\n"
            "  pchrun --checkpoint-dir run7 --drill 30s -- python train.py   a drill\n"
            "  pchrun --cluster-nodes n0,n1 --cluster-key-file key -n 8 -- python train.py\n",
    .brief = "pchrun --help all has every option, man pchrun explains them, and pchctl status\n"
             "shows a running job. TIME is a number and its unit: ms, s, m, h or d.\n"
             "Exit codes: 0 completed, 42 start it again, 43 no progress, 125 pchrun's error.\n",
    .tail = "Every option --a-b-c is also the variable PCHRUN_A_B_C, and a key of the\n"
            "configuration file. A flag wins over a variable, a variable over the file, the\n"
            "file over the preset. TIME is a number and its unit: ms, s, m, h or d.\n"
            "See pchrun(1) and pchrun.json(5). Report faults at\n" PCHRUN_BUGS "\n",
    .left = 32,
    .right = 47,
    .row = flags_row,
    .title = title_above,
    .foreign = nodeoptions_of_torchrun,
    .take = flags_take,
};

/* Reads up to the command, or to a flag like --help, whose text goes to `out`. Sets no option: the
 * file is weaker than the flags and must be applied before them, but a flag names the file. So
 * flags_apply() reads the same arguments again, after the file. */
static enum args_end flags_read(char **argv, FILE *out, struct flags *ret, struct err *err)
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

static bool flags_apply(const struct flags *flags, struct config *config, struct err *err)
{
    struct flags again = {.config = config};
    struct args_reading reading = {.options = &again};
    return args_read(&flags_args, flags->argv, &reading, err) == ARGS_RUN &&
           apply_loudness(flags->louder, config, err);
}

/* ---- the file ---- */

/* The file being read. */
struct file {
    const char *path;
    const char *folder; /* absolute, for relative paths in the file */
    struct config *config;
};

/* Keeps each text of a value that may be a relative path, or a command with one. */
static bool keep_relatives(const struct file *file, const struct json *json, struct err *err)
{
    char ***list = &file->config->relatives;
    const char *text = json_text(json);
    if (text && text[0] && text[0] != '/') {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%.*s", (int)strcspn(text, " "), text);
        return command_add(list, strdup(path), err) &&
               command_add(list, text_absolute(file->folder, path), err);
    }
    for (const struct json *item = json_first(json); item; item = json_next(item))
        if (!keep_relatives(file, item, err))
            return false;
    return true;
}

static bool may_have_paths(enum option_type type)
{
    return type == OPTION_PATH || type == OPTION_TEMPLATE || type == OPTION_COMMAND ||
           type == OPTION_NOTICES;
}

static bool apply_option(const struct file *file, const struct option *option,
                         const struct json *json, struct err *err)
{
    char where[256];
    snprintf(where, sizeof where, "file %.200s", file->path);
    return origin_set(file->config, option, FROM_FILE, where, err) &&
           (value_from_json(option, json, file->folder, file->config, err) ||
            err_wrap(err, "%s", option->key)) &&
           (!may_have_paths(option->type) || keep_relatives(file, json, err));
}

static bool unknown_key(const char *key, struct err *err)
{
    struct nearest nearest = nearest_to(key);
    for (size_t i = 0; i < options_count; i++)
        nearest_consider(&nearest, "", options[i].key);
    for (size_t i = 0; i < option_groups_count; i++)
        if (option_groups[i].name[0])
            nearest_consider(&nearest, "", option_groups[i].name);
    if (nearest.name[0])
        return err_set(err, ERR_USAGE, 0, "unknown key \"%.80s\"; the nearest is \"%s\"", key,
                       nearest.name);
    return err_set(err, ERR_USAGE, 0, "unknown key \"%.80s\"; pchrun --print-config shows all keys",
                   key);
}

static bool apply_group(const struct file *file, const char *name, const struct json *json,
                        struct err *err)
{
    if (json_kind(json) != JSON_IS_OBJECT)
        return json_unwanted(json, "an object is wanted", err) || err_wrap(err, "%s", name);
    for (const struct json *member = json_first(json); member; member = json_next(member)) {
        char key[2 * OPTION_NAME_MAX]; /* a cut key is still longer than any known key */
        snprintf(key, sizeof key, "%s.%s", name, json_key(member));
        const struct option *option = option_by_key(key);
        if (!option)
            return unknown_key(key, err);
        if (!apply_option(file, option, member, err))
            return false;
    }
    return true;
}

static bool apply_member(const struct file *file, const struct json *member, struct err *err)
{
    const char *key = json_key(member);
    if (str_is(key, "$schema") || str_is_one_of(key, show_added)) /* editors read "$schema" */
        return true;
    for (size_t i = 0; i < option_groups_count; i++)
        if (option_groups[i].name[0] && str_is(key, option_groups[i].name))
            return apply_group(file, key, member, err);
    const struct option *option = option_by_key(key);
    if (!option)
        return unknown_key(key, err);
    if (strchr(key, '.'))
        return err_set(err, ERR_USAGE, 0, "unknown key \"%s\"; write it as a nested object", key);
    return apply_option(file, option, member, err);
}

static bool apply_root(const struct file *file, const struct json *root, struct err *err)
{
    if (json_kind(root) != JSON_IS_OBJECT)
        return json_unwanted(root, "an object is wanted", err);
    for (const struct json *member = json_first(root); member; member = json_next(member))
        if (!apply_member(file, member, err))
            return false;
    return true;
}

static bool file_apply(const char *path, struct config *config, struct err *err)
{
    struct json *root = json_read_file(path, CONFIG_FILE_MAX, err);
    if (!root) /* a syntax error already begins with the path */
        return strncmp(err->text, path, strlen(path)) == 0
                   ? false
                   : err_wrap(err, "the configuration file (-c, PCHRUN_CONFIG)");
    char *folder = text_absolute(NULL, path);
    char *slash = folder ? strrchr(folder, '/') : NULL;
    if (slash)
        *slash = '\0';
    bool ok = slash ? apply_root(&(struct file){path, folder, config}, root, err)
                    : err_set(err, ERR_SYSTEM, errno, "cannot find the directory of this file");
    free(folder);
    json_free(root);
    return ok || err_wrap(err, "%.200s", path);
}

/* ---- the environment ---- */

static const struct option *option_by_variable(const char *name)
{
    char variable[OPTION_NAME_MAX];
    for (size_t i = 0; i < options_count; i++) {
        const struct option *option = &options[i];
        if (str_is(name, option_variable(option->key, variable)) ||
            (option->also && str_is(name, option_variable(option->also, variable))))
            return option;
    }
    return NULL;
}

static bool unknown_variable(const char *name, struct err *err)
{
    /* Skips the common prefix, which would make all names look alike. */
    size_t prefix = strlen(PREFIX);
    char variable[OPTION_NAME_MAX];
    struct nearest nearest = nearest_to(name + prefix);
    for (size_t i = 0; i < options_count; i++) {
        nearest_consider(&nearest, PREFIX, option_variable(options[i].key, variable) + prefix);
        if (options[i].also)
            nearest_consider(&nearest, PREFIX, option_variable(options[i].also, variable) + prefix);
    }
    nearest_consider(&nearest, PREFIX, "CONFIG");
    if (!nearest.name[0])
        return err_set(err, ERR_USAGE, 0,
                       "unknown environment variable %.80s; PCHRUN_* is reserved for "
                       "configuration, and pchrun --help all shows all options",
                       name);
    return err_set(err, ERR_USAGE, 0,
                   "unknown environment variable %.80s; the nearest is %s (PCHRUN_* is reserved "
                   "for configuration)",
                   name, nearest.name);
}

static bool apply_variable(const char *name, const char *text, struct config *config,
                           struct err *err)
{
    const struct option *option = option_by_variable(name);
    if (!option)
        return unknown_variable(name, err);
    /* The environment has no order, so two names of one option are an error. */
    if (origin_from(config, option->key) == FROM_ENVIRONMENT)
        return err_set(err, ERR_USAGE, 0, "%s: %s is set already by the %s; keep one of the two",
                       name, option->key, origin_text(config, option->key));
    char where[2 * OPTION_NAME_MAX + 16];
    snprintf(where, sizeof where, "environment %s", name);
    return origin_set(config, option, FROM_ENVIRONMENT, where, err) &&
           (value_from_text(option, text, config, err) || err_wrap(err, "%s", name));
}

/* Applies all variables PCHRUN_* but PCHRUN_CONFIG. An unknown name is an error. */
static bool env_apply(char **env, struct config *config, struct err *err)
{
    for (; *env; env++) {
        const char *equals = strchr(*env, '=');
        if (!equals || !str_starts(*env, PREFIX) || str_starts(*env, CONFIG_FILE))
            continue;
        char name[2 * OPTION_NAME_MAX]; /* a cut name is still longer than any known name */
        snprintf(name, sizeof name, "%.*s", (int)(equals - *env), *env);
        if (!apply_variable(name, equals + 1, config, err))
            return false;
    }
    return true;
}

/* ---- all sources ---- */

static bool set_defaults(struct config *config, struct err *err)
{
    *config = (struct config){0};
    config->origins = calloc(options_count, sizeof *config->origins);
    if (!config->origins)
        return err_set(err, ERR_SYSTEM, ENOMEM, "cannot read the configuration");
    for (size_t i = 0; i < options_count; i++) {
        const struct option *option = &options[i];
        value_clear(option, config);
        if (option->fallback && !value_from_text(option, option->fallback, config, err))
            return err_wrap(err, "the default of %s", option->key);
    }
    return true;
}

/* The weakest source first. Preset and discovery come last, because the other sources say which one
 * to use; both replace only defaults. */
static bool apply_sources(const struct flags *flags, char **env, struct config *config,
                          struct err *err)
{
    const char *file = flags->config_file ? flags->config_file : str_variable(env, "PCHRUN_CONFIG");
    if (file && !*file)
        return err_set(err, ERR_USAGE, 0, "%s: the value is empty; name a file, or leave it out",
                       flags->config_file ? "-c" : "PCHRUN_CONFIG");
    if (file && !file_apply(file, config, err))
        return false;
    if (!env_apply(env, config, err) || !flags_apply(flags, config, err) ||
        !presets_apply(config, env, err) || !discovered_apply(config, env, err))
        return false;
    config->command = flags->command;
    return true;
}

static bool make_key(const char *path, FILE *out, struct err *err)
{
    if (!keyfile_make(path, err))
        return false;
    fprintf(out,
            "Wrote a new key to %s; only you can read it.\n"
            "Copy it to the nodes that do not see it: scp -p %s HOST:%s\n"
            "and start pchrun with it on every node:  pchrun --cluster-key-file %s ...\n",
            path, path, path, path);
    return true;
}

static bool show(const struct flags *flags, char **env, const struct config *config, FILE *out,
                 struct err *err)
{
    bool ok = flags->show == SPECIAL_PRINT_SCHEMA ? show_schema(config, out, err)
              : flags->show == SPECIAL_MAKE_KEY   ? make_key(flags->key_file, out, err)
                                                  : show_config(config, env, out, err);
    return ok && args_flush(out, err);
}

/* The example repeats what the user has typed, unless that is long or needs quotes. */
static bool refuse_without_command(const struct flags *flags, struct err *err)
{
    char typed[160] = "";
    bool is_plain = true;
    for (char **word = flags->argv + 1; *word && !str_is(*word, "--"); word++)
        is_plain = is_plain && str_is_word(*word) && str_addf(typed, sizeof typed, "%s ", *word);
    return err_set(err, ERR_USAGE, 0,
                   "no command is given; write it after \"--\", as in: pchrun %s-- python train.py "
                   "(pchrun --help has the options)",
                   is_plain ? typed : "[options] ");
}

/* Does the work of config_load(), which frees *config after a failure. */
static enum args_end load(const struct flags *flags, char **env, FILE *out, struct config *config,
                          struct err *err)
{
    bool needs_values = flags->show < 0 || flags->show == SPECIAL_PRINT_CONFIG;
    if (!set_defaults(config, err))
        return ARGS_BAD;
    if (needs_values && (!apply_sources(flags, env, config, err) || !config_validate(config, err)))
        return ARGS_BAD;
    if (flags->show >= 0)
        return show(flags, env, config, out, err) ? ARGS_SHOWN : ARGS_BAD;
    /* Not before --print-config, which shows null, not 1, if the user gave no number. */
    config->procs.count_is_set = config->procs.count > 0;
    if (!config->procs.count_is_set)
        config->procs.count = 1;
    /* --print-config shows what the user gives: the nodes that are started, with the spares. */
    config->cluster.nnodes -= config->cluster.spares;
    config->drill_ns = flags->drill_ns;
    config->is_doctor = flags->is_doctor;
    return config->command[0] || refuse_without_command(flags, err) ? ARGS_RUN : ARGS_BAD;
}

enum args_end config_load(char **argv, char **env, FILE *out, struct config *ret, struct err *err)
{
    struct flags flags;
    struct config config = {0};
    enum args_end result = flags_read(argv, out, &flags, err);
    if (result == ARGS_RUN)
        result = load(&flags, env, out, &config, err);
    if (result == ARGS_RUN)
        *ret = config;
    else
        config_free(&config);
    if (result == ARGS_BAD)
        str_printable(err->text); /* the text may quote untrusted input */
    return result;
}

/* "file run7.json": all values of the file have this origin. */
static const char *file_name(const struct config *config)
{
    for (size_t i = 0; i < options_count; i++)
        if (config->origins[i].from == FROM_FILE)
            return config->origins[i].text;
    return "the file";
}

/* A longer path may begin with the same characters, so the name must end there. */
void config_explain(const struct config *config, char *text, size_t size)
{
    for (char *const *at = config->relatives; at && *at; at += 2) {
        const char *found = strstr(text, at[1]);
        if (!found || !strchr(" /;:,')", found[strlen(at[1])]))
            continue;
        str_addf(text, size, " (%s has \"%.100s\", which is relative to it)", file_name(config),
                 at[0]);
        return;
    }
}

void config_free(struct config *config)
{
    command_clear(&config->relatives);
    for (size_t i = 0; i < options_count; i++) {
        value_clear(&options[i], config);
        if (config->origins)
            free(config->origins[i].text);
    }
    free(config->origins);
    *config = (struct config){0};
}

bool config_binding(const struct config *config, char *text, size_t size)
{
    char value[64];
    bool fits = size > 0;
    text[0] = '\0';
    for (size_t i = 0; fits && i < options_count; i++)
        if (options[i].is_binding)
            fits = str_addf(text, size, "%s=%s\n", options[i].key,
                            value_format(&options[i], config, value, sizeof value));
    return fits;
}

/* ---- the paths that follow from it ---- */

bool paths_state_dir(const struct config *config, char **ret, struct err *err)
{
    const char *own = config->state_dir, *dir = own ? own : config->checkpoint.dir;
    *ret = NULL;
    if (!dir || asprintf(ret, "%s%s", dir, own ? "" : "/.pchrun") >= 0)
        return true;
    *ret = NULL; /* asprintf() leaves the pointer undefined */
    return err_set(err, ERR_SYSTEM, ENOMEM, "cannot start");
}

bool paths_expand(const struct config *config, const char *template, const char *state_dir,
                  char **ret, struct err *err)
{
    char path[4096] = "", rank[16];
    const struct str_part parts[] = {
        {"{state_dir}", state_dir}, {"{node_rank}", rank}, {NULL, NULL}};
    *ret = NULL;
    if (!template || (!state_dir && strstr(template, parts[0].name)))
        return true;
    snprintf(rank, sizeof rank, "%d", config->cluster.node_rank);
    if (!str_fill_in(path, sizeof path, template, parts))
        return err_set(err, ERR_USAGE, ENAMETOOLONG, "the path '%s'", template);
    *ret = strdup(path);
    return *ret || err_set(err, ERR_SYSTEM, ENOMEM, "cannot start");
}
