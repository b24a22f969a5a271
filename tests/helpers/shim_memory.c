/* SPDX-License-Identifier: Apache-2.0
 *
 * shim_memory: there is no memory left: kind "memory" of shim_refuse.h.
 */
#include "shim_refuse.h"

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);

SHIM_API void *malloc(size_t size)
{
    return shim_refuses("memory", ENOMEM) ? NULL : __libc_malloc(size);
}

SHIM_API void *calloc(size_t count, size_t size)
{
    return shim_refuses("memory", ENOMEM) ? NULL : __libc_calloc(count, size);
}

SHIM_API void *realloc(void *block, size_t size)
{
    return shim_refuses("memory", ENOMEM) ? NULL : __libc_realloc(block, size);
}
