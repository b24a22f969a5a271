/* SPDX-License-Identifier: Apache-2.0
 * See reap.h.
 */
#include "os/reap.h"

#include "base/log.h"
#include "base/sigtext.h"
#include "os/tree.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

enum { HELPERS_MAX = 256, KNOWN_MAX = 1024 };

/* A watch in memory of its own, which reap_release() or reap_end() frees. */
static bool add_own_watch(struct reap *reap, pid_t pid, enum reap_kind kind)
{
    struct reap_watch *watch = calloc(1, sizeof *watch);
    if (!watch)
        return false;
    *watch = (struct reap_watch){.pid = pid, .kind = kind};
    reap_watch(reap, watch);
    return true;
}

void reap_begin(struct reap *reap)
{
    siginfo_t info;
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 && errno == ECHILD)
        return;
    struct tree tree = {0};
    tree_scan(&tree, &(struct tree_job){0});
    for (size_t i = 0; i < tree.n; i++)
        if (tree.entries[i].parent < 0)
            add_own_watch(reap, tree.entries[i].proc.pid, REAP_STRANGER);
    tree_free(&tree);
}

void reap_keep(struct reap *reap, pid_t pid)
{
    reap->kept += add_own_watch(reap, pid, REAP_KEPT);
}

static bool is_own_watch(const struct reap_watch *watch)
{
    return watch->kind == REAP_KEPT || watch->kind == REAP_STRANGER;
}

void reap_end(struct reap *reap)
{
    struct reap_watch *next;
    for (struct reap_watch *watch = reap->first; watch; watch = next) {
        next = watch->next;
        if (is_own_watch(watch))
            free(watch);
    }
    *reap = (struct reap){0};
}

void reap_watch(struct reap *reap, struct reap_watch *watch)
{
    watch->next = reap->first;
    reap->first = watch;
}

static struct reap_watch *reap_find(const struct reap *reap, pid_t pid)
{
    struct reap_watch *watch = reap->first;
    while (watch && watch->pid != pid)
        watch = watch->next;
    return watch;
}

void reap_forget(struct reap *reap, struct reap_watch *watch)
{
    struct reap_watch **at = &reap->first;
    while (*at && *at != watch)
        at = &(*at)->next;
    if (*at)
        *at = watch->next;
    watch->pid = 0;
}

/* Returns the pid; 0: no child has changed. */
static pid_t wait_for(idtype_t which, id_t id, int options, siginfo_t *info)
{
    info->si_pid = 0;
    return waitid(which, id, info, options | WNOHANG) < 0 ? 0 : info->si_pid;
}

static int wait_status(const siginfo_t *info)
{
    switch (info->si_code) {
    case CLD_EXITED:
        return W_EXITCODE(info->si_status, 0);
    case CLD_DUMPED:
        return info->si_status | WCOREFLAG;
    case CLD_STOPPED:
    case CLD_TRAPPED:
        return W_STOPCODE(info->si_status);
    default:
        return info->si_status;
    }
}

static void reap_stops(struct reap *reap)
{
    siginfo_t info;
    pid_t pid;
    while ((pid = wait_for(P_ALL, 0, WSTOPPED, &info)) > 0) {
        struct reap_watch *watch = reap_find(reap, pid);
        if (watch && watch->fn)
            watch->fn(watch->ctx, REAP_STOPPED, wait_status(&info));
    }
}

/* Removes the watch of a reaped process. `fn` NULL: its function was called already. */
static void reap_release(struct reap *reap, struct reap_watch *watch, reap_fn *fn, int status)
{
    bool is_own = is_own_watch(watch);
    reap->kept -= watch->kind == REAP_KEPT;
    reap_forget(reap, watch);
    if (fn)
        fn(watch->ctx, REAP_EXITED, status);
    if (is_own)
        free(watch);
}

/* Calls the function of the watch while the watch still has the pid. A helper's function is called
 * later: returns that function. */
static reap_fn *reap_tell(const struct reap_watch *watch, int status)
{
    if (!watch->fn || watch->kind == REAP_HELPER)
        return watch->fn;
    watch->fn(watch->ctx, REAP_EXITED, status);
    return NULL;
}

static void reap_one(struct reap *reap, pid_t pid, int status)
{
    struct reap_watch *watch = reap_find(reap, pid);
    reap_fn *fn = watch ? reap_tell(watch, status) : NULL;
    siginfo_t info;
    char how[80];
    wait_for(P_PID, (id_t)pid, WEXITED, &info);
    if (watch)
        reap_release(reap, watch, fn, status);
    else
        log_debug("reap", "orphan %d has ended with %s", (int)pid,
                  sigtext_of_status(status, how, sizeof how));
}

/* No child is left, but a watch still waits for one: its end was missed. */
static void give_up_lost(struct reap *reap)
{
    while (reap->first) {
        struct reap_watch *watch = reap->first;
        reap_release(reap, watch, reap_tell(watch, REAP_LOST), REAP_LOST);
    }
}

void reap_all(struct reap *reap)
{
    siginfo_t info;
    pid_t pid;
    reap_stops(reap);
    while ((pid = wait_for(P_ALL, 0, WEXITED | WNOWAIT, &info)) > 0)
        reap_one(reap, pid, wait_status(&info));
    if (reap->first && waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 && errno == ECHILD)
        give_up_lost(reap);
}

bool reap_is_empty(const struct reap *reap)
{
    siginfo_t info;
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 && errno == ECHILD)
        return true;
    pid_t helpers[HELPERS_MAX];
    size_t n = reap_helpers(reap, helpers, HELPERS_MAX);
    return n > 0 && tree_has_only(helpers, n);
}

bool reap_is_last(const struct reap *reap, pid_t pid)
{
    pid_t known[HELPERS_MAX];
    size_t n = reap_helpers(reap, known + 1, HELPERS_MAX - 1);
    known[0] = pid;
    return tree_has_only(known, n + 1);
}

size_t reap_helpers(const struct reap *reap, pid_t *ret, size_t max)
{
    size_t n = 0;
    for (const struct reap_watch *watch = reap->first; watch && n < max; watch = watch->next)
        if (watch->kind != REAP_CHILD)
            ret[n++] = watch->pid;
    return n;
}

/* --- strays --- */

/* One pass over our descendants. False: no stray found. */
static bool kill_round(struct reap *reap, const char *mark)
{
    pid_t known[KNOWN_MAX];
    size_t n = 0;
    for (const struct reap_watch *watch = reap->first; watch && n < KNOWN_MAX; watch = watch->next)
        known[n++] = watch->pid;
    if (tree_has_only(known, n))
        return false;
    struct tree tree = {0};
    bool has_found = false;
    tree_scan(&tree, &(struct tree_job){.helpers = known, .nhelpers = n});
    for (size_t i = 0; i < tree.n; i++) {
        struct tree_entry *entry = &tree.entries[i];
        bool is_ours = entry->parent < 0;
        /* Parents come first. A parent with pid 0 was found to be a stray. */
        bool is_below = !is_ours && tree.entries[entry->parent].proc.pid == 0;
        if (!is_below && (!is_ours || !proc_has_env(entry->proc.pid, mark)))
            continue;
        has_found = true;
        proc_signal(&entry->proc, SIGKILL);
        if (is_ours)
            reap_keep(reap, entry->proc.pid);
        entry->proc.pid = 0;
    }
    tree_free(&tree);
    return has_found;
}

void reap_strays(struct reap *reap, const char *mark)
{
    enum { ROUNDS_MAX = 8 }; /* strays that fork faster are found when the next source ends */
    for (int round = 0; round < ROUNDS_MAX && kill_round(reap, mark); round++)
        ;
}
