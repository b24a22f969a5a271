/* SPDX-License-Identifier: Apache-2.0
 * See curllib.h. The log names the loaded file.
 */
#include "watch/curllib.h"

#include "base/library.h"
#include "base/log.h"
#include "base/str.h"

struct curllib curllib;

static bool curllib_log(struct err *err)
{
    log_debug("http", "libcurl is %s", library_file((void *)curllib.curl_easy_init));
    return true;
}

bool curllib_load(struct err *err)
{
    static const struct library_function functions[] = {
#define CURLLIB_ROW(name) {#name, (void **)&curllib.name},
        CURLLIB_FUNCTIONS(CURLLIB_ROW)
#undef CURLLIB_ROW
    };
    /* The second is Debian's build with GnuTLS, which git depends on. */
    static struct library libcurl = {
        .need = "to ask a service needs libcurl, from 7.66",
        .package = "libcurl4",
        .files = {"libcurl.so.4", "libcurl-gnutls.so.4"},
        .functions = functions,
        .nfunctions = ARRAY_LEN(functions),
        .check = curllib_log,
    };
    return library_load(&libcurl, err);
}
