/* SPDX-License-Identifier: Apache-2.0
 * See tlslib.h. dlopen(3) obeys LD_LIBRARY_PATH, and Conda and others put their own libraries
 * there. So the version of the loaded file is checked, and the log names the file.
 */
#include "net/tlslib.h"

#include "base/log.h"
#include "base/str.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

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

/* dlsym() also searches libcrypto, because libssl depends on it. */
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

/* Without openssl.cnf: it may demand other protocols or load modules. Without an exit handler: a
 * forked child would run it, too. */
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

/* ---- giving memory back ---- */

static bool holds(const struct dl_phdr_info *object, const void *address)
{
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        uintptr_t at = (uintptr_t)address - object->dlpi_addr - part->p_vaddr;
        if (part->p_type == PT_LOAD && at < part->p_memsz)
            return true;
    }
    return false;
}

/* Has the linker changed read-only pages? Then they differ from the file and must stay. */
static bool has_changed_text(const struct dl_phdr_info *object)
{
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        if (part->p_type != PT_DYNAMIC)
            continue;
        const ElfW(Dyn) *row = (const void *)(object->dlpi_addr + part->p_vaddr);
        for (; row->d_tag != DT_NULL; row++)
            if (row->d_tag == DT_TEXTREL ||
                (row->d_tag == DT_FLAGS && (row->d_un.d_val & DF_TEXTREL)))
                return true;
    }
    return false;
}

/* Skips writable segments: they hold addresses from the linker. A locked segment (mlockall(2))
 * stays. */
static int let_go_of(struct dl_phdr_info *object, size_t size, void *arg)
{
    const struct tlslib *lib = arg;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    bool is_ours = holds(object, (void *)lib->SSL_new) || holds(object, (void *)lib->HMAC);
    if (!is_ours || has_changed_text(object))
        return 0;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || (part->p_flags & PF_W))
            continue;
        uintptr_t from = (object->dlpi_addr + part->p_vaddr) & ~(page - 1);
        uintptr_t to = object->dlpi_addr + part->p_vaddr + part->p_filesz;
        (void)madvise((void *)from, to - from, MADV_DONTNEED);
    }
    return 0;
}

void tlslib_let_go(const struct tlslib *lib)
{
    dl_iterate_phdr(let_go_of, (void *)lib);
}

const struct tlslib *tlslib_loaded(void)
{
    return &the_library;
}
