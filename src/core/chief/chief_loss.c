/* SPDX-License-Identifier: Apache-2.0
 * Which nodes are lost, when, and what follows. See chief_parts.h.
 */
#include "core/chief/chief_parts.h"

#include "base/clock.h"
#include "base/str.h"
#include "core/common/grace.h"

#include <stdio.h>

void chief_lose(struct chief *chief, struct peer *peer, const char *why)
{
    str_copy(peer->lost_why, sizeof peer->lost_why, why);
    chief_set_fact(chief, peer, FACT_LOST, true);
    chief_note(chief, peer);
    out_log(chief->out, LOG_ERROR, "lost", "node %d (%s): %s", chief_rank_of(chief, peer),
            peer->at.host, why);
}

/* When the job ends for a notice: shortly before the deadline, a node that sends nothing for two
 * heartbeats is lost. A deadline that passed before the end does not count, nor does a notice after
 * which the job goes on in place. */
static int64_t mute_at(const struct chief *chief, const struct peer *peer)
{
    int64_t deadline = chief->notice.deadline;
    bool ends = chief->order.end == END_STOP && !chief->params->restart.after_notice;
    if (!ends || !chief->notice.is_live || deadline <= chief->gen.stopped_at)
        return CLOCK_NEVER;
    int64_t at = deadline - grace_margin(deadline - chief->notice.at) / 2;
    int64_t mute = peer->last_heard + 2 * chief->params->heartbeat_interval_ns;
    return at > mute ? at : mute;
}

static int64_t loss_at(const struct chief *chief, const struct peer *peer)
{
    if (!peer_is(peer, FACT_JOINED) || !chief_is_awaited(chief, peer) || peer->at.conn == CONN_SELF)
        return CLOCK_NEVER;
    int64_t unheard =
        clock_min(peer->last_heard + chief->params->heartbeat_timeout_ns, mute_at(chief, peer));
    if (peer->down_at == CLOCK_NEVER)
        return unheard;
    return clock_min(unheard, peer->down_at + chief->params->reconnect_ns);
}

static void lose_silent(struct chief *chief, struct peer *peer)
{
    char text[32], why[sizeof peer->lost_why];
    const struct caller *duplicate = &peer->duplicate;
    int64_t silence = chief->out->now - peer->last_heard;
    if (silence < chief->params->heartbeat_timeout_ns)
        str_about(silence, text, sizeof text);
    else
        str_duration(chief->params->heartbeat_timeout_ns, text, sizeof text);
    if (duplicate->conn != CONN_NONE)
        snprintf(why, sizeof why,
                 "its supervisor ended during the job, and another was started, pid %u at %.44s",
                 duplicate->pid, duplicate->from);
    else if (peer->at.conn == CONN_NONE)
        str_copy(why, sizeof why, "its connection is closed, and it did not connect again");
    else
        snprintf(why, sizeof why, "no message from it for %s", text);
    chief_lose(chief, peer, why);
}

static void silent(struct chief *chief, struct peer *peer)
{
    if (chief->order.start) {
        lose_silent(chief, peer);
        return;
    }
    out_log(chief->out, LOG_WARN, "join", "node %d (%s) sends nothing: it must join again",
            chief_rank_of(chief, peer), peer->at.host);
    out_act(chief->out, &(struct action){.type = ACT_CLOSE, .peer = {.conn = peer->at.conn}});
    chief_set_conn(chief, peer, CONN_NONE);
    chief_unjoin(chief, peer);
}

void chief_look_for_losses(struct chief *chief)
{
    if (chief->next_loss_at > chief->out->now)
        return;
    chief->next_loss_at = CLOCK_NEVER;
    for (int i = 1; i < chief->params->nnodes; i++) {
        struct peer *peer = &chief->peers[i];
        if (loss_at(chief, peer) <= chief->out->now)
            silent(chief, peer);
        chief->next_loss_at = clock_min(chief->next_loss_at, loss_at(chief, peer));
    }
}

bool chief_losses_matter(const struct chief *chief)
{
    if (!any_is(chief, FACT_LOST) || (chief_is_over(chief) && chief_notice_is_near(chief)))
        return false;
    if (!chief_is_deciding(chief))
        return true;
    if (chief_outlives(chief))
        return false;
    for (int i = 0; i < chief->params->nnodes; i++)
        if (peer_is(&chief->peers[i], FACT_LOST) && !peer_is(&chief->peers[i], FACT_SAVED))
            return true;
    return false;
}

/* Since when the node counts as ended: its connection closed, or it missed a heartbeat. */
static int64_t gone_since(const struct chief *chief, const struct peer *peer)
{
    int64_t missed = peer->status_at + chief->params->heartbeat_interval_ns;
    return peer->down_at == CLOCK_NEVER ? missed : clock_min(peer->went_at, missed);
}

static void tell(struct chief *chief, const struct peer *peer, const struct chief_end *how,
                 void (*tell_end)(struct chief *, const struct chief_end *))
{
    char why[480];
    struct peer_cause *cause = &chief->gen.cause;
    snprintf(why, sizeof why, "node %d (%.40s) is lost: %.125s%s", chief_rank_of(chief, peer),
             peer->at.host, peer->lost_why, how->why);
    struct chief_end end = *how;
    end.manner = MANNER_STOP;
    end.why = why;
    if (chief->gen.was_preempted)
        end.outcome = OUTCOME_PREEMPTED_UNSAVED;
    *cause = (struct peer_cause){.fault = FAULT_LOST,
                                 .node = chief_rank_of(chief, peer),
                                 .rank = -1,
                                 .pid = (int32_t)peer->at.pid,
                                 .code = chief->params->exit.node_lost,
                                 .at_ns = gone_since(chief, peer)};
    /* A heartbeat that a node will miss, since it has reported its end, is still to come. */
    cause->wall_ns = chief->out->wall - clock_max(chief->out->now - cause->at_ns, 0);
    str_copy(cause->host, sizeof cause->host, peer->at.host);
    snprintf(cause->text, sizeof cause->text, "the node is lost: %s", peer->lost_why);
    tell_end(chief, &end);
}

void chief_end_by_loss(struct chief *chief, const struct peer *peer, const struct chief_end *how)
{
    chief->gen.was_preempted = chief_notice_is_near(chief);
    tell(chief, peer, how, chief_end);
}

bool chief_tell_loss(struct chief *chief, int64_t until)
{
    const struct peer *first = NULL;
    for (int i = 0; any_is(chief, FACT_LOST) && i < chief->params->nnodes; i++) {
        const struct peer *peer = &chief->peers[i];
        if (peer_is(peer, FACT_LOST) && gone_since(chief, peer) <= until &&
            (!first || gone_since(chief, peer) < gone_since(chief, first)))
            first = peer;
    }
    if (first)
        tell(chief, first, &(struct chief_end){.outcome = OUTCOME_NODE_LOST, .why = ""},
             chief_tell_end);
    return first;
}
