/* SPDX-License-Identifier: Apache-2.0
 * See answer.h.
 */
#include "status/answer.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "core/common/verdict.h"
#include "status/control.h"
#include "json/writer.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

/* After this many ranks and nodes, about half a millisecond, other events run. The ranks of one
 * node are never split. */
enum { WRITTEN_AT_ONCE = 128 };
/* The longest wait for a client: for its request, and between two reads of its answer. */
#define CLIENT_PATIENCE_NS (10 * NS_PER_S)

/* --- the text --- */

/* An answer that is being written: first the ranks node by node, then the nodes. */
struct answer_text {
    struct writer w;
    struct status_ranks own;
    struct core_peer_report *peers; /* empty except on node 0 */
    int npeers;
    bool has_asked; /* node 0 has asked the other nodes */
    int node, end;  /* ranks are written for the nodes from `node` up to, not including, `end` */
    int peer;       /* the next of `peers` to write */
};

static void write_head(const struct answer *answer, struct writer *w, const struct err *bad,
                       const struct core_report *was)
{
    char now[32];
    writer_int(w, "version", CONTROL_VERSION);
    writer_bool(w, "ok", !bad);
    if (bad)
        writer_text(w, "error", bad->text);
    /* The state before the request: the client compares it with later states. */
    writer_object(w, "was");
    writer_int(w, "generation", was->generation);
    writer_text(w, "state", node_state_name(was->state));
    writer_int(w, "round", was->round.id);
    writer_int(w, "commit_step", (int64_t)was->commit_step);
    writer_text(w, "notice", was->notice.is_live ? was->notice.label.source : NULL);
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
    status_look(&text->own, answer->attach);
    text->end = has_asked ? answer->params->nnodes : text->node + 1;
    text->npeers = status_nodes(answer->report, &text->own, &text->peers);
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

/* Returns how many ranks it wrote. */
static int write_ranks(const struct answer *answer, struct answer_text *text, int node)
{
    char why[64];
    int n = 0;
    if (node == answer->params->node_rank) {
        for (; n < text->own.n; n++) {
            struct peer_rank own = status_rank(&text->own, n);
            status_write_rank(&text->w, node, &own, 0);
        }
        return n;
    }
    const struct rankquery_node *told = rankquery_told(&answer->call, node, why, sizeof why);
    for (; told && n < told->n; n++)
        status_write_rank(&text->w, node, &told->list[n], text->own.now - told->told_at);
    return n;
}

static void write_node(const struct answer *answer, struct answer_text *text, int node)
{
    char why[64] = "it was not asked";
    bool is_known = node == answer->params->node_rank ||
                    (text->has_asked && rankquery_told(&answer->call, node, why, sizeof why));
    status_write_node(&text->w, &text->peers[node], text->own.now, is_known ? NULL : why);
}

/* True: the text is complete. */
static bool text_go_on(const struct answer *answer, struct answer_text *text, int items)
{
    while (text->node < text->end && items > 0) {
        items -= 1 + write_ranks(answer, text, text->node);
        if (++text->node == text->end) {
            writer_end(&text->w);
            writer_list(&text->w, "nodes");
        }
    }
    for (; text->node == text->end && text->peer < text->npeers && items > 0; items--)
        write_node(answer, text, text->peer++);
    if (text->node < text->end || text->peer < text->npeers)
        return false;
    writer_end(&text->w);
    writer_end(&text->w);
    return true;
}

/* --- sending --- */

/* `text` NULL: out of memory. `client` NULL: sends to all clients that wait. */
static void text_send(struct answer *answer, struct answer_text *text,
                      struct control_client *client)
{
    size_t len;
    const char *line = text ? writer_done(&text->w, &len) : NULL;
    if (!line)
        log_warn("control", "no memory to answer pchctl");
    else if (client)
        control_answer(client, line, len);
    else
        control_answer_waiting(answer->control, line, len);
    text_free(text);
}

static void answer_client(struct answer *answer, struct control_client *client,
                          const struct err *bad, const struct core_report *was)
{
    struct answer_text *text = text_new(answer, bad, was, false);
    if (text)
        text_go_on(answer, text, INT_MAX);
    text_send(answer, text, client);
}

static void answer_waiting(struct answer *answer)
{
    text_send(answer, answer->text, NULL);
    answer->text = NULL;
    answer->is_asked = false;
    rankquery_forget(&answer->call);
}

/* Writes at most `items` now; the timer writes the rest. */
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

static void answer_of_all(struct answer *answer, struct control_client *client,
                          const struct core_report *was)
{
    bool asks_all = answer->params->nnodes > 1 && answer->params->node_rank == 0;
    if (!asks_all || (!answer->is_asked && !rankquery_begin(&answer->call))) {
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

/* --- requests --- */

static void post_notice(struct answer *answer, enum notice_type type, int64_t left_ns,
                        const char *text)
{
    struct notice notice = {.type = type, .source = CONTROL_SOURCE, .left_ns = left_ns};
    str_copy(notice.text, sizeof notice.text, text);
    loop_post(answer->attach->loop, &(struct event){.type = EV_NOTICE, .notice = &notice});
}

static bool can_ask(const struct answer *answer, const struct core_report *report, struct err *err)
{
    if (report->outcome == OUTCOME_UNKNOWN && !report_is_over(answer->report))
        return true;
    return err_set(err, ERR_USAGE, 0, "the job is ending already: %s, exit code %d: %s",
                   verdict_name(report->outcome),
                   report_is_over(answer->report) ? answer->report->exit_code : report->exit_code,
                   report->why);
}

static bool answer_obey(struct answer *answer, const struct control_request *request,
                        struct err *err)
{
    char why[128];
    switch (request->verb) {
    case CONTROL_SAVE:
        if (answer->params->save_mode != SAVE_ATTACH)
            return err_set(err, ERR_USAGE, 0,
                           "only a program that attaches can save and go on (save.mode)");
        loop_post(answer->attach->loop, &(struct event){.type = EV_SAVE_ASKED});
        break;
    case CONTROL_DRAIN:
        post_notice(answer, NOTICE_TERMINATE, request->left_ns, request->text);
        break;
    case CONTROL_CANCEL:
        post_notice(answer, NOTICE_CANCEL, 0, "");
        break;
    case CONTROL_STOP:
        snprintf(why, sizeof why, "stopped by pchctl (process %d, user %d)", request->pid,
                 request->uid);
        loop_post(answer->attach->loop, &(struct event){.type = EV_STOP_ASKED, .why = why});
        break;
    case CONTROL_STATUS:
    case CONTROL_EVENTS:
    case CONTROL__COUNT:
        break;
    }
    return true;
}

static void on_asked(void *ctx, struct control_client *client,
                     const struct control_request *request)
{
    struct answer *answer = ctx;
    struct core_report was;
    struct err err;
    bool ok = true;
    core_report(answer->report->core, &was);
    if (request->verb == CONTROL_EVENTS) {
        control_answer(client, (const char *)buf_bytes(&answer->journal->kept),
                       buf_len(&answer->journal->kept));
        return;
    }
    if (request->verb == CONTROL_STATUS && request->is_of_all) {
        answer_of_all(answer, client, &was);
        return;
    }
    if (request->verb != CONTROL_STATUS) {
        ok = can_ask(answer, &was, &err);
        if (ok)
            log_info("control", "pchctl (process %d, user %d): %s", request->pid, request->uid,
                     control_name(request->verb));
        ok = ok && answer_obey(answer, request, &err);
    }
    answer_client(answer, client, ok ? NULL : &err, &was);
}

/* --- between nodes --- */

static void tell_chief(struct answer *answer, int conn, uint32_t number)
{
    static struct status_ranks own; /* too large for the stack */
    struct peer_rank list[CORE_SLOTS_MAX];
    status_look(&own, answer->attach);
    for (int i = 0; i < own.n; i++)
        list[i] = status_rank(&own, i);
    struct peer_ranks head = {.number = number,
                              .node_rank = (uint32_t)answer->params->node_rank,
                              .total = (uint16_t)own.n};
    rankquery_answer(answer->cluster, conn, &head, list);
}

static void answer_on_ranks(void *ctx, int conn, const struct peermsg *msg)
{
    struct answer *answer = ctx;
    if (report_is_over(answer->report))
        return;
    if (msg->type == PEERMSG_LOOK)
        tell_chief(answer, conn, msg->look.number);
    else
        rankquery_take(&answer->call, conn, msg);
}

/* --- begin and end --- */

void answer_open(struct answer *answer)
{
    struct event_base *base = answer->attach->loop->base;
    answer->cluster->on_ranks = answer_on_ranks;
    answer->cluster->ranks_ctx = answer;
    watch_init(&answer->clock, base, answer_on_clock, answer);
    answer->call = (struct rankquery){.cluster = answer->cluster,
                                      .core = answer->report->core,
                                      .nnodes = answer->params->nnodes,
                                      .on_over = answer_on_clock,
                                      .ctx = answer};
    rankquery_open(&answer->call, base);
}

void answer_listen(struct answer *answer)
{
    struct control_options options = {.base = answer->attach->loop->base,
                                      .dir = procs_run_dir(answer->attach->procs)->path,
                                      .patience_ns = CLIENT_PATIENCE_NS,
                                      .asked = on_asked,
                                      .ctx = answer};
    struct err err;
    answer->control = control_new(&options, &err);
    if (!answer->control)
        log_warn("control", "pchctl cannot reach this pchrun: %s", err.text);
}

void answer_tell(void *ctx, const char *text, size_t len)
{
    const struct answer *answer = ctx;
    control_tell(answer->control, text, len);
}

void answer_free(struct answer *answer)
{
    control_free(answer->control);
    answer->control = NULL;
    watch_end(&answer->clock);
    text_free(answer->text);
    answer->text = NULL;
    rankquery_free(&answer->call);
}
