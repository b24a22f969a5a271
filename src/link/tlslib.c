/* SPDX-License-Identifier: Apache-2.0
 * See tlslib.h. dlopen(3) obeys LD_LIBRARY_PATH, where Conda and others put libraries of their own:
 * which file was taken is checked by its version, and told to the log.
 */
#include "link/tlslib.h"

#include "base/log.h"
#include "base/str.h"

#include <dlfcn.h>
#include <stdlib.h>

#define LIBRARY "libssl.so.3"

enum { MAJOR = 3 };

static struct tlslib the_library;
static bool is_loaded;

static const struct {
    const char *name;
    size_t offset;
} functions[] = {
#define TLSLIB_ROW(name) {#name, offsetof(struct tlslib, name)},
    TLSLIB_FUNCTIONS(TLSLIB_ROW)
#undef TLSLIB_ROW
};

/* Which file does this function come from? */
static const char *file_of(void *function)
{
    Dl_info info;
    return dladdr(function, &info) && info.dli_fname ? info.dli_fname : "an unknown file";
}

static bool advise(struct err *err)
{
    const char *path = getenv("LD_LIBRARY_PATH");
    char text[sizeof err->text];
    str_copy(text, sizeof text, err->text);
    return err_set(err, ERR_SYSTEM, 0,
                   "a key (cluster.key_file) needs OpenSSL 3: %.250s; install it (Debian: apt-get "
                   "install libssl3)%s",
                   text, path && path[0] ? ", or unset LD_LIBRARY_PATH" : "");
}

/* The library finds the functions of libcrypto, too, on which it depends. */
static bool fill(void *library, struct tlslib *lib, struct err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(functions); i++) {
        void *function = dlsym(library, functions[i].name);
        if (!function)
            return err_set(err, ERR_SYSTEM, 0, "%s", dlerror());
        *(void **)((char *)lib + functions[i].offset) = function;
    }
    return true;
}

static bool check_version(const struct tlslib *lib, struct err *err)
{
    if (lib->OpenSSL_version_num() >> 28 == MAJOR)
        return true;
    return err_set(err, ERR_SYSTEM, 0, "%.150s is %.60s", file_of((void *)lib->OpenSSL_version_num),
                   lib->OpenSSL_version(OPENSSL_VERSION));
}

/* Without openssl.cnf, which may demand other protocols or load modules, and without an exit
 * handler, which a forked child would run, too. */
static bool init(const struct tlslib *lib, struct err *err)
{
    if (lib->OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, NULL) == 1)
        return true;
    return err_set(err, ERR_SYSTEM, 0, "it cannot be initialised");
}

static bool load(struct tlslib *lib, struct err *err)
{
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return err_set(err, ERR_SYSTEM, 0, "%s", dlerror());
    if (!fill(library, lib, err) || !check_version(lib, err) || !init(lib, err)) {
        dlclose(library);
        return false;
    }
    log_debug("tls", "%s, in %s and %s", lib->OpenSSL_version(OPENSSL_VERSION),
              file_of((void *)lib->SSL_new), file_of((void *)lib->HMAC));
    return true;
}

const struct tlslib *tlslib_load(struct err *err)
{
    if (!is_loaded && !load(&the_library, err)) {
        advise(err);
        return NULL;
    }
    is_loaded = true;
    return &the_library;
}

const struct tlslib *tlslib_loaded(void)
{
    return &the_library;
}
