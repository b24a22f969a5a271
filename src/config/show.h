/* SPDX-License-Identifier: Apache-2.0
 *
 * show: what --help (help.c), --version, --print-config, --print-schema (show.c) and
 * --print-options (manual.c) print, all made from the option table. `config` holds the defaults, or
 * for show_config() the result. They fail only when memory is short, or `out` cannot be written;
 * the caller sees the latter by ferror(). Main thread.
 */
#ifndef PCHRUN_CONFIG_SHOW_H
#define PCHRUN_CONFIG_SHOW_H

#include "config/config.h"

/* The keys that --print-config adds and the file's reader passes over; ends with NULL. */
extern const char *const show_added[];

void show_help(FILE *out);
void show_manual(FILE *out);
MUST_CHECK bool show_config(const struct config *config, char **env, FILE *out, struct err *err);
MUST_CHECK bool show_schema(const struct config *config, FILE *out, struct err *err);

#endif
