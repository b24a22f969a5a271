/* SPDX-License-Identifier: Apache-2.0
 *
 * values: one option's value, from text, from JSON, and back. The caller adds the option's name to
 * errors. Main thread.
 */
#pragma once

#include "config/config.h"
#include "config/options.h"
#include "json/json.h"
#include "json/writer.h"

/* How --help and errors name a type, and its JSON type in the file. */
struct value_type {
    const char *metavar, *wanted; /* "TIME" and "a duration such as \"25s\"" */
    enum json_kind kind;
};
const struct value_type *value_type(const struct option *option);

/* Sets the field. The word null sets it to null if allowed. Lists, signals and notices are
 * appended. Relative paths are relative to `folder`, which is absolute; NULL: the current one. On
 * failure the field is unchanged, except that a list may have other items. */
MUST_CHECK bool value_from_text(const struct option *option, const char *text, const char *folder,
                                struct config *config, struct err *err);
MUST_CHECK bool value_from_json(const struct option *option, const struct json *json,
                                const char *folder, struct config *config, struct err *err);
/* Sets the field to null or an empty list, and frees the old value. */
void value_clear(const struct option *option, struct config *config);

/* A scalar as value_from_text() reads it; "" for null, lists, signals and notices. Returns text. */
char *value_format(const struct option *option, const struct config *config, char *text,
                   size_t size);
void value_write(const struct option *option, const struct config *config, struct writer *writer,
                 const char *key);
/* A number of the option's type, such as its min, as text. Returns text. */
char *value_number_text(const struct option *option, int64_t number, char *text, size_t size);

/* The pointer to one option's field. */
static inline void *value_field(const struct option *option, const struct config *config)
{
    return (char *)config + option->offset;
}
