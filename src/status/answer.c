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

/* Other events run after this many ranks and nodes, which take about half a millisecond. The ranks
 * of one node are never split. */
enum { WRITTEN_AT_ONCE = 128 };
/* Bytes of the command, which only tells a person which job it is. */
enum { COMMAND_MAX = 200 };
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

/* The steps of the ranks of a node, one after the other; `at`: when they were read. A command that
 * has not attached, and prints no step, has none. */
static void look_at_steps(struct core_peer_report *node, const struct peer_rank *rank, int64_t at)
{
    bool is_first = node->heard_at != at;
    if (!rank->attached && rank->step == 0)
        return;
    if (is_first || rank->step < node->lowest)
        node->lowest = rank->step;
    if (is_first || rank->step > node->highest)
        node->highest = rank->step;
    if (rank->pace > 0)
        node->steps_per_s = (double)rank->pace / 1e6;
    if (rank->age_ns >= 0 && at - rank->age_ns > node->moved_at)
        node->moved_at = at - rank->age_ns;
    node->heard_at = at;
}

/* Node 0's last STATUS about itself may be old: take the snapshot instead. */
static void look_at_own(struct core_peer_report *own, const struct status_ranks *ranks)
{
    own->moved_at = own->heard_at = 0;
    for (int i = 0; i < ranks->n; i++) {
        struct peer_rank rank = status_rank(ranks, i);
        look_at_steps(own, &rank, ranks->now);
    }
    own->heard_at = ranks->now;
}

/* A STATUS has no steps of processes that only count or print them (watchdog.log). */
static void look_at_counters(struct core_peer_report *node, const struct rankquery_node *told)
{
    for (int i = 0; node->ranks_attached == 0 && i < told->n; i++)
        look_at_steps(node, &told->list[i], told->told_at);
}

static void add_command(struct writer *w, char *const *words)
{
    char all[4096] = "", text[COMMAND_MAX];
    for (size_t i = 0; words[i] && str_addf(all, sizeof all, "%s%s", i ? " " : "", words[i]); i++)
        ;
    str_fit(text, sizeof text, all);
    writer_text(w, "command", text);
}

static void write_head(const struct answer *answer, struct writer *w, const struct err *bad,
                       const struct core_report *was)
{
    char now[32], since[32], at[ADDRESS_TEXT_MAX];
    const struct address *chief = &answer->cluster->chief;
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
    writer_int(w, "stops_given_up", was->stops_given_up);
    writer_end(w);
    writer_int(w, "pid", answer->params->pid);
    writer_text(w, "host", answer->params->host);
    writer_text(w, "since", clock_iso8601(answer->since_ns, since, sizeof since));
    add_command(w, answer->command);
    writer_text(w, "chief", chief->host[0] ? address_text(chief, at) : NULL);
    writer_int_if(w, "heartbeat_ms", answer->params->heartbeat_interval_ns / NS_PER_MS,
                  answer->params->nnodes > 1);
    writer_text(w, "state_dir", answer->report->record->dir);
    writer_text(w, "events_file", answer->journal->file.out.file.path);
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
    text->peers = calloc((size_t)answer->params->nnodes, sizeof *text->peers);
    if (text->peers)
        text->npeers = core_peers(answer->report->core, text->peers, answer->params->nnodes);
    if (text->npeers > 0)
        look_at_own(text->peers, &text->own);
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

static void answer_add_rank(struct writer *w, int node_rank, const struct peer_rank *rank,
                            int64_t ago_ns)
{
    writer_object(w, NULL);
    status_add_rank(w, node_rank, rank, ago_ns);
    writer_end(w);
}

/* Returns how many ranks it wrote. */
static int write_ranks(const struct answer *answer, struct answer_text *text, int node)
{
    char why[64];
    int n = 0;
    if (node == answer->params->node_rank) {
        for (; n < text->own.n; n++) {
            struct peer_rank own = status_rank(&text->own, n);
            answer_add_rank(&text->w, node, &own, 0);
        }
        return n;
    }
    const struct rankquery_node *told = rankquery_told(&answer->call, node, why, sizeof why);
    for (; told && n < told->n; n++)
        answer_add_rank(&text->w, node, &told->list[n], text->own.now - told->told_at);
    return n;
}

static void write_node(const struct answer *answer, struct answer_text *text, int node)
{
    struct writer *w = &text->w;
    struct core_peer_report *peer = &text->peers[node];
    char why[64] = "it was not asked";
    bool is_own = node == answer->params->node_rank;
    const struct rankquery_node *told =
        text->has_asked && !is_own ? rankquery_told(&answer->call, node, why, sizeof why) : NULL;
    bool is_known = is_own || told;
    bool has_ranks = !str_is(peer->state, "gone") && !str_is(peer->state, "lost");
    if (told)
        look_at_counters(peer, told);
    writer_object(w, NULL);
    writer_int(w, "node_rank", peer->node_rank);
    writer_text(w, "host", peer->host[0] ? peer->host : NULL);
    writer_text(w, "name", answer->params->names ? answer->params->names[node] : NULL);
    writer_text(w, "state", peer->state);
    writer_bool(w, "connected", peer->is_connected);
    writer_bool(w, "notice", peer->has_notice);
    writer_int(w, "ranks_attached", has_ranks ? peer->ranks_attached : 0);
    writer_int_if(w, "ranks_expected", peer->ranks_expected, peer->ranks_expected >= 0);
    writer_int(w, "lowest_step", (int64_t)peer->lowest);
    writer_int(w, "highest_step", (int64_t)peer->highest);
    status_add_steprate(w, has_ranks ? peer->steps_per_s : 0);
    status_add_age(w, "step_age", peer->moved_at ? text->own.now - peer->moved_at : -1);
    status_add_age(w, "heard_age", peer->heard_at ? text->own.now - peer->heard_at : -1);
    writer_text(w, "why", peer->why[0] ? peer->why : NULL);
    writer_bool(w, "ranks_known", is_known);
    writer_text(w, "ranks_unknown_why", is_known ? NULL : why);
    writer_end(w);
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
        control_answer_all(answer->control, false, line, len);
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

/* False: the client waits for the ranks of the other nodes. */
static bool answer_of_all(struct answer *answer, struct control_client *client,
                          const struct core_report *was)
{
    bool asks_all = answer->params->nnodes > 1 && answer->params->node_rank == 0;
    if (!asks_all || (!answer->is_asked && !rankquery_begin(&answer->call))) {
        answer_client(answer, client, NULL, was);
        return true;
    }
    answer->is_asked = true;
    return false;
}

void answer_end(struct answer *answer)
{
    if (!answer->is_asked)
        return;
    rankquery_end(&answer->call);
    watch_at(&answer->clock, CLOCK_NEVER);
    answer_go_on(answer, INT_MAX);
}

static void answer_with_metrics(struct answer *answer, struct control_client *client)
{
    struct writer w;
    size_t len;
    char *text = metrics_text(answer->metrics, &len);
    writer_init(&w, CONTROL_ANSWER_MAX, WRITER_LINE);
    writer_object(&w, NULL);
    writer_int(&w, "version", CONTROL_VERSION);
    writer_bool(&w, "ok", true);
    writer_text(&w, "metrics", text);
    writer_end(&w);
    const char *line = text ? writer_done(&w, &len) : NULL;
    if (line)
        control_answer(client, line, len);
    else
        log_warn("control", "no memory to answer pchrun-web");
    writer_free(&w);
    free(text);
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

static bool answer_can_save(const struct answer *answer, struct err *err)
{
    return answer->params->save_mode == SAVE_ATTACH ||
           err_set(err, ERR_USAGE, 0,
                   "only a program that attaches can save when it is asked by hand (save.mode)");
}

static bool answer_obey(struct answer *answer, const struct control_request *request,
                        struct err *err)
{
    char why[128];
    switch (request->verb) {
    case CONTROL_SAVE:
        if (!answer_can_save(answer, err))
            return false;
        loop_post(answer->attach->loop, &(struct event){.type = EV_SAVE_ASKED});
        break;
    case CONTROL_DRAIN:
        post_notice(answer, NOTICE_TERMINATE, request->left_ns, request->text);
        break;
    case CONTROL_CANCEL:
        post_notice(answer, NOTICE_CANCEL, 0, "");
        break;
    case CONTROL_STOP:
        if (request->saves && !answer_can_save(answer, err))
            return false;
        snprintf(why, sizeof why, "stopped by pchctl (process %d, user %d)", request->pid,
                 request->uid);
        loop_post(
            answer->attach->loop,
            &(struct event){.type = EV_STOP_ASKED, .stop = {.why = why, .saves = request->saves}});
        break;
    case CONTROL_STATUS:
    case CONTROL_EVENTS:
    case CONTROL_METRICS:
    case CONTROL__COUNT:
        break;
    }
    return true;
}

static bool on_asked(void *ctx, struct control_client *client,
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
        return true;
    }
    if (request->verb == CONTROL_METRICS) {
        answer_with_metrics(answer, client);
        return true;
    }
    if (request->verb == CONTROL_STATUS && request->is_of_all)
        return answer_of_all(answer, client, &was);
    if (request->verb != CONTROL_STATUS) {
        ok = can_ask(answer, &was, &err);
        if (ok)
            log_info("control", "pchctl (process %d, user %d): %s", request->pid, request->uid,
                     control_names[request->verb]);
        ok = ok && answer_obey(answer, request, &err);
    }
    answer_client(answer, client, ok ? NULL : &err, &was);
    return true;
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
    answer->since_ns = clock_real_ns();
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
    control_answer_all(answer->control, true, text, len);
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
