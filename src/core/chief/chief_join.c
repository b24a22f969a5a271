/* SPDX-License-Identifier: Apache-2.0
 * HELLO decides which nodes join; the job starts when all have joined. See chief_parts.h.
 */
#include "core/chief/chief_parts.h"

#include "base/clock.h"
#include "base/str.h"
#include "core/common/verdict.h"

#include <stdio.h>
#include <string.h>

/* The log names the missing nodes again, each time after twice the pause, up to this pause. */
#define LAST_WORD_GAP_NS (300 * NS_PER_S)

/* --- HELLO --- */

/* The first line in which two lists of settings differ, "a=1" against "a=2". False if none does. */
static bool first_difference(const char *a, const char *b, char *ret_a, char *ret_b, size_t size)
{
    while (*a || *b) {
        size_t na = strcspn(a, "\n"), nb = strcspn(b, "\n");
        if (na != nb || memcmp(a, b, na) != 0) {
            snprintf(ret_a, size, "%.*s", (int)na, a);
            snprintf(ret_b, size, "%.*s", (int)nb, b);
            return true;
        }
        a += na + (a[na] != '\0');
        b += nb + (b[nb] != '\0');
    }
    return false;
}

/* The caller belongs to this job and has the settings of node 0. */
static bool is_compatible(struct chief *chief, const struct caller *caller,
                          const struct peermsg *msg)
{
    const struct core_params *p = chief->params;
    const struct peer_hello *h = &msg->hello;
    char ours[96], theirs[96], who[128];
    int conn = caller->conn;
    chief_caller_text(caller, who, sizeof who);
    if (!h->job[0])
        chief_refuse(chief, conn,
                     "%s speaks another version of the protocol; node 0 speaks version %d. Install "
                     "the same pchrun everywhere",
                     caller->from[0] ? caller->from : "a supervisor", PEERMSG_VERSION);
    else if (!str_is(h->job, p->job))
        chief_refuse(chief, conn, "node %u (%s) belongs to job \"%s\"; node 0 to \"%s\"",
                     h->node_rank, who, h->job, p->job);
    else if (h->nnodes != (uint32_t)p->nnodes)
        chief_refuse(chief, conn, "node %u (%s) says the job has %u nodes; node 0 says %d",
                     h->node_rank, who, h->nnodes, p->nnodes);
    else if (h->node_rank >= (uint32_t)p->nnodes)
        chief_refuse(chief, conn, "node rank %u (%s) does not lie in a job of %d nodes",
                     h->node_rank, who, p->nnodes);
    else if (first_difference(p->settings, h->settings, ours, theirs, sizeof ours))
        chief_refuse(chief, conn, "node %u (%s) is set up with %s; node 0 with %s", h->node_rank,
                     who, theirs[0] ? theirs : "nothing", ours[0] ? ours : "nothing");
    else if (h->node_rank == 0 && conn != CONN_SELF)
        chief_refuse(chief, conn,
                     "%s says that it is node 0, which is this one; is its --node-rank right?",
                     who);
    else if (msg->stamp.attempt && msg->stamp.attempt != p->attempt)
        chief_refuse(chief, conn, "node %u (%s) is of attempt %u; this is attempt %u", h->node_rank,
                     who, msg->stamp.attempt, p->attempt);
    else
        return true;
    return false;
}

/* No supervisor has been this node, or its supervisor left before the start. */
static bool is_vacant(const struct chief *chief, const struct peer *peer)
{
    return !peer->at.incarnation || (!chief->order.start && !peer_is(peer, FACT_JOINED));
}

void chief_hello(struct chief *chief, int conn, const struct peermsg *msg, const char *from)
{
    const struct peer_hello *h = &msg->hello;
    struct caller caller = {
        .conn = conn, .incarnation = h->incarnation, .commit_step = h->commit_step, .pid = h->pid};
    str_copy(caller.host, sizeof caller.host, h->host);
    str_copy(caller.from, sizeof caller.from, from);
    if (!is_compatible(chief, &caller, msg))
        return;
    struct peer *peer = &chief->peers[h->node_rank];
    if (peer->at.incarnation != h->incarnation && !is_vacant(chief, peer)) {
        chief_hold_duplicate(chief, peer, &caller);
        return;
    }
    if (peer_is(peer, FACT_LOST)) {
        chief_refuse(chief, conn, "node %u (%s) was given up as lost", h->node_rank, h->host);
        return;
    }
    chief_refuse_duplicate(chief, peer);
    chief_admit(chief, peer, &caller);
}

/* --- the start --- */

int64_t chief_join_until(const struct chief *chief)
{
    return chief->started_at + chief->params->join_timeout_ns;
}

/* The log of a job that does not start must say what the job waits for. */
static void say_who_is_missing(struct chief *chief)
{
    char missing[96], in[32];
    const struct core_params *p = chief->params;
    int64_t left = chief_join_until(chief) - chief->out->now;
    int64_t unit = left > 180 * NS_PER_S ? 60 * NS_PER_S : NS_PER_S; /* no need to be exact */
    int n = p->nnodes - chief->count[FACT_JOINED];
    chief_list_without(chief, FACT_JOINED, missing, sizeof missing);
    out_log(chief->out, LOG_NOTICE, "join",
            "still waiting for node%s %s of %d (cluster.join_timeout in %s)%s%s", n == 1 ? "" : "s",
            missing, p->nnodes, str_duration(left / unit * unit, in, sizeof in),
            chief->refusal[0] ? "; last refused: " : "", chief->refusal);
    chief->word_gap = clock_min(2 * chief->word_gap, LAST_WORD_GAP_NS);
    chief->next_word_at = chief->out->now + chief->word_gap;
}

static void start(struct chief *chief)
{
    char took[32];
    int64_t ns = chief->out->now - chief->started_at;
    chief->order.start = true;
    chief->order.port = out_port(chief->out);
    chief->is_changed = true;
    chief->gen.began_at = chief->out->now;
    if (chief->params->nnodes > 1)
        out_log(chief->out, LOG_NOTICE, "join", "all %d nodes are there after %s: starting",
                chief->params->nnodes, str_duration(ns / NS_PER_MS * NS_PER_MS, took, sizeof took));
}

static void end_unjoined(struct chief *chief)
{
    char missing[64], took[32], text[PEERMSG_WHY_SIZE];
    chief_list_without(chief, FACT_JOINED, missing, sizeof missing);
    int n = chief->params->nnodes, without = n - chief->count[FACT_JOINED];
    str_duration(chief->params->join_timeout_ns, took, sizeof took);
    snprintf(text, sizeof text, "%d of %d nodes did not join within %s: node%s %s", without, n,
             took, without == 1 ? "" : "s", missing);
    if (chief->refusal[0])
        str_addf(text, sizeof text, "; last refused: %s", chief->refusal);
    chief_stop(chief, OUTCOME_NOT_STARTED, EXIT_OWN_ERROR, text);
}

static void end_preempted(struct chief *chief)
{
    char missing[96];
    int n = chief->params->nnodes - chief->count[FACT_JOINED];
    if (n > 0) {
        chief_list_without(chief, FACT_JOINED, missing, sizeof missing);
        out_log(chief->out, LOG_NOTICE, "join",
                "node%s %s %s missing; node 0 tells the notice when %s, and waits until shortly "
                "before the deadline",
                n == 1 ? "" : "s", missing, n == 1 ? "is" : "are",
                n == 1 ? "it joins" : "they join");
    }
    chief->tell_until = clock_min(chief_abort_at(chief), chief_join_until(chief));
    chief_stop(chief, OUTCOME_PREEMPTED, 0,
               "the notice came before the start: nothing was started");
}

void chief_decide_join(struct chief *chief)
{
    if (chief_fault_counts(chief)) {
        chief_end_by_fault(chief);
    } else if (chief_notice_is_near(chief)) {
        end_preempted(chief);
    } else if (all_are(chief, FACT_JOINED) && all_are(chief, FACT_HEARD)) {
        start(chief);
    } else if (chief->out->now >= chief_join_until(chief)) {
        end_unjoined(chief);
    } else if (chief->out->now >= chief->next_word_at) {
        say_who_is_missing(chief);
    }
}
