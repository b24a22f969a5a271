/* SPDX-License-Identifier: Apache-2.0
 *
 * command: a program of the user's and its arguments, as a list of texts that ends with NULL. A
 * program with a slash in its name is relative to the file's folder and becomes absolute. Other
 * programs are searched in PATH, later. Main thread.
 */
#ifndef PCHRUN_CONFIG_COMMAND_H
#define PCHRUN_CONFIG_COMMAND_H

#include "json/json.h"

/* Each sets *args, which must be NULL before. `folder` is the file's, absolute. Call
 * command_clear() even after a failure. */
MUST_CHECK bool command_from_text(const char *text, const char *folder, char ***args,
                                  struct err *err); /* no arguments */
MUST_CHECK bool command_from_json(const struct json *json, const char *folder, char ***args,
                                  struct err *err);
/* Appends one argument. Takes `copy`, which is from malloc(). */
MUST_CHECK bool command_add(char ***args, char *copy, struct err *err);
/* How many texts a list has; 0 for NULL. */
size_t command_count(char *const *args);
/* Frees any list of texts and sets it to NULL. */
void command_clear(char ***args);

#endif
