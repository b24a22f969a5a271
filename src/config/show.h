/* SPDX-License-Identifier: Apache-2.0
 *
 * show: what --print-config, --print-schema (show.c) and --print-options (manual.c) print, all made
 * from the option table. `config` has the defaults, or the result for show_config(). They fail only
 * if memory is short or `out` cannot be written; check the latter with args_flush(). Main thread.
 */
#ifndef PCHRUN_CONFIG_SHOW_H
#define PCHRUN_CONFIG_SHOW_H

#include "config/config.h"

/* The keys that --print-config adds and the file's reader ignores; ends with NULL. */
extern const char *const show_added[];

void show_manual(FILE *out);
MUST_CHECK bool show_config(const struct config *config, char **env, FILE *out, struct err *err);
MUST_CHECK bool show_schema(const struct config *config, FILE *out, struct err *err);

#endif
