/* SPDX-License-Identifier: Apache-2.0
 *
 * command: a program of the user's and its arguments, as a list of texts that ends with NULL. A
 * program with a slash in its name is relative to the file's folder and becomes absolute; another
 * one is looked for in PATH, later. Main thread.
 */
#ifndef PCHRUN_CONFIG_COMMAND_H
#define PCHRUN_CONFIG_COMMAND_H

#include "config/place.h"

/* Each sets *args, which is NULL before; on failure too it may own something: command_clear(). */
MUST_CHECK bool command_from_text(const char *text, const char *folder, char ***args,
                                  struct err *err); /* no arguments */
MUST_CHECK bool command_from_json(const struct json *json, struct place *place, char ***args,
                                  struct err *err);
/* Puts one more behind those that are there, of which there may be none; takes `copy`, the result
 * of strdup() or its like. */
MUST_CHECK bool command_add(char ***args, char *copy, struct err *err);
/* Of any list of texts: frees it, and sets it to NULL. */
void command_clear(char ***args);

#endif
