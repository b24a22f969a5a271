/* SPDX-License-Identifier: Apache-2.0
 *
 * loadsteps: the steps of config_load() outside load.c: the nodes and the checks of several options
 * (nodeoptions.c), and the printed texts (show.c). Their errors name the place of the fault. Main
 * thread.
 */
#pragma once

#include "config/config.h"
#include "config/options.h"
#include "json/writer.h"

/* cluster.discovery: fills in settings of the nodes that the user has not set. Call after flags,
 * environment and file. Does nothing if cluster.discovery is none, or if the nodes and this node's
 * rank are given. If the user did not ask for discovery, it also does nothing if the nodes are
 * given, or below another pchrun. Then an uncertain sign of several nodes only becomes a warning
 * (config->found). */
MUST_CHECK bool discovered_apply(struct config *config, char **env, struct err *err);
/* Writes the member "$cluster": the result and its variables. If discovery was off: the result that
 * it would have had. */
void discovered_show(const struct config *config, char **env, struct writer *w);

/* Print --print-config (*config is the result) and --print-schema (*config has the defaults), both
 * made from the option table. Fail only without memory; args_flush() finds errors of `out`. */
MUST_CHECK bool show_config(const struct config *config, char **env, FILE *out, struct err *err);
MUST_CHECK bool show_schema(const struct config *config, FILE *out, struct err *err);
/* The keys that --print-config adds and the file's reader ignores; ends with NULL. */
extern const char *const show_added[];

/* Checks and settings that need several options. */
MUST_CHECK bool config_validate(struct config *config, struct err *err);

/* The advice for a flag of torchrun that pchrun has under another name, or does not have; NULL: it
 * is no such flag. */
const char *nodeoptions_of_torchrun(const char *name);
