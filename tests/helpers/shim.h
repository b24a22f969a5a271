/* SPDX-License-Identifier: Apache-2.0
 *
 * shim: what the preloaded shims share. They act in one program alone, the one whose name is in
 * SHIM_FOR (and in what it forks, up to its exec); in all others they hand every call through.
 * Called in a forked child before its exec, so only with calls that are safe there.
 */
#pragma once

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SHIM_API __attribute__((visibility("default")))

/* The next definition of `name` behind this shim's. */
#define SHIM_NEXT(name) ((__typeof__(&name))shim_next(#name))

static inline void *shim_next(const char *name)
{
    void *next = dlsym(RTLD_NEXT, name);
    if (!next) {
        static const char text[] = "shim: no such function to hand through\n";
        if (write(STDERR_FILENO, text, sizeof text - 1) < 0)
            _exit(98);
        _exit(99);
    }
    return next;
}

static inline bool shim_is_on(void)
{
    const char *program = getenv("SHIM_FOR");
    return program && strcmp(program, program_invocation_short_name) == 0;
}
