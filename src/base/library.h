/* SPDX-License-Identifier: Apache-2.0
 *
 * library: a shared library that is loaded at its first use, so that this program also runs on a
 * machine without the library. The system's library is used, or that of the Python environment with
 * this program. A loaded library stays. Main thread.
 *
 * A module that uses a library lists the functions in a macro. From the list follow the table of
 * names and a struct with a pointer for each function.
 */
#pragma once

#include "base/err.h"

#include <stddef.h>

#define LIBRARY_NAME(name) #name,
/* A field cannot stand in parentheses. NOLINTNEXTLINE(bugprone-macro-parentheses) */
#define LIBRARY_POINTER(name) __typeof__(&name) name;

struct library {
    const char *need;     /* "a key needs OpenSSL 3 or 1.1.1" */
    const char *package;  /* the Debian package of the library */
    const char *files[3]; /* tried in this order, up to NULL; an error names the first */
    const char *const *names;
    void **pointers; /* the struct, seen as a list; both have n entries */
    size_t n;
    bool (*check)(struct err *err); /* called when all pointers are set; NULL: nothing to check */
    bool is_loaded;
};

/* Loads the library and sets all pointers; once loaded, does nothing. False: the library is missing
 * or not usable; the error says what to install. */
MUST_CHECK bool library_load(struct library *library, struct err *err);
/* The path of the file that has this function. It may be unexpected: dlopen(3) obeys
 * LD_LIBRARY_PATH, where Conda and others put their own libraries. */
const char *library_file(const void *function);
