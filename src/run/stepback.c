/* SPDX-License-Identifier: Apache-2.0
 * See stepback.h.
 */
#include "run/stepback.h"

#include "base/log.h"
#include "base/str.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A larger job is not kept waiting while the files of all its nodes are read. */
#define NODES_MAX 64

enum state { ABSENT, THERE, UNKNOWN };

/* "ckpt-2.index" is a part of "ckpt-2", a checkpoint that is named by the prefix of its files;
 * "ckpt-20.index" is none. */
static bool has_prefix_file(const char *folder, const char *prefix)
{
    size_t len = strlen(prefix);
    bool is_there = false;
    DIR *stream = opendir(folder);
    if (!stream)
        return errno != ENOENT && errno != ENOTDIR; /* cannot be told: not called missing */
    for (struct dirent *entry; !is_there && (entry = readdir(stream));)
        is_there = str_starts(entry->d_name, prefix) && !isalnum((unsigned char)entry->d_name[len]);
    closedir(stream);
    return is_there;
}

static enum state look_at(const char *path, const char *within)
{
    char folder[PATH_MAX];
    size_t len = strlen(within);
    const char *name = strrchr(path, '/');
    if (!str_starts(path, within) || path[len] != '/' || !name || !name[1] ||
        !str_copy(folder, sizeof folder, path))
        return UNKNOWN;
    if (access(path, F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR))
        return THERE;
    folder[name - path] = '\0';
    return has_prefix_file(folder, name + 1) ? THERE : ABSENT;
}

/* Are the checkpoints of this step there? *ret_missing is the first path that is missing, "": none.
 */
static enum state look_at_step(const struct saves_step *step, const char *within,
                               char ret_missing[PATH_MAX])
{
    enum state all = UNKNOWN;
    for (int i = 0; step && i < step->nranks; i++) {
        enum state one = step->ranks[i].path ? look_at(step->ranks[i].path, within) : UNKNOWN;
        if (one == ABSENT) {
            str_fit(ret_missing, PATH_MAX, step->ranks[i].path);
            return ABSENT;
        }
        all = one == THERE ? THERE : all;
    }
    return all;
}

static enum state look_at_commit(const struct saves *nodes, int n, uint64_t step,
                                 const char *within, char ret_missing[PATH_MAX])
{
    enum state all = UNKNOWN;
    for (int i = 0; i < n && all != ABSENT; i++) {
        enum state one = look_at_step(saves_find(&nodes[i], step), within, ret_missing);
        all = one == UNKNOWN ? all : one;
    }
    return all;
}

static int read_nodes(const struct history *history, const struct config *config, const char *dir,
                      struct saves nodes[NODES_MAX])
{
    char path[PATH_MAX];
    struct err err;
    bool reads_all = config->checkpoint.shared && config->cluster.nnodes <= NODES_MAX;
    int n = reads_all ? config->cluster.nnodes : 1;
    for (int i = 0; i < n; i++) {
        nodes[i] = (struct saves){0};
        path[0] = '\0';
        if (str_addf(path, sizeof path, "%s/ranks.%d.json", dir, i) &&
            !history_read_ranks(history, path, &nodes[i], &err))
            log_debug("record", "%s", err.text); /* who needs the file says it aloud */
    }
    return n;
}

static void choose(struct history *history, const struct saves *nodes, int n, const char *within)
{
    char missing[PATH_MAX] = "", other[PATH_MAX];
    uint64_t newest = history_last_step(history);
    if (look_at_commit(nodes, n, newest, within, missing) != ABSENT)
        return;
    int left = history->ncommits - 1;
    while (left > 0 &&
           look_at_commit(nodes, n, history->commits[left - 1].step, within, other) != THERE)
        left--;
    if (left == 0) /* perhaps they are no files: the program knows */
        return;
    history->ncommits = left;
    log_warn("record",
             "step %" PRIu64 " is committed, but %s is not there any more: the job resumes at step "
             "%" PRIu64 ", the newest commit that every rank has",
             newest, missing, history_last_step(history));
}

void stepback(struct history *history, const struct config *config, const char *dir)
{
    static struct saves nodes[NODES_MAX];
    char within[PATH_MAX];
    const char *folder = config->checkpoint.dir;
    if (!folder || config->cluster.node_rank != 0 || history->ncommits == 0 ||
        !str_starts(dir, folder) || !realpath(folder, within))
        return;
    int n = read_nodes(history, config, dir, nodes);
    choose(history, nodes, n, within);
    for (int i = 0; i < n; i++)
        saves_free(&nodes[i]);
}
