/* SPDX-License-Identifier: Apache-2.0
 *
 * rules: the signals that a user may name, and the option "signals", which gives them their
 * meaning. Each source adds rules or replaces them, signal by signal; see values.h. Main thread.
 */
#pragma once

#include "config/config.h"
#include "json/json.h"
#include "json/writer.h"

/* Parses "USR1" or "SIGUSR1". False: the signal is unknown, or pchrun cannot handle it. */
MUST_CHECK bool signame_parse(const char *name, int *ret, struct err *err);
/* Every allowed name; ends with NULL. */
const char *const *signame_list(void);

/* The names of enum signal_rule; ends with NULL. */
extern const char *const rule_names[];

/* Adds one rule, such as "USR1=preempt:240s". Writes NULs into `text`. */
MUST_CHECK bool rules_add_text(char *text, struct config *config, struct err *err);
MUST_CHECK bool rules_from_json(const struct json *json, struct config *config, struct err *err);
void rules_write(const struct config *config, struct writer *writer, const char *key);
