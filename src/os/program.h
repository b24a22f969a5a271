/* SPDX-License-Identifier: Apache-2.0
 *
 * program: where a program is that is to be run later, found out while the user can still be told.
 * Reads the file system, and may block as that may.
 */
#ifndef PCHRUN_OS_PROGRAM_H
#define PCHRUN_OS_PROGRAM_H

#include "base/err.h"

#include <stddef.h>

/* A name without a slash is looked for in the directories of `path` (as PATH; NULL: the system's
 * own), as a shell does. False: *err says which file it is, or where was looked. */
MUST_CHECK bool program_find(const char *name, const char *path, char *ret, size_t size,
                             struct err *err);
/* A command with its program found so: a new array that ends with NULL, of which the first, the
 * path, is new, too; the others are `args`'s. NULL: *err. The caller ends it with
 * program_args_free(). */
MUST_CHECK char **program_args(char *const *args, const char *path, struct err *err);
/* `args` may be NULL. */
void program_args_free(char **args);
/* The first of `places` (one at least: paths from the folder of our own executable, or absolute; up
 * to NULL) where there is a program that belongs to our executable's owner or to root. False: there
 * is none; *ret is then the first place, "" if it is not known. */
bool program_near(const char *const *places, char *ret, size_t size);
/* The same of a file that is to be read. */
bool program_file_near(const char *const *places, char *ret, size_t size);

#endif
