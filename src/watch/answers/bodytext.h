/* SPDX-License-Identifier: Apache-2.0
 *
 * bodytext: shared by the parsers of answers: one-word answers, and names with several spellings.
 * Pure; any thread.
 */
#pragma once

#include "json/json.h"

/* The answer without surrounding space and quotes. False: too long, or not printable. */
MUST_CHECK bool bodytext_word(const char *data, size_t len, char *word, size_t size);
/* `list` ends with NULL. */
bool bodytext_is_one_of(const char *word, const char *const *list);
/* The answer as JSON of that kind (an object or a list). NULL: it is something else, see *err. Free
 * with json_free(). */
MUST_CHECK struct json *bodytext_json(const char *data, size_t len, enum json_kind kind,
                                      struct err *err);
/* A member of an object; "window_start_time", "windowStartTime", "window-start-time" and "Window
 * start time" are the same. NULL: missing. */
const struct json *bodytext_find(const struct json *object, const char *name);
/* The member's text; "" if it is missing or not a text. */
const char *bodytext_of(const struct json *object, const char *name);
