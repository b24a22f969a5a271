/* SPDX-License-Identifier: Apache-2.0
 * See sigin.h.
 */
#include "run/sigin.h"

#include "base/fd.h"
#include "base/log.h"
#include "base/sigtext.h"
#include "os/signals.h"

#include <signal.h>

static void sigin_take(struct sigin *sigin, const struct signals_info *info)
{
    log_debug("signal", "%s from %d", SIGTEXT(info->number), (int)info->sender);
    if (jobs_signal(sigin->jobs, info))
        return;
    loop_post(sigin->loop, &(struct event){.type = EV_SIGNAL,
                                           .signal = {.number = info->number,
                                                      .from = info->from,
                                                      .sender_pid = (int)info->sender}});
}

/* Reap last: while a dead process is a zombie, pchrun can still tell that it sent a signal. */
static void on_signals(void *ctx)
{
    struct sigin *sigin = ctx;
    struct signals_info info;
    bool has_child = false;
    while (signals_read(sigin->fd, &info)) {
        if (info.number == SIGCHLD)
            has_child = true;
        else
            sigin_take(sigin, &info);
    }
    if (has_child)
        children_reap(sigin->children);
}

bool sigin_open(struct sigin *sigin, struct loop *loop, struct children *children,
                struct jobs *jobs, struct err *err)
{
    *sigin = (struct sigin){.loop = loop,
                            .children = children,
                            .jobs = jobs,
                            .watch = {.fn = on_signals, .ctx = sigin}};
    sigin->fd = signals_open(err);
    return sigin->fd >= 0 && watch_fd(&sigin->watch, loop->base, sigin->fd, err);
}

void sigin_free(struct sigin *sigin)
{
    watch_end(&sigin->watch);
    fd_close(&sigin->fd);
}
