/* SPDX-License-Identifier: Apache-2.0
 * See procscratch.h.
 */
#include "procs/procscratch.h"

#include "base/clock.h"
#include "base/str.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/random.h>
#include <unistd.h>

static void name_epoch(struct procscratch *s)
{
    snprintf(s->epoch, sizeof s->epoch, "%s%08x-", s->start, s->epochs);
}

static void name_entry(struct procscratch *s, unsigned process)
{
    snprintf(s->entry, sizeof s->entry, "%s%08x", s->epoch, process);
}

/* FNV-1a. */
static uint32_t number_of(const char *text)
{
    uint32_t number = 2166136261U;
    for (; *text; text++)
        number = (number ^ (unsigned char)*text) * 16777619U;
    return number;
}

bool procscratch_init(struct procscratch *s, const char *dir, const char *owner, int node_rank,
                      struct err *err)
{
    uint64_t random;
    *s = (struct procscratch){.epochs = 0};
    if (dir[0] != '/' && !getcwd(s->dir, sizeof s->dir - 1))
        return err_set(err, ERR_SYSTEM, errno, "cannot tell what directory %s is relative to", dir);
    if (!str_addf(s->dir, sizeof s->dir, dir[0] == '/' ? "%s" : "/%s", dir))
        return err_set(err, ERR_USAGE, 0, "the path of the scratch directory is too long: %s", dir);
    if (getrandom(&random, sizeof random, GRND_NONBLOCK) != sizeof random)
        random = (uint64_t)clock_real_ns() ^ (uint64_t)getpid() << 32;
    if (owner)
        snprintf(s->node, sizeof s->node, "pch-scratch-%d.%08" PRIx32 "-", node_rank,
                 number_of(owner));
    else
        snprintf(s->node, sizeof s->node, "pch-scratch-%d-", node_rank);
    snprintf(s->start, sizeof s->start, "%s%016" PRIx64 "-", s->node, random);
    name_epoch(s);
    return true;
}

bool procscratch_path(struct procscratch *s, unsigned process, char *ret, size_t size)
{
    name_entry(s, process);
    return str_copy(ret, size, s->dir) && str_addf(ret, size, "/%s", s->entry);
}

struct scratch_sweep procscratch_of_process(struct procscratch *s, unsigned process)
{
    name_entry(s, process);
    return (struct scratch_sweep){.dir = s->dir, .name = s->entry};
}

struct scratch_sweep procscratch_of_epoch(const struct procscratch *s)
{
    return (struct scratch_sweep){.dir = s->dir, .prefix = s->epoch};
}

struct scratch_sweep procscratch_of_earlier(const struct procscratch *s)
{
    return (struct scratch_sweep){.dir = s->dir, .prefix = s->node, .except = s->start};
}

void procscratch_next_epoch(struct procscratch *s)
{
    s->epochs++;
    name_epoch(s);
}
