/* SPDX-License-Identifier: Apache-2.0
 * See stepback.h.
 */
#include "record/stepback.h"

#include "base/ckptfile.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "os/helper.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOOK_WAIT_NS (10 * NS_PER_S)

/* The child's answer. */
struct seen {
    int left;        /* how many commits are kept */
    bool is_outside; /* `missing` lies outside of checkpoint.dir */
    char missing[PATH_MAX];
};

struct search {
    const struct history *history;
    const struct config *config;
    const char *dir;      /* the state directory */
    struct stat within;   /* checkpoint.dir; all zero: none is set */
    bool sees_all;        /* else only the paths of this node's ranks */
    uint64_t step;        /* the commit that is checked now */
    uint32_t whole;       /* its history_commit.whole */
    enum ckptfile commit; /* what is known of this commit so far */
    struct seen seen;
};

/* --- in the child --- */

/* True if the path is this folder or below it, links followed. Its last parts may be missing. */
static bool stepback_is_within(const char *path, const struct stat *within)
{
    struct stat st;
    char folder[PATH_MAX];
    if (path[0] != '/' || !str_copy(folder, sizeof folder, path))
        return false;
    for (char *end = folder + strlen(folder); end; end = strrchr(folder, '/')) {
        *end = '\0';
        if (stat(folder[0] ? folder : "/", &st) == 0 && st.st_ino == within->st_ino &&
            st.st_dev == within->st_dev)
            return true;
    }
    return false;
}

/* Node 0 has its own paths wherever they lie: libpch saw each of them when it was reported. */
static enum ckptfile stepback_look_at(struct search *search, int node, const char *path)
{
    bool is_within = path && stepback_is_within(path, &search->within);
    bool looks = is_within || (path && path[0] == '/' && node == 0);
    enum ckptfile found = looks ? ckptfile_look(path) : CKPTFILE_UNKNOWN;
    if (found == CKPTFILE_ABSENT && !search->seen.missing[0]) {
        search->seen.is_outside = !is_within;
        str_copy(search->seen.missing, PATH_MAX, path);
    }
    return found;
}

/* One missing path makes a commit incomplete. A path that was not named, is no file name, lies on
 * another node's disk, or cannot be read proves nothing. */
static bool look_at_node(void *ctx, int node, const char *file)
{
    struct search *search = ctx;
    struct saves saves = {0};
    struct err err;
    bool is_read =
        (node == 0 || search->sees_all) && history_read_ranks(search->history, file, &saves, &err);
    const struct saves_step *step = is_read ? saves_find(&saves, search->step) : NULL;
    for (int i = 0; step && i < step->nranks && search->commit != CKPTFILE_ABSENT; i++) {
        bool matters = !search->whole || step->ranks[i].rank == (int)search->whole - 1;
        if (!matters)
            continue;
        enum ckptfile one = stepback_look_at(search, node, step->ranks[i].path);
        search->commit = one == CKPTFILE_UNKNOWN ? search->commit : one;
    }
    saves_free(&saves);
    return search->commit != CKPTFILE_ABSENT;
}

/* Reads the files of all nodes in the record: the job may have had more nodes when it saved. */
static enum ckptfile look_at_commit(struct search *search, int commit)
{
    search->step = search->history->commits[commit].step;
    search->whole = search->history->commits[commit].whole;
    search->commit = CKPTFILE_UNKNOWN;
    history_each_ranks(search->dir, look_at_node, search);
    return search->commit;
}

/* The newest commit counts unless a path is missing. An older commit counts only if one of its
 * paths exists. If no path of any commit exists, the paths may not be file names; then all stay. */
static void find_whole(struct search *search)
{
    int left = search->history->ncommits;
    const char *dir = search->config->checkpoint.dir;
    if (dir && stat(dir, &search->within) != 0)
        return;
    search->sees_all = dir && search->config->checkpoint.shared &&
                       stepback_is_within(search->dir, &search->within);
    if (look_at_commit(search, left - 1) != CKPTFILE_ABSENT)
        return;
    do
        left--;
    while (left > 0 && look_at_commit(search, left - 1) != CKPTFILE_THERE);
    if (left > 0)
        search->seen.left = left;
}

static void stepback_look(const void *arg, int answer)
{
    struct search search = *(const struct search *)arg;
    search.seen.left = search.history->ncommits;
    find_whole(&search);
    if (!fd_write_all(answer, &search.seen, sizeof search.seen))
        _exit(1);
}

/* --- in the parent --- */

/* Drops the newer commits for good, before anything starts. A rank that trains again from the older
 * commit may overwrite its part of a newer one. If the missing part came back, a later start would
 * mix two trainings. */
static void drop_newer(struct history *history, const struct seen *seen)
{
    uint64_t newest = history_last_step(history);
    history->ncommits = seen->left;
    log_warn("record",
             "step %" PRIu64 " is committed, but %s is missing: the job resumes at step "
             "%" PRIu64 ", the newest commit that every rank has, and forgets those after it",
             newest, seen->missing, history_last_step(history));
}

/* The ranks will most likely fail, and say no more than that a file is missing. */
static void tell_missing(const struct history *history, const char *dir, const struct seen *seen)
{
    bool tells_dir = seen->is_outside && dir;
    log_warn("record",
             "step %" PRIu64 " is committed, but %s is missing%s%s, and no older commit is whole; "
             "put it back, or, to start from scratch, move the state directory away",
             history_last_step(history), seen->missing,
             tells_dir ? ", which is not below checkpoint.dir, " : "", tells_dir ? dir : "");
}

void stepback(struct history *history, const struct config *config, const char *dir,
              struct reap *reap)
{
    struct search search = {.history = history, .config = config, .dir = dir};
    struct helper child = {.reap = reap};
    int64_t until = clock_now_ns() + LOOK_WAIT_NS;
    struct seen seen;
    struct err err;
    if (config->cluster.node_rank != 0 || history->ncommits == 0)
        return;
    bool is_told = helper_ask(&child, stepback_look, &search, &err) &&
                   helper_read(&child, -1, until, &seen, sizeof seen) == HELPER_ANSWER;
    helper_end(&child, true, until);
    if (!is_told)
        log_warn("record",
                 "cannot tell whether the checkpoint of step %" PRIu64 " is still there (is its "
                 "file system reachable?); the job resumes at that step",
                 history_last_step(history));
    else if (seen.left < history->ncommits)
        drop_newer(history, &seen);
    else if (seen.missing[0])
        tell_missing(history, config->checkpoint.dir, &seen);
}
