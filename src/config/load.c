/* SPDX-License-Identifier: Apache-2.0
 * See config.h: applies the sources in their order, and says what follows from the result.
 */
#include "config/config.h"

#include "base/keyfile.h"
#include "base/str.h"
#include "config/options.h"
#include "config/origin.h"
#include "config/presets.h"
#include "config/sources.h"
#include "config/values.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool set_defaults(struct config *config, struct err *err)
{
    *config = (struct config){0};
    config->origins = calloc(options_count, sizeof *config->origins);
    if (!config->origins)
        return err_set(err, ERR_SYSTEM, ENOMEM, "cannot read the configuration");
    for (size_t i = 0; i < options_count; i++) {
        const struct option *option = &options[i];
        value_clear(option, config);
        if (option->fallback && !value_from_text(option, option->fallback, NULL, config, err))
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

/* Call after --print-config, which shows null, not 1, if the user gave no number. */
static void settle_count(struct config *config)
{
    config->procs.count_is_set = config->procs.count > 0;
    if (!config->procs.count_is_set)
        config->procs.count = 1;
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
    bool ok = true;
    switch (flags->show) {
    case SPECIAL_PRINT_OPTIONS:
        show_manual(out);
        break;
    case SPECIAL_PRINT_SCHEMA:
        ok = show_schema(config, out, err);
        break;
    case SPECIAL_MAKE_KEY:
        ok = make_key(flags->key_file, out, err);
        break;
    default:
        ok = show_config(config, env, out, err);
        break;
    }
    return ok && args_flush(out, err);
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
    settle_count(config);
    config->drill_ns = flags->drill_ns;
    config->is_doctor = flags->is_doctor;
    if (config->command[0])
        return ARGS_RUN;
    err_set(err, ERR_USAGE, 0,
            "no command is given; write pchrun [options] -- command [argument ...], or see pchrun "
            "--help");
    return ARGS_BAD;
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

void config_free(struct config *config)
{
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
    *ret = NULL; /* asprintf() leaves it undefined */
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
