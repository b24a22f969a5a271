/* SPDX-License-Identifier: Apache-2.0
 *
 * json: a strict reader. An error of the syntax names the file, the line and the column where the
 * reader stopped: the end of the text that it does not understand. For an error in a value, the
 * module that uses the value names the key.
 *
 * A struct json is one value: an object, a list, or a scalar. The root owns all values and texts
 * inside it: json_free() frees them. Duplicate keys, NULs, bytes that are not UTF-8 and anything
 * behind the value are errors. Any thread, one at a time for each root.
 */
#pragma once

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

enum json_kind {
    JSON_IS_NULL,
    JSON_IS_BOOL,
    JSON_IS_INT,
    JSON_IS_REAL,
    JSON_IS_TEXT,
    JSON_IS_LIST,
    JSON_IS_OBJECT,
};

struct json;

/* Reads `len` bytes; errors call them `name`. The root is an object or a list. NULL: *err says what
 * is wrong and what to do, after "name:line:column: ". */
MUST_CHECK struct json *json_read(const char *name, const void *data, size_t len, struct err *err);
/* Like json_read(), for a regular file of at most `max` bytes. A file that is missing, unreadable,
 * of another type or too long is an error; of a file that is too long nothing is read. */
MUST_CHECK struct json *json_read_file(const char *path, size_t max, struct err *err);
/* The same for a file that pchrun has written. An error of the syntax ends with JSON_DAMAGED, since
 * a user is not to write into it. */
#define JSON_DAMAGED "the file is damaged"
MUST_CHECK struct json *json_read_written(const char *path, size_t max, struct err *err);
void json_free(struct json *root);
/* Replaces the control characters in all texts by '?', because a terminal would obey them. */
MUST_CHECK bool json_make_printable(struct json *root, struct err *err);

static inline void json_cleanup(struct json **root)
{
    json_free(*root);
}
/* Frees the root when the local variable goes out of scope. */
#define JSON_CLEANUP __attribute__((cleanup(json_cleanup)))

enum json_kind json_kind(const struct json *value);
/* "a string", "an object": for errors. */
const char *json_kind_name(const struct json *value);

/* The members of an object or the items of a list, in the order of the file; NULL: no more. Scalars
 * and NULL have none. */
const struct json *json_first(const struct json *parent);
const struct json *json_next(const struct json *item);
/* A member by its key; NULL: no such member, or `object` is NULL or not an object. */
const struct json *json_find(const struct json *object, const char *key);

/* The key of a member; NULL for items of a list and for the root. */
const char *json_key(const struct json *member);

/* False (NULL) if the value is NULL or of another kind; *ret is then unchanged. */
MUST_CHECK const char *json_text(const struct json *value);
MUST_CHECK bool json_int(const struct json *value, int64_t *ret);
MUST_CHECK bool json_number(const struct json *value, double *ret); /* of either kind */
MUST_CHECK bool json_bool(const struct json *value, bool *ret);

/* ERR_USAGE: "a list is wanted, not a string". Returns false. */
bool json_unwanted(const struct json *value, const char *wanted, struct err *err);
/* The text of a string; for any other kind NULL, and the error of json_unwanted(). */
MUST_CHECK const char *json_need_text(const struct json *value, struct err *err);

/* A value inside an object by its path, "report.round.id"; NULL: none. `object` may be NULL. */
const struct json *json_at(const struct json *object, const char *path);
/* The first item of the list at `path`; NULL: there is none. */
const struct json *json_items_at(const struct json *object, const char *path);
/* A missing value, or one of another kind, gives "", false or `missing`. */
const char *json_text_at(const struct json *object, const char *path);
/* True if the text at `path` equals `text`. */
bool json_is_at(const struct json *object, const char *path, const char *text);
int64_t json_int_at(const struct json *object, const char *path, int64_t missing);
double json_real_at(const struct json *object, const char *path, double missing);
bool json_bool_at(const struct json *object, const char *path);
