/* SPDX-License-Identifier: Apache-2.0
 * See tlslib.h. The version of the loaded file is checked, and the log names the file.
 */
#include "net/tlslib.h"

#include "base/library.h"
#include "base/log.h"
#include "base/str.h"

#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

/* Versions in OpenSSL's own numbering. The next major version may change what a function means. */
enum { OLDEST = 0x10101000, TOO_NEW = 0x40000000 };

struct tlslib tlslib;

/* Ignores openssl.cnf, which may demand other protocols or load modules. Sets no exit handler,
 * because a forked child would run it, too. */
static bool init(struct err *err)
{
    unsigned long version = tlslib.OpenSSL_version_num();
    if (version < OLDEST || version >= TOO_NEW)
        return err_set(err, ERR_SYSTEM, 0, "%.150s is %.60s",
                       library_file((void *)tlslib.OpenSSL_version_num),
                       tlslib.OpenSSL_version(OPENSSL_VERSION));
    if (tlslib.OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, NULL) != 1)
        return err_set(err, ERR_SYSTEM, 0, "it cannot be initialised");
    log_debug("tls", "%s, in %s and %s", tlslib.OpenSSL_version(OPENSSL_VERSION),
              library_file((void *)tlslib.SSL_new), library_file((void *)tlslib.HMAC));
    return true;
}

bool tlslib_load(struct err *err)
{
    static const char *const names[] = {TLSLIB_FUNCTIONS(LIBRARY_NAME)};
    static struct library openssl = {
        .need = "a key (cluster.key_file) needs OpenSSL 3 or 1.1.1",
        .package = "libssl3",
        .files = {"libssl.so.3", "libssl.so.1.1"},
        .names = names,
        .pointers = (void **)&tlslib,
        .n = ARRAY_LEN(names),
        .check = init,
    };
    return library_load(&openssl, err);
}

/* ---- giving memory back ---- */

/* True if the dynamic linker has changed read-only pages, which must then stay in memory. */
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

/* `arg` has the library's files. Skips writable segments: the dynamic linker has written into them.
 * A locked segment (mlockall(2)) stays. */
static int let_go_of(struct dl_phdr_info *object, size_t size, void *arg)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const char *const *files = arg;
    bool is_ours = str_is(object->dlpi_name, files[0]) || str_is(object->dlpi_name, files[1]);
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

void tlslib_let_go(void)
{
    const char *files[] = {library_file((void *)tlslib.SSL_new), library_file((void *)tlslib.HMAC)};
    dl_iterate_phdr(let_go_of, files);
}
