/* SPDX-License-Identifier: Apache-2.0
 *
 * sources: the steps of config_load(): the command line (flags.c), the environment (env.c), the
 * file (file.c), the nodes (discovered.c), what needs several options (validate.c), and what is
 * printed (show.c, manual.c). Their errors name the place of the fault. Main thread.
 */
#pragma once

#include "config/config.h"
#include "config/options.h"
#include "json/writer.h"

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
    struct config *config;   /* gets the options; NULL: only parse them */
};

/* Reads up to the command, or to a flag like --help, and prints that on `out`. Sets no option: the
 * file is weaker than the flags and must be applied before them, but a flag names the file. So
 * flags_apply() reads the same arguments again, after the file. */
MUST_CHECK enum args_end flags_read(char **argv, FILE *out, struct flags *ret, struct err *err);
MUST_CHECK bool flags_apply(const struct flags *flags, struct config *config, struct err *err);

/* Applies all variables PCHRUN_* but PCHRUN_CONFIG. An unknown one is an error. */
MUST_CHECK bool env_apply(char **env, struct config *config, struct err *err);

MUST_CHECK bool file_apply(const char *path, struct config *config, struct err *err);

/* cluster.discovery: fills in settings of the nodes that the user has not set. Call after flags,
 * environment and file. Does nothing if cluster.discovery is none, or if the nodes and this node's
 * rank are given. If the user did not ask for discovery, it also does nothing if the nodes are
 * given, or below another pchrun. Then an uncertain sign of several nodes only becomes a warning
 * (config->found). */
MUST_CHECK bool discovered_apply(struct config *config, char **env, struct err *err);
/* Writes the member "$cluster": the result and its variables. If discovery was off: the result that
 * it would have had. */
void discovered_show(const struct config *config, char **env, struct writer *w);

/* Print --print-config (*config is the result), --print-schema and --print-options (*config has the
 * defaults), all made from the option table. Fail only without memory; args_flush() finds errors of
 * `out`. */
MUST_CHECK bool show_config(const struct config *config, char **env, FILE *out, struct err *err);
MUST_CHECK bool show_schema(const struct config *config, FILE *out, struct err *err);
void show_manual(FILE *out);
/* The keys that --print-config adds and the file's reader ignores; ends with NULL. */
extern const char *const show_added[];

/* Checks and settings that need several options. */
MUST_CHECK bool config_validate(struct config *config, struct err *err);
