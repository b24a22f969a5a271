/* SPDX-License-Identifier: Apache-2.0
 * See healthdisk.h.
 */
#include "health/healthdisk.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "os/diskprobe.h"

#include <stdio.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define MIB INT64_C(1048576)
/* No checkpoint needs less. */
#define FREE_LEAST (64 * MIB)
#define TIME_MOST  NS_PER_S

/* One slow answer may come from a busy moment. */
enum { TRIES = 3 };

static void find_bad(const char *dir, struct health_answer *ret)
{
    struct statvfs fs;
    struct err err;
    char took[32];
    int64_t ns = 2 * TIME_MOST;
    /* A file system that does not know its size has no blocks. */
    if (statvfs(dir, &fs) == 0 && fs.f_blocks > 0 &&
        (int64_t)(fs.f_bavail * fs.f_frsize) < FREE_LEAST) {
        snprintf(ret->text, sizeof ret->text, "%.150s has %lld MiB free", dir,
                 (long long)((int64_t)(fs.f_bavail * fs.f_frsize) / MIB));
        return;
    }
    for (int i = 0; i < TRIES && ns > TIME_MOST; i++)
        if (!diskprobe(dir, &ns, &err)) {
            str_fit(ret->text, sizeof ret->text, err.text);
            return;
        }
    if (ns > TIME_MOST)
        snprintf(ret->text, sizeof ret->text, "64 KiB in %.150s took %s, %d times in a row", dir,
                 str_duration(ns / NS_PER_MS * NS_PER_MS, took, sizeof took), TRIES);
}

void healthdisk_check(const void *arg, int answer)
{
    struct health_answer found = {.verdict = HEALTH_GOOD};
    find_bad(arg, &found);
    if (found.text[0]) {
        found.verdict = HEALTH_BAD;
        str_copy(found.component, sizeof found.component, "disk");
    }
    if (!fd_write_all(answer, &found, sizeof found))
        _exit(1);
}
