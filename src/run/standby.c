/* SPDX-License-Identifier: Apache-2.0
 * See standby.h.
 */
#include "run/standby.h"

#include "base/log.h"
#include "base/sigtext.h"
#include "base/str.h"
#include "core/common/verdict.h"
#include "notices/inbox.h"
#include "os/reap.h"
#include "os/signals.h"
#include "peers/cluster.h"
#include "run/drill.h"
#include "run/params.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>

struct standby {
    struct config *config;
    struct core_params params;
    struct loop loop;
    struct reap reap;
    struct inbox inbox;
    struct cluster cluster;
    int signals; /* the signalfd */
    struct watch on_signal;
    bool has_said; /* that it stands by */
    int place;     /* the node whose place it takes; -1: none */
    struct shell_end *end;
};

/* "spare 4", as node 0 names it: by its node rank. A node that is back, and finds its place taken,
 * has the number of that node. */
static const char *standby_name(const struct standby *standby, char *text, size_t size)
{
    const struct core_params *p = &standby->params;
    snprintf(text, size, "spare %d", p->node_rank);
    if (p->node_rank < p->nnodes)
        str_addf(text, size, " (it was started as node %d)", p->node_rank);
    return text;
}

static void standby_on_settled(void *ctx)
{
    struct standby *standby = ctx;
    struct spare_report report;
    char name[80];
    spare_report(standby->loop.spare, &report);
    if (standby->has_said || !report.stands_by)
        return;
    standby->has_said = true;
    log_notice("spare", "%s for job %s: stands by at node 0 (%s, port %d) until it is called",
               standby_name(standby, name, sizeof name), standby->params.job,
               standby->cluster.chief.host, standby->cluster.chief.port);
}

static void standby_end(struct standby *standby, const struct action *action)
{
    struct shell_end *end = standby->end;
    enum outcome outcome = action->exit.outcome;
    int code = drill_code(standby->config, outcome, action->exit.code);
    char name[80];
    bool is_repeated = outcome == OUTCOME_INTERRUPTED && standby->config->exit.reraise;
    *end = (struct shell_end){.code = code,
                              .level = outcome == OUTCOME_COMPLETED ? LOG_INFO : LOG_NOTICE,
                              .signal = is_repeated ? code - EXIT_BY_SIGNAL : 0};
    snprintf(end->text, sizeof end->text, "%s, exit code %d: job %.128s: %.500s",
             verdict_name(outcome), code, standby->params.job, action->exit.text);
    if (standby->has_said)
        str_addf(end->text, sizeof end->text, "; it stood by as %s%s",
                 standby_name(standby, name, sizeof name),
                 outcome == OUTCOME_COMPLETED ? "; it was not needed" : "");
}

static void standby_act(void *ctx, const struct action *action)
{
    struct standby *standby = ctx;
    switch ((int)action->type) {
    case ACT_CONNECT:
        peers_connect(standby->cluster.peers, &standby->cluster.chief);
        break;
    case ACT_SEND:
        peers_send(standby->cluster.peers, action->peer.conn, action->peer.msg);
        break;
    case ACT_CLOSE:
        peers_close(standby->cluster.peers, action->peer.conn);
        break;
    case ACT_LOG:
        log_line((enum log_level)action->log.level, action->log.topic, "%s", action->log.text);
        break;
    case ACT_TAKE:
        standby->place = action->place;
        standby->loop.is_over = true;
        break;
    case ACT_EXIT:
        standby_end(standby, action);
        standby->loop.is_over = true;
        break;
    default:
        break;
    }
}

static void standby_on_signals(void *ctx)
{
    struct standby *standby = ctx;
    struct signals_info info;
    while (signals_read(standby->signals, &info)) {
        if (info.number == SIGCHLD) {
            reap_all(&standby->reap);
            continue;
        }
        log_debug("signal", "%s from %d", SIGTEXT(info.number), (int)info.sender);
        if (standby->loop.is_over)
            signals_keep(info.number);
        loop_post(&standby->loop,
                  &(struct event){.type = EV_SIGNAL,
                                  .signal = {.number = info.number, .from = info.from}});
    }
}

static bool standby_open(struct standby *standby, struct err *err)
{
    struct config *config = standby->config;
    standby->loop =
        (struct loop){.act = standby_act, .settled = standby_on_settled, .ctx = standby};
    reap_begin(&standby->reap);
    if (!loop_open(&standby->loop, err) || !params_fill(&standby->params, config, err) ||
        !loop_open_spare(&standby->loop, &standby->params, err) ||
        !cluster_open(&standby->cluster, config, &standby->loop, err))
        return false;
    watch_init(&standby->on_signal, standby->loop.base, standby_on_signals, standby);
    standby->signals = signals_open(err);
    if (standby->signals < 0 || !watch_fd(&standby->on_signal, standby->signals, err))
        return false;
    standby->inbox =
        (struct inbox){.loop = &standby->loop, .reap = &standby->reap, .forgets = true};
    return inbox_init(&standby->inbox, config, NULL, err) &&
           inbox_open(&standby->inbox, config, NULL, err);
}

static bool standby_turns(struct standby *standby, struct err *err)
{
    bool ok = true;
    loop_post(&standby->loop, &(struct event){.type = EV_START});
    while (ok && !standby->loop.is_over)
        ok = watch_turn(standby->loop.base);
    cluster_finish(&standby->cluster);
    inbox_end(&standby->inbox, NULL);
    while (ok && (cluster_is_busy(&standby->cluster) || inbox_is_busy(&standby->inbox)))
        ok = watch_turn(standby->loop.base);
    return ok || err_set(err, ERR_SYSTEM, errno, "the event loop has failed");
}

static void standby_free(struct standby *standby)
{
    watch_end(&standby->on_signal);
    signals_close(&standby->signals);
    inbox_free(&standby->inbox);
    cluster_free(&standby->cluster);
    loop_free(&standby->loop);
    reap_end(&standby->reap);
}

bool standby_run(struct config *config, struct shell_end *ret_end)
{
    struct standby standby = {.config = config, .signals = -1, .place = -1, .end = ret_end};
    struct err err;
    if (!standby_open(&standby, &err) || !standby_turns(&standby, &err))
        *ret_end = shell_end_unstarted(&err);
    standby_free(&standby);
    if (standby.place < 0)
        return false;
    config->cluster.node_rank = standby.place;
    return true;
}
