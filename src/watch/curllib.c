/* SPDX-License-Identifier: Apache-2.0
 * See curllib.h. dlopen(3) obeys LD_LIBRARY_PATH, so the log names the loaded file.
 */
#include "watch/curllib.h"

#include "base/log.h"
#include "base/str.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>

static struct curllib the_library;
static bool is_loaded;

static const struct {
    const char *name;
    size_t offset;
} functions[] = {
#define CURLLIB_ROW(name) {#name, offsetof(struct curllib, name)},
    CURLLIB_FUNCTIONS(CURLLIB_ROW)
#undef CURLLIB_ROW
};

static bool curllib_advise(struct err *err)
{
    const char *path = getenv("LD_LIBRARY_PATH");
    char text[sizeof err->text];
    str_copy(text, sizeof text, err->text);
    return err_set(err, ERR_SYSTEM, 0,
                   "to ask a service needs libcurl, from 7.66: %.250s; install it (Debian: apt-get "
                   "install libcurl4)%s",
                   text, path && path[0] ? ", or unset LD_LIBRARY_PATH" : "");
}

/* Tries the usual name, then Debian's GnuTLS build, which git depends on. The error is that of the
 * first. */
static void *open_any(struct err *err)
{
    void *library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
    if (library)
        return library;
    (void)err_set(err, ERR_SYSTEM, 0, "%s", dlerror());
    return dlopen("libcurl-gnutls.so.4", RTLD_NOW | RTLD_LOCAL);
}

static bool curllib_fill(void *library, struct curllib *lib, struct err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(functions); i++) {
        void *function = dlsym(library, functions[i].name);
        if (!function)
            return err_set(err, ERR_SYSTEM, 0, "%s", dlerror());
        *(void **)((char *)lib + functions[i].offset) = function;
    }
    return true;
}

static bool curllib_open(struct curllib *lib, struct err *err)
{
    Dl_info info;
    void *library = open_any(err);
    if (!library)
        return false;
    if (!curllib_fill(library, lib, err)) {
        dlclose(library);
        return false;
    }
    bool is_known = dladdr((void *)lib->curl_easy_init, &info) && info.dli_fname;
    log_debug("http", "libcurl is %s", is_known ? info.dli_fname : "an unknown file");
    return true;
}

const struct curllib *curllib_load(struct err *err)
{
    if (!is_loaded && !curllib_open(&the_library, err)) {
        (void)curllib_advise(err);
        return NULL;
    }
    is_loaded = true;
    return &the_library;
}
