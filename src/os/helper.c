/* SPDX-License-Identifier: Apache-2.0
 * See helper.h.
 */
#include "os/helper.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

struct helper {
    struct helpers *all;
    struct helper *next;
    struct reap_watch watch;
};

static void drop(struct helper *helper)
{
    struct helper **at = &helper->all->first;
    while (*at != helper)
        at = &(*at)->next;
    *at = helper->next;
    helper->all->running--;
    free(helper);
}

static void on_end(void *ctx, enum reap_what what, int status)
{
    struct helper *helper = ctx;
    struct helpers *all = helper->all;
    if (what != REAP_EXITED)
        return;
    drop(helper);
    if (all->running == 0 && all->on_idle)
        all->on_idle(all->ctx);
}

static void keep(struct helpers *helpers, struct helper *helper, pid_t pid)
{
    helper->all = helpers;
    helper->next = helpers->first;
    helpers->first = helper;
    helper->watch =
        (struct reap_watch){.pid = pid, .kind = REAP_HELPER, .fn = on_end, .ctx = helper};
    reap_watch(helpers->reap, &helper->watch);
    helpers->running++;
}

void helper_take(struct helpers *helpers, pid_t pid)
{
    struct helper *helper = calloc(1, sizeof *helper);
    if (helper)
        keep(helpers, helper, pid);
}

bool helper_start(struct helpers *helpers, void (*fn)(const void *arg), const void *arg,
                  struct err *err)
{
    struct helper *helper = calloc(1, sizeof *helper);
    if (!helper)
        return err_set(err, ERR_SYSTEM, ENOMEM, "cannot start a helper");
    pid_t pid = fork();
    if (pid == 0) {
        fd_range(0, FD_RANGE_CLOSE, NULL, 0);
        fn(arg);
        _exit(0);
    }
    if (pid < 0) {
        free(helper);
        return err_set(err, ERR_SYSTEM, errno, "cannot start a helper");
    }
    keep(helpers, helper, pid);
    return true;
}

void helper_detach(int keep)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; null >= 0 && fd <= 2; fd++)
        dup2(null, fd);
    fd_range(3, FD_RANGE_CLOSE, &keep, 1);
    if (chdir("/") != 0) /* harmless: the directory stays in use */
        return;
}

void helpers_free(struct helpers *helpers)
{
    struct helper *next;
    for (struct helper *helper = helpers->first; helper; helper = next) {
        next = helper->next;
        reap_forget(helpers->reap, &helper->watch);
        drop(helper);
    }
}
