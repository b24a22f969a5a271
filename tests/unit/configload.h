/* SPDX-License-Identifier: Apache-2.0
 *
 * configload: calls of config_load() with words, and their results. For the tests of the
 * configuration.
 */
#pragma once

#include "config/config.h"
#include "folder.h"

#include <stdint.h>

enum { LOAD_WORDS_MAX = 256, LOAD_UNTOUCHED = 0x5a };

/* One call of config_load(). */
struct load {
    enum args_end result;
    struct config config; /* every byte is LOAD_UNTOUCHED before the call */
    struct err err;
    char *out;
    size_t size;                 /* of `out` */
    char *words[LOAD_WORDS_MAX]; /* argv, which `config` points into */
    char *text;
};

static inline void load_words(struct load *load, char **argv, char **env)
{
    FILE *out = open_memstream(&load->out, &load->size);
    memset(&load->config, LOAD_UNTOUCHED, sizeof load->config);
    load->result = config_load(argv, env, out, &load->config, &load->err);
    fclose(out);
}

/* `args` without the program's name, and `env`; both words with spaces between. */
static inline void load(struct load *load, const char *args, const char *env)
{
    char *env_text = strdup(env), *env_words[LOAD_WORDS_MAX];
    *load = (struct load){0};
    cr_assert(asprintf(&load->text, "pchrun %s", args) > 0);
    load_words(load, unit_cut(load->text, load->words, LOAD_WORDS_MAX),
               unit_cut(env_text, env_words, LOAD_WORDS_MAX));
    free(env_text);
}

static inline void unload(struct load *load)
{
    if (load->out && load->result == ARGS_RUN)
        config_free(&load->config);
    free(load->out);
    free(load->text);
    *load = (struct load){0};
}

static inline void load_ok(struct load *ret, const char *args, const char *env)
{
    load(ret, args, env);
    cr_assert_eq(ret->result, ARGS_RUN, "%s %s: %s", env, args, ret->err.text);
}

/* The result of the last load_l(). The next load_l(), or load_leave(), frees it. */
static struct load l __attribute__((unused));

static inline void load_l(const char *args, const char *env)
{
    unload(&l);
    load(&l, args, env);
}

static inline void load_l_ok(const char *args, const char *env)
{
    unload(&l);
    load_ok(&l, args, env);
}

/* The .fini of a suite whose .init is folder_enter() or folder_make(). */
static inline void load_leave(void)
{
    unload(&l);
    folder_remove();
}

static inline struct config_signal rule_of(const struct config *config, int number)
{
    cr_assert(config->signals[number].is_given, "signal %d has no rule", number);
    return config->signals[number];
}

static inline int signals_given(const struct config *config)
{
    int n = 0;
    for (int number = 0; number < CONFIG_SIGNALS; number++)
        n += config->signals[number].is_given;
    return n;
}
