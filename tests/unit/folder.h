/* SPDX-License-Identifier: Apache-2.0
 *
 * folder: a folder of a test's own below /tmp, with the files that the test puts there. It is for
 * the .init and .fini of a suite, and goes with all that is in it.
 */
#pragma once

#include "unit.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static char folder[64];

static inline void folder_make(void)
{
    strcpy(folder, "/tmp/unit_[folder].XXXXXX"); /* no program may take [folder] for a pattern */
    cr_assert_not_null(mkdtemp(folder));
}

static inline void folder_enter(void)
{
    folder_make();
    cr_assert_eq(chdir(folder), 0);
}

static inline int folder_remove_one(const char *path, const struct stat *st, int type,
                                    struct FTW *at)
{
    return remove(path);
}

static inline void folder_remove(void)
{
    cr_assert(chdir("/") == 0 && nftw(folder, folder_remove_one, 8, FTW_DEPTH | FTW_PHYS) == 0);
}

/* The path of a name in the folder; it lives until the next call. */
static inline const char *folder_path(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* Writes a file in the folder, and makes the folders above it. */
static inline void folder_put(const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    for (char *slash = path + strlen(folder) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
    FILE *file = fopen(path, "we");
    cr_assert(file && fputs(text, file) >= 0 && fclose(file) == 0, "%s: %s", path, strerror(errno));
}
