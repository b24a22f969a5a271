/* SPDX-License-Identifier: Apache-2.0
 * See library.h.
 */
#include "base/library.h"

#include "base/str.h"

#include <dlfcn.h>
#include <stdlib.h>

static bool library_advise(const struct library *library, struct err *err)
{
    const char *path = getenv("LD_LIBRARY_PATH");
    char text[sizeof err->text];
    str_copy(text, sizeof text, err->text);
    return err_set(err, ERR_SYSTEM, 0, "%s: %.250s; install it (Debian: apt-get install %s)%s",
                   library->need, text, library->package,
                   path && path[0] ? ", or unset LD_LIBRARY_PATH" : "");
}

static void *library_open(const struct library *library, struct err *err)
{
    void *handle = NULL;
    for (size_t i = 0; !handle && i < ARRAY_LEN(library->files) && library->files[i]; i++) {
        handle = dlopen(library->files[i], RTLD_NOW | RTLD_LOCAL);
        if (!handle && i == 0)
            err_set(err, ERR_SYSTEM, 0, "%s", dlerror());
    }
    return handle;
}

/* dlsym() also searches the libraries that this one depends on. */
static bool set_pointers(const struct library *library, void *handle, struct err *err)
{
    for (size_t i = 0; i < library->nfunctions; i++) {
        *library->functions[i].pointer = dlsym(handle, library->functions[i].name);
        if (!*library->functions[i].pointer)
            return err_set(err, ERR_SYSTEM, 0, "%s", dlerror());
    }
    return true;
}

bool library_load(struct library *library, struct err *err)
{
    void *handle = library->is_loaded ? NULL : library_open(library, err);
    if (handle)
        library->is_loaded =
            set_pointers(library, handle, err) && (!library->check || library->check(err));
    if (handle && !library->is_loaded)
        dlclose(handle);
    return library->is_loaded || library_advise(library, err);
}

const char *library_file(const void *function)
{
    Dl_info info;
    return dladdr(function, &info) && info.dli_fname ? info.dli_fname : "an unknown file";
}
