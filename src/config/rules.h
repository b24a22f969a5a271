/* SPDX-License-Identifier: Apache-2.0
 *
 * rules: the option "signals", the meaning of signals. Each source adds rules or replaces them,
 * signal by signal; see values.h. Main thread.
 */
#pragma once

#include "config/config.h"
#include "json/json.h"
#include "json/writer.h"

/* The names of enum signal_rule; ends with NULL. */
extern const char *const rule_names[];

/* "TERM=preempt,USR1=preempt:240s" */
MUST_CHECK bool rules_from_text(const char *text, struct config *config, struct err *err);
MUST_CHECK bool rules_from_json(const struct json *json, struct config *config, struct err *err);
/* Adds only rules for signals without one. */
MUST_CHECK bool rules_add_missing(const char *text, struct config *config, struct err *err);
void rules_clear(struct config *config);
void rules_write(const struct config *config, struct writer *writer, const char *key);
