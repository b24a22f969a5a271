/* SPDX-License-Identifier: Apache-2.0
 *
 * curllib: libcurl, loaded before the first request and only then.
 *
 * So pchrun-watch starts without libcurl and can watch a file or Slurm. Builds with OpenSSL and
 * with GnuTLS both work. Once loaded it stays. Only http.c uses this. Main thread.
 */
#ifndef PCHRUN_WATCH_CURLLIB_H
#define PCHRUN_WATCH_CURLLIB_H

#include "base/err.h"

/* libcurl's type checks are macros, which do not work with calls through a table. */
#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>

/* The functions in use. Not curl_version(): through libldap it may look up this machine's name. */
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

/* Filled by curllib_load(), and constant from then on. */
extern struct curllib curllib;

/* Loads once, then does nothing. False: libcurl is missing or too old; the error says what to
 * install. */
MUST_CHECK bool curllib_load(struct err *err);

#endif
