/* SPDX-License-Identifier: Apache-2.0
 *
 * curllib: libcurl, loaded when a service is to be asked and never before.
 *
 * A file and Slurm are watched without it, and pchrun-watch starts where it is not installed. Whose
 * build of it is there does not matter: that which uses GnuTLS does as well. Once loaded it stays.
 * http.c alone uses this. Main thread.
 */
#ifndef PCHRUN_WATCH_CURLLIB_H
#define PCHRUN_WATCH_CURLLIB_H

#include "base/err.h"

/* Its checks of types are macros, which would stand in the way of functions that are called through
 * a table. */
#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>

/* What is used of it. Not curl_version(): it may look up this machine's name, for libldap. */
#define CURLLIB_FUNCTIONS(F)    \
    F(curl_global_init)         \
    F(curl_global_cleanup)      \
    F(curl_slist_append)        \
    F(curl_slist_free_all)      \
    F(curl_easy_init)           \
    F(curl_easy_cleanup)        \
    F(curl_easy_setopt)         \
    F(curl_easy_getinfo)        \
    F(curl_easy_strerror)       \
    F(curl_multi_init)          \
    F(curl_multi_cleanup)       \
    F(curl_multi_add_handle)    \
    F(curl_multi_remove_handle) \
    F(curl_multi_info_read)     \
    F(curl_multi_perform)       \
    F(curl_multi_poll)

struct curllib {
/* A field cannot stand in parentheses. NOLINTNEXTLINE(bugprone-macro-parentheses) */
#define CURLLIB_FIELD(name) __typeof__(&name) name;
    CURLLIB_FUNCTIONS(CURLLIB_FIELD)
#undef CURLLIB_FIELD
};

/* The same each time. NULL: it is not there, or is too old; the error says what to install. */
MUST_CHECK const struct curllib *curllib_load(struct err *err);

#endif
