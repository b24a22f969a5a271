/* SPDX-License-Identifier: Apache-2.0
 *
 * library: a shared library that is loaded when it is first needed, so that a machine without it
 * runs all that does not need it. Once loaded it stays. Main thread.
 *
 * Its user has a struct with one pointer for each function in use, and a table that names each
 * function and the pointer to set.
 */
#pragma once

#include "base/err.h"

#include <stddef.h>

struct library_function {
    const char *name;
    void **pointer;
};

struct library {
    const char *need;     /* "a key needs OpenSSL 3" */
    const char *package;  /* the Debian package of the library */
    const char *files[3]; /* tried in this order, up to NULL; an error names the first */
    const struct library_function *functions;
    size_t nfunctions;
    bool (*check)(struct err *err); /* called when all pointers are set; NULL: nothing to check */
    bool is_loaded;
};

/* Loads the library and sets all pointers; once loaded, does nothing. False: the library is missing
 * or not usable; the error says what to install. */
MUST_CHECK bool library_load(struct library *library, struct err *err);
/* The path of the file that has this function. It may be unexpected: dlopen(3) obeys
 * LD_LIBRARY_PATH, where Conda and others put their own libraries. */
const char *library_file(const void *function);
