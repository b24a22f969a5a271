/* SPDX-License-Identifier: Apache-2.0
 *
 * sources: the command line (flags.c), the environment (env.c) and the file (file.c). Their errors
 * name the place of the fault. Main thread.
 */
#ifndef PCHRUN_CONFIG_SOURCES_H
#define PCHRUN_CONFIG_SOURCES_H

#include "config/config.h"
#include "config/options.h"

/* The parsed command line. Texts point into argv. */
struct flags {
    const char *config_file; /* NULL: none */
    char **command;          /* may be empty */
    int show;                /* enum special: what to print; -1: nothing */
    const char *key_file;    /* with SPECIAL_MAKE_KEY: where to write it */
    int64_t drill_ns;        /* with SPECIAL_DRILL; 0: none */
    bool is_doctor;          /* with SPECIAL_DOCTOR */
    int louder;              /* how many -v more than -q */
    struct flag_value {
        const struct option *option;
        char name[OPTION_NAME_MAX + 4]; /* as typed: "--grace", "-n" */
        const char *text;
    } * values;
    size_t nvalues;
};

/* Reads up to the command, or to the first flag like --help, which it prints on `out`. Free *ret
 * in any case. */
MUST_CHECK enum args_end flags_read(char **argv, FILE *out, struct flags *ret, struct err *err);
void flags_free(struct flags *flags);
MUST_CHECK bool flags_apply(const struct flags *flags, struct config *config, struct err *err);

/* PCHRUN_CONFIG; NULL if it is not set. */
const char *env_config_file(char **env);
/* An unknown PCHRUN_* variable is an error. */
MUST_CHECK bool env_apply(char **env, struct config *config, struct err *err);

MUST_CHECK bool file_apply(const char *path, struct config *config, struct err *err);

#endif
