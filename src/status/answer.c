/* SPDX-License-Identifier: Apache-2.0
 * See answer.h.
 */
#include "status/answer.h"

#include "base/clock.h"
#include "base/log.h"
#include "status/control.h"
#include "json/writer.h"

#include <limits.h>
#include <stdlib.h>

/* The number of ranks and nodes to write before other events run: half a millisecond. */
enum { WRITTEN_AT_ONCE = 128 };

/* --- the text --- */

/* An answer that is being written: first the ranks node by node, then the nodes. */
struct answer_text {
    struct writer w;
    struct status_ranks own;
    struct core_peer_report *peers; /* empty except on node 0 */
    int npeers;
    bool has_asked; /* node 0 has asked the other nodes */
    bool tells_nodes;
    int node, rank; /* the next to write */
    int end;        /* one past the last node whose ranks are written */
};

static void write_head(const struct answer *answer, struct writer *w, const struct err *bad,
                       const struct core_report *was)
{
    char now[32];
    writer_int(w, "version", CONTROL_VERSION);
    writer_bool(w, "ok", !bad);
    if (bad)
        writer_text(w, "error", bad->text);
    /* A client that waits for its request to take effect compares with this. */
    writer_object(w, "was");
    writer_int(w, "generation", was->generation);
    writer_text(w, "state", node_state_name(was->state));
    writer_int(w, "round", was->round.id);
    writer_int(w, "commit_step", (int64_t)was->commit_step);
    writer_text(w, "notice", was->notice.is_live ? was->notice.source : NULL);
    writer_end(w);
    writer_int(w, "pid", answer->params->pid);
    writer_text(w, "host", answer->params->host);
    writer_text(w, "chief", answer->chief);
    writer_text(w, "events_file",
                answer->journal->out.is_wanted ? answer->journal->out.file.path : NULL);
    writer_text(w, "now", clock_iso8601(clock_real_ns(), now, sizeof now));
    report_write(answer->report, w, "report");
}

/* NULL: no memory. */
static struct answer_text *text_new(struct answer *answer, const struct err *bad,
                                    const struct core_report *was, bool has_asked)
{
    struct answer_text *text = calloc(1, sizeof *text);
    if (!text)
        return NULL;
    text->has_asked = has_asked;
    text->node = has_asked ? 0 : answer->params->node_rank;
    status_look(&text->own, answer->attach, answer->steprate);
    text->end = has_asked ? answer->params->nnodes : text->node + 1;
    text->npeers = status_nodes(answer->report, &text->own, answer->steprate, &text->peers);
    writer_init(&text->w, CONTROL_ANSWER_MAX, WRITER_LINE);
    writer_object(&text->w, NULL);
    write_head(answer, &text->w, bad, was);
    writer_text(&text->w, "ranks_of", has_asked || answer->params->nnodes == 1 ? "job" : "node");
    writer_list(&text->w, "ranks");
    return text;
}

static void text_free(struct answer_text *text)
{
    if (!text)
        return;
    writer_free(&text->w);
    free(text->peers);
    free(text);
}

/* False: all ranks of this node are written. */
static bool write_rank(const struct answer *answer, struct answer_text *text)
{
    bool is_own = text->node == answer->params->node_rank;
    char why[64];
    const struct rankquery_node *told =
        is_own ? NULL : rankquery_told(&answer->call, text->node, why, sizeof why);
    int n = is_own ? text->own.n : told ? told->n : 0, i = text->rank;
    if (i >= n)
        return false;
    text->rank++;
    if (is_own) {
        struct peer_rank own = status_rank(&text->own, i, answer->steprate);
        status_write_rank(&text->w, text->node, &own, 0);
    } else if (told) {
        status_write_rank(&text->w, text->node, &told->list[i], text->own.now - told->told_at);
    }
    return true;
}

static void write_node(const struct answer *answer, struct answer_text *text)
{
    char why[64];
    const char *unknown = NULL;
    if (text->node != answer->params->node_rank && !text->has_asked)
        unknown = "it was not asked";
    else if (text->node != answer->params->node_rank &&
             !rankquery_told(&answer->call, text->node, why, sizeof why))
        unknown = why;
    status_write_node(&text->w, &text->peers[text->node++], text->own.now, unknown);
}

static void begin_nodes(struct answer_text *text)
{
    writer_end(&text->w);
    writer_list(&text->w, "nodes");
    text->tells_nodes = true;
    text->node = 0;
}

/* True: the text is complete. */
static bool text_go_on(const struct answer *answer, struct answer_text *text, int items)
{
    for (; !text->tells_nodes && items > 0; items--) {
        if (write_rank(answer, text))
            continue;
        text->rank = 0;
        if (++text->node == text->end)
            begin_nodes(text);
    }
    for (; text->tells_nodes && text->node < text->npeers && items > 0; items--)
        write_node(answer, text);
    if (!text->tells_nodes || text->node < text->npeers)
        return false;
    writer_end(&text->w);
    writer_end(&text->w);
    return true;
}

/* --- sending --- */

/* NULL: memory is short, or the text is too long. */
static const char *text_done(struct answer_text *text, size_t *ret_len)
{
    const char *line = text ? writer_done(&text->w, ret_len) : NULL;
    if (!line)
        log_warn("control", "no memory to answer pchctl");
    return line;
}

void answer_client(struct answer *answer, struct control_client *client, const struct err *bad,
                   const struct core_report *was)
{
    size_t len;
    struct answer_text *text = text_new(answer, bad, was, false);
    if (text)
        text_go_on(answer, text, INT_MAX);
    const char *line = text_done(text, &len);
    if (line)
        control_answer(client, line, len);
    text_free(text);
}

static void answer_waiting(struct answer *answer)
{
    size_t len;
    const char *line = text_done(answer->text, &len);
    if (line)
        control_answer_waiting(answer->control, line, len);
    text_free(answer->text);
    answer->text = NULL;
    answer->is_asked = false;
    rankquery_forget(&answer->call);
}

/* Writes at most `items` now; the clock's event writes more. */
static void answer_go_on(struct answer *answer, int items)
{
    struct core_report now;
    if (!answer->text) {
        core_report(answer->report->core, &now);
        answer->text = text_new(answer, NULL, &now, true);
    }
    if (!answer->text || text_go_on(answer, answer->text, items))
        answer_waiting(answer);
    else
        watch_at(&answer->clock, clock_now_ns());
}

static void answer_on_clock(void *ctx)
{
    answer_go_on(ctx, WRITTEN_AT_ONCE);
}

void answer_of_all(struct answer *answer, struct control_client *client,
                   const struct core_report *was)
{
    bool can_ask = answer->params->nnodes > 1 && answer->params->node_rank == 0;
    if (!can_ask || (!answer->is_asked && !rankquery_begin(&answer->call))) {
        answer_client(answer, client, NULL, was);
        return;
    }
    answer->is_asked = true;
    control_wait(client);
}

void answer_end(struct answer *answer)
{
    if (!answer->is_asked)
        return;
    rankquery_end(&answer->call);
    watch_at(&answer->clock, CLOCK_NEVER);
    answer_go_on(answer, INT_MAX);
}

/* --- between nodes --- */

static void tell_chief(struct answer *answer, int conn, uint32_t number)
{
    static struct status_ranks own; /* too large for the stack */
    struct peer_rank list[CORE_SLOTS_MAX];
    status_look(&own, answer->attach, answer->steprate);
    for (int i = 0; i < own.n; i++)
        list[i] = status_rank(&own, i, answer->steprate);
    struct peer_ranks head = {.number = number,
                              .node_rank = (uint32_t)answer->params->node_rank,
                              .total = (uint16_t)own.n};
    rankquery_answer(answer->cluster, conn, &head, list);
}

void answer_peer(struct answer *answer, int conn, const struct peermsg *msg)
{
    if (msg->type == PEERMSG_LOOK)
        tell_chief(answer, conn, msg->look.number);
    else
        rankquery_take(&answer->call, conn, msg);
}

/* --- begin and end --- */

bool answer_open(struct answer *answer, struct event_base *base, struct err *err)
{
    answer->clock = (struct watch){.fn = answer_on_clock, .ctx = answer};
    answer->call = (struct rankquery){.cluster = answer->cluster,
                                      .core = answer->report->core,
                                      .nnodes = answer->params->nnodes,
                                      .on_over = answer_on_clock,
                                      .ctx = answer};
    return watch_clock(&answer->clock, base, err) && rankquery_open(&answer->call, base, err);
}

void answer_free(struct answer *answer)
{
    watch_end(&answer->clock);
    text_free(answer->text);
    answer->text = NULL;
    rankquery_free(&answer->call);
}
