/* SPDX-License-Identifier: Apache-2.0
 * See scratch.h. Read first: fts(3).
 */
#include "procs/scratch.h"

#include "base/clock.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <fts.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- names --- */

static void name_epoch(struct scratch *s)
{
    snprintf(s->epoch, sizeof s->epoch, "%s%08x-", s->start, s->epochs);
}

static void name_entry(struct scratch *s, unsigned process)
{
    snprintf(s->entry, sizeof s->entry, "%s%08x", s->epoch, process);
}

bool scratch_init(struct scratch *s, const char *dir, const char *owner, int node_rank,
                  struct err *err)
{
    uint64_t random;
    *s = (struct scratch){.epochs = 0};
    if (dir[0] != '/' && !getcwd(s->dir, sizeof s->dir - 1))
        return err_set(err, ERR_SYSTEM, errno,
                       "cannot find the working directory, to which %s is relative", dir);
    if (!str_addf(s->dir, sizeof s->dir, dir[0] == '/' ? "%s" : "/%s", dir))
        return err_set(err, ERR_USAGE, 0, "the path of the scratch directory is too long: %s", dir);
    if (getrandom(&random, sizeof random, GRND_NONBLOCK) != sizeof random)
        random = (uint64_t)clock_real_ns() ^ (uint64_t)getpid() << 32;
    if (owner)
        snprintf(s->node, sizeof s->node, "pch-scratch-%d.%08" PRIx32 "-", node_rank,
                 (uint32_t)str_hash(owner));
    else
        snprintf(s->node, sizeof s->node, "pch-scratch-%d-", node_rank);
    snprintf(s->start, sizeof s->start, "%s%016" PRIx64 "-", s->node, random);
    name_epoch(s);
    return true;
}

bool scratch_path(struct scratch *s, unsigned process, char *ret, size_t size)
{
    name_entry(s, process);
    return str_copy(ret, size, s->dir) && str_addf(ret, size, "/%s", s->entry);
}

struct scratch_sweep scratch_of_process(struct scratch *s, unsigned process)
{
    name_entry(s, process);
    return (struct scratch_sweep){.dir = s->dir, .name = s->entry};
}

struct scratch_sweep scratch_of_epoch(const struct scratch *s)
{
    return (struct scratch_sweep){.dir = s->dir, .prefix = s->epoch};
}

struct scratch_sweep scratch_of_earlier(const struct scratch *s)
{
    return (struct scratch_sweep){.dir = s->dir, .prefix = s->node, .except = s->start};
}

void scratch_next_epoch(struct scratch *s)
{
    s->epochs++;
    name_epoch(s);
}

/* --- removing --- */

/* Removes the entry and all that is in it. */
static void remove_entry(const char *dir, const char *name, dev_t dev)
{
    char path[PATH_MAX] = "";
    char *const paths[] = {path, NULL};
    str_addf(path, sizeof path, "%s/%s", dir, name);
    FTS *tree = fts_open(paths, FTS_PHYSICAL, NULL);
    FTSENT *entry;
    while (tree && (entry = fts_read(tree)))
        if (entry->fts_info != FTS_D)
            remove(entry->fts_accpath);
        else if (entry->fts_dev != dev)
            fts_set(tree, entry, FTS_SKIP);
    if (tree)
        fts_close(tree);
}

static bool is_meant(const struct scratch_sweep *what, const char *name)
{
    if (what->name)
        return str_is(name, what->name);
    return str_starts(name, what->prefix) && !(what->except && str_starts(name, what->except));
}

void scratch_sweep(const struct scratch_sweep *what)
{
    struct stat st;
    DIR *stream = opendir(what->dir);
    if (!stream)
        return;
    struct dirent *entry;
    while (fstat(dirfd(stream), &st) == 0 && (entry = readdir(stream)))
        if (is_meant(what, entry->d_name))
            remove_entry(what->dir, entry->d_name, st.st_dev);
    closedir(stream);
}
