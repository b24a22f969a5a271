/* SPDX-License-Identifier: Apache-2.0
 *
 * text: the texts of the configuration, and lists of them, which end with NULL. It checks texts and
 * makes paths absolute. A command is a list: a program of the user's and its arguments. A program
 * with a slash in its name is relative to the file's folder and becomes absolute. Other programs
 * are searched in PATH, later. Owns nothing; a bad text is ERR_USAGE. Main thread.
 */
#pragma once

#include "json/json.h"
#include "json/writer.h"

#define TEXT_PATH_MAX 4095

/* Accepts 1 to max bytes, without a control character. */
MUST_CHECK bool text_check(const char *text, int64_t max, struct err *err);
/* Accepts what may be a path: no URL, and no "~" or "$NAME", which only a shell expands. */
MUST_CHECK bool text_check_path(const char *text, struct err *err);
/* Makes a path absolute and drops a leading "./". `folder` is absolute; NULL: the current one. The
 * caller frees the result. NULL: see errno. */
char *text_absolute(const char *folder, const char *path);
/* Replaces an owned text. Takes `copy`, which is from malloc(); NULL: there was no memory. */
MUST_CHECK bool text_keep(char **field, char *copy, struct err *err);

/* Each sets *args, which must be NULL before. `folder` is that of the file, absolute. Call
 * command_clear() even after a failure. */
MUST_CHECK bool command_from_text(const char *text, const char *folder, char ***args,
                                  struct err *err); /* no arguments */
MUST_CHECK bool command_from_json(const struct json *json, const char *folder, char ***args,
                                  struct err *err);
/* Appends one text to a list. Takes `copy`, which is from malloc(). */
MUST_CHECK bool command_add(char ***args, char *copy, struct err *err);
/* Frees any list of texts and sets it to NULL. */
void command_clear(char ***args);
void command_write(char *const *args, struct writer *writer, const char *key);
