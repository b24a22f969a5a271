/* SPDX-License-Identifier: Apache-2.0
 *
 * values: one option's value, from text, from JSON, and back; and where it came from. The caller
 * adds the option's name to errors. Main thread.
 *
 * Sources are applied from the weakest to the strongest, each through origin_set(), so the last one
 * wins. Discovery (loadsteps.h) and the preset (presets.h) come last, and only replace defaults.
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
extern const struct value_type value_types[OPTION_TYPE__COUNT];

/* Sets the field. The word null sets it to null if allowed. Lists, signals and notices are
 * appended. Relative paths are relative to the current folder, those of JSON to `folder`, which is
 * absolute. On failure the field is unchanged, except that a list may have other items. */
MUST_CHECK bool value_from_text(const struct option *option, const char *text,
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

/* The pointer to one option's field. */
static inline void *value_field(const struct option *option, const struct config *config)
{
    return (char *)config + option->offset;
}

/* Weakest first. */
enum origin_from {
    FROM_DEFAULT,
    FROM_PRESET,
    FROM_DISCOVERY,
    FROM_FILE,
    FROM_ENVIRONMENT,
    FROM_FLAG
};

struct config_origin {
    enum origin_from from;
    char *text; /* "flag --grace", "environment PCHRUN_GRACE", "file run7.json"; NULL: default */
};

/* Call before a source sets the option. Empties a command, and a list that another source had set.
 * Signals of several sources are merged, so the names of all these sources are kept. */
MUST_CHECK bool origin_set(struct config *config, const struct option *option,
                           enum origin_from from, const char *text, struct err *err);
enum origin_from origin_from(const struct config *config, const char *key);
const char *origin_text(const struct config *config, const char *key);
bool origin_is_given(const struct config *config, const char *key); /* not the default */
