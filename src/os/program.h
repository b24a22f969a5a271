/* SPDX-License-Identifier: Apache-2.0
 *
 * program: finds a program that runs later, while an error can still reach the user. Reads the file
 * system, so it may block.
 */
#pragma once

#include "base/err.h"

#include <stddef.h>

/* The system's default PATH. */
#define PROGRAM_PATH "/bin:/usr/bin"

/* Joins the first directory of `path`, as PATH, and the name; an empty entry is the current
 * directory. *ret is "" if it does not fit. Returns the rest of the path; NULL: no more. */
const char *program_next(const char *path, const char *name, char *ret, size_t size);

/* Searches a name without a slash in `path` (as PATH; NULL: the system's default), like a shell.
 * False: *err names the file or the searched directories. */
MUST_CHECK bool program_find(const char *name, const char *path, char *ret, size_t size,
                             struct err *err);
/* By its name. */
bool program_is_python(const char *name);
/* The end of the error for a name without a slash that is in no directory of PATH. A user of
 * torchrun types a script in place of a command; if it is a file here, the text says what to write.
 */
const char *program_advice(const char *name);
/* A copy of `args` with the path of its program, found in the same way. The array and its first
 * entry are new; the other entries belong to `args`. NULL: see *err. Free with program_args_free().
 */
MUST_CHECK char **program_args(char *const *args, const char *path, struct err *err);
/* `args` may be NULL. */
void program_args_free(char **args);
/* Finds a program in our executable's folder. It must belong to our executable's owner or to root.
 * False: it is not there. */
bool program_beside(const char *name, char *ret, size_t size);
/* Finds the first of `places` that is a readable file of our executable's owner or of root. Each is
 * absolute, or relative to our executable's folder; there is at least one, then NULL. False: none;
 * *ret is the first place, or "". */
bool program_file_near(const char *const *places, char *ret, size_t size);
