/* SPDX-License-Identifier: Apache-2.0
 * See reap.h.
 */
#include "os/reap.h"

#include "base/fd.h"
#include "base/log.h"
#include "os/tree.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HELPERS_MAX = 256, KNOWN_MAX = 1024 };

void reap_begin(struct reap *reap)
{
    siginfo_t info;
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 && errno == ECHILD)
        return;
    struct tree tree = {0};
    tree_scan(&tree, &(struct tree_job){0});
    reap->strangers = calloc(tree.n, sizeof *reap->strangers);
    for (size_t i = 0, n = 0; reap->strangers && i < tree.n; i++) {
        if (tree.entries[i].parent >= 0)
            continue;
        reap->strangers[n] =
            (struct reap_watch){.pid = tree.entries[i].proc.pid, .kind = REAP_HELPER};
        reap_watch(reap, &reap->strangers[n++]);
    }
    tree_free(&tree);
}

void reap_prepare(struct reap *reap)
{
    int list = tree_open_list();
    if (list > 0)
        reap->children = list;
}

/* A child of reap_keep(). */
struct reap_kept {
    struct reap *reap;
    struct reap_kept *next;
    struct reap_watch watch;
};

static void on_kept(void *ctx, enum reap_what what, int status)
{
    struct reap_kept *kept = ctx, **at = &kept->reap->first_kept;
    if (what != REAP_EXITED)
        return;
    while (*at != kept)
        at = &(*at)->next;
    *at = kept->next;
    kept->reap->kept--;
    free(kept);
}

void reap_keep(struct reap *reap, pid_t pid)
{
    struct reap_kept *kept = calloc(1, sizeof *kept);
    if (!kept)
        return;
    kept->reap = reap;
    kept->next = reap->first_kept;
    kept->watch = (struct reap_watch){.pid = pid, .kind = REAP_HELPER, .fn = on_kept, .ctx = kept};
    reap->first_kept = kept;
    reap->kept++;
    reap_watch(reap, &kept->watch);
}

void reap_end(struct reap *reap)
{
    struct reap_kept *next;
    for (struct reap_kept *kept = reap->first_kept; kept; kept = next) {
        next = kept->next;
        free(kept);
    }
    if (reap->children)
        close(reap->children);
    free(reap->strangers);
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

/* Returns 0 if there is no news. */
static pid_t wait_for(idtype_t which, id_t id, int options, siginfo_t *info)
{
    int rc;
    info->si_pid = 0;
    do
        rc = waitid(which, id, info, options | WNOHANG);
    while (rc < 0 && errno == EINTR);
    return rc < 0 ? 0 : info->si_pid;
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
    case CLD_CONTINUED:
        return 0xffff;
    default:
        return info->si_status;
    }
}

static void reap_stops(struct reap *reap)
{
    siginfo_t info;
    pid_t pid;
    while ((pid = wait_for(P_ALL, 0, WSTOPPED | WCONTINUED, &info)) > 0) {
        struct reap_watch *watch = reap_find(reap, pid);
        if (watch && watch->fn)
            watch->fn(watch->ctx, info.si_code == CLD_CONTINUED ? REAP_CONTINUED : REAP_STOPPED,
                      wait_status(&info));
    }
}

static void reap_one(struct reap *reap, pid_t pid, int status)
{
    struct reap_watch *watch = reap_find(reap, pid);
    bool is_told_first = watch && watch->kind != REAP_HELPER;
    siginfo_t info;
    if (is_told_first && watch->fn)
        watch->fn(watch->ctx, REAP_EXITED, status);
    wait_for(P_PID, (id_t)pid, WEXITED, &info);
    if (!watch) {
        log_debug("reap", "orphan %d has ended, wait status 0x%x", (int)pid, (unsigned)status);
        return;
    }
    reap_forget(reap, watch);
    if (!is_told_first && watch->fn)
        watch->fn(watch->ctx, REAP_EXITED, status);
}

/* No child is left, but a watch still waits for one: its end was missed. */
static void give_up_lost(struct reap *reap)
{
    struct reap_watch *watch;
    while ((watch = reap->first)) {
        reap_forget(reap, watch);
        if (watch->fn)
            watch->fn(watch->ctx, REAP_EXITED, REAP_LOST);
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

static bool has_only(const struct reap *reap, const pid_t *known, size_t n)
{
    FD_CLEANUP int own = reap->children ? -1 : tree_open_list();
    return tree_has_only(reap->children ? reap->children : own, known, n);
}

bool reap_is_empty(const struct reap *reap)
{
    siginfo_t info;
    info.si_pid = 0;
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 && errno == ECHILD)
        return true;
    pid_t helpers[HELPERS_MAX];
    size_t n = reap_helpers(reap, helpers, HELPERS_MAX);
    return n > 0 && has_only(reap, helpers, n);
}

bool reap_is_last(const struct reap *reap, pid_t pid)
{
    pid_t known[HELPERS_MAX];
    size_t n = reap_helpers(reap, known + 1, HELPERS_MAX - 1);
    known[0] = pid;
    return has_only(reap, known, n + 1);
}

size_t reap_known(const struct reap *reap, pid_t *ret, size_t max)
{
    size_t n = 0;
    for (const struct reap_watch *watch = reap->first; watch && n < max; watch = watch->next)
        ret[n++] = watch->pid;
    return n;
}

bool reap_knows_all(const struct reap *reap)
{
    pid_t known[KNOWN_MAX];
    return has_only(reap, known, reap_known(reap, known, KNOWN_MAX));
}

size_t reap_helpers(const struct reap *reap, pid_t *ret, size_t max)
{
    size_t n = 0;
    for (const struct reap_watch *watch = reap->first; watch && n < max; watch = watch->next)
        if (watch->kind != REAP_CHILD)
            ret[n++] = watch->pid;
    return n;
}
