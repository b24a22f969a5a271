/* SPDX-License-Identifier: Apache-2.0
 *
 * shim: the common parts of the preloaded shims. They act only in the program named in SHIM_FOR,
 * and in its forks up to their exec. In all other programs they hand every call through. They run
 * in forked children before the exec, so they make only calls that are safe there.
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
