/* SPDX-License-Identifier: Apache-2.0
 *
 * noticelist: the option "notices", the sources that announce the end of this node. Each source of
 * the configuration begins a new list; see values.h. Relative paths, and programs with a slash in
 * their name, are relative to the file's folder. Main thread.
 */
#pragma once

#include "config/config.h"
#include "json/json.h"
#include "json/writer.h"

/* "auto" … "poll", by enum config_notice_kind, then "none" and NULL. pchrun-watch has the same
 * names for its sources. */
extern const char *const notice_kind_names[];
/* True if the source is a program of the user. All others but "auto" are in pchrun-watch. */
bool noticelist_is_program(enum config_notice_kind kind);

/* Appends one source: "gce", "file:/run/leave". */
MUST_CHECK bool noticelist_add_text(const char *text, const char *folder, struct config *config,
                                    struct err *err);
/* Reads a list of words and objects; ["none"] is the empty list. */
MUST_CHECK bool noticelist_from_json(const struct json *json, const char *folder,
                                     struct config *config, struct err *err);
/* Replaces "auto", which must be in the list, by `kinds` (ends with CONFIG_NOTICE_AUTO). Kinds that
 * the list already has are not added. */
MUST_CHECK bool noticelist_settle(struct config *config, const enum config_notice_kind *kinds,
                                  struct err *err);
bool noticelist_has(const struct config *config, enum config_notice_kind kind);
void noticelist_clear(struct config *config);
void noticelist_write(const struct config *config, struct writer *writer, const char *key);
