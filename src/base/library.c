/* SPDX-License-Identifier: Apache-2.0
 * See library.h.
 */
#include "base/library.h"

#include "base/str.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool library_advise(const struct library *library, struct err *err)
{
    const char *path = getenv("LD_LIBRARY_PATH");
    char text[sizeof err->text];
    str_copy(text, sizeof text, err->text);
    return err_set(err, ERR_SYSTEM, 0, "%s: %.250s; install it (Debian: apt-get install %s)%s",
                   library->need, text, library->package,
                   path && path[0] ? ", or unset LD_LIBRARY_PATH" : "");
}

/* `rest` is a path from the folder of this program. */
static bool find_beside(const char *rest, char *ret, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", ret, size - 1);
    ret[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(ret, '/');
    return slash && str_copy(slash + 1, size - (size_t)(slash + 1 - ret), rest);
}

/* The library folder of the Python that made the virtual environment with this program. */
static bool find_home(char *ret, size_t size)
{
    char line[PATH_MAX];
    bool is_found = false;
    FILE *file = find_beside("../pyvenv.cfg", line, sizeof line) ? fopen(line, "re") : NULL;
    while (file && !is_found && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        is_found = str_starts(line, "home = ") && str_copy(ret, size, line + strlen("home = "));
    }
    if (file)
        fclose(file);
    return is_found && str_addf(ret, size, "/../lib/");
}

static void *library_open_in(const struct library *library, const char *folder, struct err *err)
{
    char path[PATH_MAX];
    void *handle = NULL;
    for (size_t i = 0; !handle && i < ARRAY_LEN(library->files) && library->files[i]; i++) {
        str_copy(path, sizeof path, folder);
        str_addf(path, sizeof path, "%s", library->files[i]);
        handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (!handle && err->code == ERR_NONE)
            err_set(err, ERR_SYSTEM, 0, "%s", dlerror());
    }
    return handle;
}

/* Searches the system first. A Conda environment, or the Conda Python of a virtual environment, has
 * libraries of its own. */
static void *library_open(const struct library *library, struct err *err)
{
    char folder[PATH_MAX];
    err->code = ERR_NONE;
    void *handle = library_open_in(library, "", err);
    if (!handle && find_beside("../lib/", folder, sizeof folder))
        handle = library_open_in(library, folder, err);
    if (!handle && find_home(folder, sizeof folder))
        handle = library_open_in(library, folder, err);
    return handle;
}

/* dlsym() also searches the libraries on which this library depends. */
static bool set_pointers(const struct library *library, void *handle, struct err *err)
{
    for (size_t i = 0; i < library->n; i++) {
        library->pointers[i] = dlsym(handle, library->names[i]);
        if (!library->pointers[i])
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
