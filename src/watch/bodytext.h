/* SPDX-License-Identifier: Apache-2.0
 *
 * bodytext: what the readers of answers share: the answer as one word, names that are spelt in
 * several ways. Pure; any thread.
 */
#ifndef PCHRUN_WATCH_BODYTEXT_H
#define PCHRUN_WATCH_BODYTEXT_H

#include "json/json.h"

/* The answer without space and quotes around it. False: it does not fit, or holds what cannot be
 * printed. */
MUST_CHECK bool bodytext_word(const char *data, size_t len, char *word, size_t size);
/* The answer as JSON of that kind (an object or a list); NULL with *err if it is none. json_free()
 * it. */
MUST_CHECK struct json *bodytext_json(const char *data, size_t len, enum json_kind kind,
                                      struct err *err);
/* A member of an object; "window_start_time", "windowStartTime", "window-start-time" and
 * "Window start time" are the same. NULL: there is none. */
const struct json *bodytext_find(const struct json *object, const char *name);
/* Its text; "" if it is not there or no text. */
const char *bodytext_of(const struct json *object, const char *name);

#endif
