/* SPDX-License-Identifier: Apache-2.0
 *
 * shim_alloc: ends a forked child with 98 when it allocates before its exec: the lock of malloc may
 * be held by a thread that the child does not have.
 */
#include "shim.h"

#include <sys/types.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);

static pid_t launcher; /* 0: not this program, or no child yet */

static void check(void)
{
    static const char text[] = "shim_alloc: malloc between fork and exec\n";
    if (launcher == 0 || getpid() == launcher)
        return;
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0)
        _exit(97);
    _exit(98);
}

static void begin(void)
{
    if (launcher == 0 && shim_is_on())
        launcher = getpid();
}

SHIM_API pid_t fork(void)
{
    begin();
    return SHIM_NEXT(fork)();
}

SHIM_API void *malloc(size_t size)
{
    check();
    return __libc_malloc(size);
}

SHIM_API void *calloc(size_t count, size_t size)
{
    check();
    return __libc_calloc(count, size);
}

SHIM_API void *realloc(void *block, size_t size)
{
    check();
    return __libc_realloc(block, size);
}
