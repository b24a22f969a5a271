/* SPDX-License-Identifier: Apache-2.0
 * HELLO decides which supervisors join, and as which nodes. The nodes that have joined compare
 * their directories, and measure the network between them. See chief_parts.h.
 */
#include "core/chief/chief_parts.h"

#include "base/clock.h"
#include "base/str.h"
#include "core/common/ring.h"

#include <stdio.h>
#include <string.h>

/* --- admit or refuse --- */

/* "host, pid 7, 10.0.0.1:4711" */
static char *caller_text(const struct caller *caller, char *text, size_t size)
{
    snprintf(text, size, "%.40s", caller->host);
    if (caller->pid)
        str_addf(text, size, ", pid %u", caller->pid);
    if (caller->from[0])
        str_addf(text, size, ", %s", caller->from);
    return text;
}

static void send_refusal(struct chief *chief, int conn, enum log_level level, const char *why)
{
    struct peermsg msg = {.type = PEERMSG_REFUSED, .stamp = chief_stamp(chief)};
    str_copy(msg.refused.why, sizeof msg.refused.why, why);
    out_log(chief->out, level, "join", "refused: %s%s", why,
            chief_is_joining(chief) ? "; the job still waits for its nodes" : "");
    str_fit(chief->refusal, sizeof chief->refusal, why);
    out_send(chief->out, conn, &msg);
    out_act(chief->out, &(struct action){.type = ACT_CLOSE, .peer = {.conn = conn}});
}

PRINTF_LIKE(3, 4)
static void refuse_caller(struct chief *chief, int conn, const char *fmt, ...)
{
    char why[PEERMSG_WHY_SIZE];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    send_refusal(chief, conn, LOG_WARN, why);
}

static void welcome_caller(struct chief *chief, int conn)
{
    struct peermsg msg = {.type = PEERMSG_WELCOME,
                          .stamp = chief_stamp(chief),
                          .welcome = {.incarnation = chief->params->incarnation,
                                      .resume_step = chief->order.commit_step}};
    out_send(chief->out, conn, &msg);
}

/* The first join of a node is logged at debug level only: a job may have a thousand nodes. */
static void log_joined(struct chief *chief, const struct peer *peer, bool is_new)
{
    char text[128];
    if (peer->at.conn != CONN_SELF)
        out_log(chief->out, is_new ? LOG_DEBUG : LOG_INFO, "join", "node %d (%s) %s, %d of %d",
                chief_rank_of(chief, peer), caller_text(&peer->at, text, sizeof text),
                is_new ? "joined" : "is back", chief->count[FACT_JOINED], chief->params->nnodes);
    if (peer->at.commit_step > chief->order.commit_step)
        out_log(chief->out, LOG_WARN, "join",
                "node %d knows of a commit at step %llu, node 0 only of step %llu; is "
                "checkpoint.dir the same?",
                chief_rank_of(chief, peer), ull(peer->at.commit_step),
                ull(chief->order.commit_step));
}

/* From now on the caller is this node; it gets a WELCOME and the present order. */
static void admit(struct chief *chief, struct peer *peer, const struct caller *caller)
{
    int old = peer->at.conn;
    if (old != CONN_NONE && old != caller->conn)
        out_act(chief->out, &(struct action){.type = ACT_CLOSE, .peer = {.conn = old}});
    bool is_new = peer->at.incarnation != caller->incarnation;
    if (is_new)
        chief_reset(chief, peer);
    chief_set_conn(chief, peer, caller->conn);
    peer->at = *caller;
    peer->last_heard = peer->status_at = peer->answered_at = chief->out->now;
    peer->down_at = CLOCK_NEVER;
    if (caller->conn != CONN_SELF)
        chief->next_loss_at =
            clock_min(chief->next_loss_at, chief->out->now + chief->params->heartbeat_timeout_ns);
    chief_set_fact(chief, peer, FACT_JOINED, true);
    chief_note(chief, peer);
    welcome_caller(chief, caller->conn);
    chief_send_order(chief, caller->conn, 0);
    log_joined(chief, peer, is_new);
}

/* --- two supervisors for one node ---
 *
 * Either the first supervisor died and its scheduler started it again, or the second one is a
 * mistake, such as a copied command line. Only one thing tells them apart: node 0 still hears the
 * first, or does not. So the second supervisor, the claim, waits; node 0 sends it empty orders.
 *
 * Node 0 refuses the claim as soon as it hears the first supervisor. If the first stays silent
 * before the start, the claim becomes the node. After the start the node is lost, as without a
 * claim. The claim is then told the end of the job, and ends with the same code as all nodes. An
 * open save that has the lost node's part may finish first. So a claim cannot end a healthy job.
 */

static void refuse_as_twin(struct chief *chief, struct peer *peer, const struct caller *twin)
{
    char first[128], second[128];
    refuse_caller(chief, twin->conn,
                  "two nodes with rank %d: %s; and %s, which came later. Give each its own "
                  "--node-rank",
                  chief_rank_of(chief, peer), caller_text(&peer->at, first, sizeof first),
                  caller_text(twin, second, sizeof second));
}

void chief_tell_duplicate(struct chief *chief, struct peer *peer)
{
    bool ends = chief->order.end != END_NONE && !chief->order.restart;
    if (!ends || peer->duplicate.conn == CONN_NONE)
        return;
    if (!peer->has_told_duplicate)
        welcome_caller(chief, peer->duplicate.conn);
    peer->has_told_duplicate = true;
    chief_send_order(chief, peer->duplicate.conn, 0);
}

/* A node acts only on a higher order number. So this order, number 0, changes nothing. */
void chief_hold_duplicates(struct chief *chief)
{
    struct peermsg msg = {
        .type = PEERMSG_ORDER, .stamp = chief_stamp(chief), .order = {.end_left_ms = -1}};
    for (int i = 1; i < chief->params->nnodes; i++)
        if (chief->peers[i].duplicate.conn != CONN_NONE)
            out_send(chief->out, chief->peers[i].duplicate.conn, &msg);
}

static void hold_duplicate(struct chief *chief, struct peer *peer, const struct caller *caller)
{
    char text[128];
    if (peer->duplicate.conn != CONN_NONE && peer->duplicate.incarnation != caller->incarnation) {
        refuse_as_twin(chief, peer, caller); /* a third supervisor is always a mistake */
        return;
    }
    if (peer->duplicate.conn != CONN_NONE && peer->duplicate.conn != caller->conn)
        out_act(chief->out,
                &(struct action){.type = ACT_CLOSE, .peer = {.conn = peer->duplicate.conn}});
    peer->duplicate = *caller;
    peer->has_told_duplicate = false;
    chief_tell_duplicate(chief, peer);
    out_log(chief->out, LOG_INFO, "join", "node %d: %s says that it is this node, too",
            chief_rank_of(chief, peer), caller_text(caller, text, sizeof text));
}

void chief_refuse_duplicate(struct chief *chief, struct peer *peer)
{
    if (peer->duplicate.conn == CONN_NONE || peer->has_told_duplicate)
        return;
    refuse_as_twin(chief, peer, &peer->duplicate);
    peer->duplicate = (struct caller){0};
}

/* Where a node may be replaced, its lease counts from its HELLO. The HELLO of the claim may be old
 * by now, so the claim has to call again. */
static void admit_duplicate(struct chief *chief, struct peer *peer)
{
    struct caller duplicate = peer->duplicate;
    if (duplicate.conn == CONN_NONE)
        return;
    peer->duplicate = (struct caller){0};
    if (chief->params->replace_wait_ns > 0)
        out_act(chief->out, &(struct action){.type = ACT_CLOSE, .peer = {.conn = duplicate.conn}});
    else
        admit(chief, peer, &duplicate);
}

void chief_unjoin(struct chief *chief, struct peer *peer)
{
    peer->went_at = chief->out->now;
    if (all_are(chief, FACT_JOINED)) /* cluster.join_timeout may be over */
        chief->rejoin_until = chief->out->now + chief->params->reconnect_ns;
    chief_set_fact(chief, peer, FACT_JOINED, false);
    admit_duplicate(chief, peer);
}

/* --- the replacement of a node ---
 *
 * The place of a lost node is vacant while the job waits. Any supervisor that has not been in this
 * job may take it. A supervisor that was told the number of the attempt has been in it.
 *
 * Before the first start the place of a node that has not joined may be vacant, too. The node
 * itself may still come, and takes the place if it is first. */

void chief_vacate(struct chief *chief, struct peer *peer)
{
    chief_set_fact(chief, peer, FACT_VACANT, true);
    admit_duplicate(chief, peer);
}

/* Its saves are on its own disk, which the replacement does not have. */
static bool misses_saves(const struct chief *chief, const struct caller *caller)
{
    const struct core_params *p = chief->params;
    return p->has_record && !p->shares_saves && caller->commit_step < chief->order.commit_step;
}

static void log_taken(const struct chief *chief, const struct peer *peer,
                      const struct caller *caller)
{
    char text[128];
    int node = chief_rank_of(chief, peer);
    caller_text(caller, text, sizeof text);
    if (!peer->at.incarnation)
        out_log(chief->out, LOG_NOTICE, "replace",
                "the place of node %d, which had not joined, is taken by %s", node, text);
    else if (peer->at.incarnation != caller->incarnation)
        out_log(chief->out, LOG_NOTICE, "replace", "node %d (%.40s) is replaced by %s", node,
                peer->at.host, text);
}

static void fill_place(struct chief *chief, struct peer *peer, const struct caller *caller)
{
    const struct core_params *p = chief->params;
    char text[128];
    caller_text(caller, text, sizeof text);
    chief_end_call(chief, peer);
    if (misses_saves(chief, caller)) {
        refuse_caller(chief, caller->conn,
                      "node %d: %s does not have the save of step %llu, and the nodes do not share "
                      "checkpoint.dir: only the same disk can take this place",
                      chief_rank_of(chief, peer), text, ull(chief->order.commit_step));
        return;
    }
    log_taken(chief, peer, caller);
    chief_set_fact(chief, peer, FACT_VACANT, false);
    chief_set_fact(chief, peer, FACT_LOST, false);
    chief->gen.replace.first = chief_first(chief, FACT_VACANT);
    out_simple(chief->out, ACT_STATE);
    peer->was_replaced = true;
    peer->may_run = peer->is_unfit = false;
    peer->roster[0] = '\0';
    if (chief_is_restarting(chief)) /* it is to say that it is gone */
        chief->gen.leave_deadline =
            clock_max(chief->gen.leave_deadline, chief->out->now + p->heartbeat_timeout_ns);
    chief->is_changed = true;
    admit(chief, peer, caller);
}

/* A supervisor that was given up, or replaced. */
static void refuse_former(struct chief *chief, const struct peer *peer, const struct caller *caller,
                          enum log_level level)
{
    char now[128], former[128], why[PEERMSG_WHY_SIZE];
    int rank = chief_rank_of(chief, peer);
    caller_text(caller, former, sizeof former);
    if (peer_is(peer, FACT_LOST))
        snprintf(why, sizeof why, "node %d (%s) is no longer part of the job: %s", rank, former,
                 peer->lost_why);
    else
        snprintf(why, sizeof why, "node %d (%s) was replaced by %s", rank, former,
                 caller_text(&peer->at, now, sizeof now));
    send_refusal(chief, caller->conn, level, why);
}

void chief_dismiss(struct chief *chief, struct peer *peer)
{
    struct caller former = peer->at;
    if (former.conn == CONN_NONE)
        return;
    chief_set_conn(chief, peer, CONN_NONE);
    refuse_former(chief, peer, &former, LOG_INFO); /* its end is logged already */
}

void chief_forget_duplicate(struct chief *chief, int conn)
{
    for (int i = 0; i < chief->params->nnodes; i++)
        if (chief->peers[i].duplicate.conn == conn)
            chief->peers[i].duplicate = (struct caller){0};
}

/* Of two spares with one number the later one counts: the machine of the first may be gone, and
 * nothing is lost with it. If both were let in, each would take the other's place for ever. */
static void admit_spare(struct chief *chief, int number, const struct caller *caller)
{
    char one[128], two[128];
    struct caller *first = &chief->spares[number].at;
    if (first->conn != CONN_NONE && first->incarnation != caller->incarnation) {
        refuse_caller(chief, first->conn,
                      "two spares with rank %d: %s; and %s, which came later. Give each its own "
                      "--node-rank",
                      number, caller_text(first, one, sizeof one),
                      caller_text(caller, two, sizeof two));
        first->conn = CONN_NONE;
    }
    chief_admit_spare(chief, number, caller);
}

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

/* The numbers from nnodes on are of spares. */
static bool has_number(const struct core_params *p, const struct peer_hello *h)
{
    return h->stands_by ? h->node_rank < (uint32_t)(p->nnodes + p->spares) && p->spares > 0
                        : h->node_rank < (uint32_t)p->nnodes;
}

/* The caller belongs to this job and has the settings of node 0. */
static bool is_compatible(struct chief *chief, const struct caller *caller,
                          const struct peermsg *msg)
{
    const struct core_params *p = chief->params;
    const struct peer_hello *h = &msg->hello;
    char ours[96], theirs[96], who[128];
    int conn = caller->conn;
    caller_text(caller, who, sizeof who);
    if (!h->job[0])
        refuse_caller(
            chief, conn,
            "%s speaks another version of the protocol; node 0 speaks version %d. Install "
            "the same pchrun everywhere",
            caller->from[0] ? caller->from : "a supervisor", PEERMSG_VERSION);
    else if (!str_is(h->job, p->identity))
        refuse_caller(chief, conn,
                      "node %u (%s) belongs to job \"%s\", node 0 to \"%s\"; " JOB_ADVICE,
                      h->node_rank, who, h->job, p->identity);
    else if (h->nnodes != (uint32_t)p->nnodes)
        refuse_caller(chief, conn,
                      "node %u (%s) says that %u nodes train; node 0 says %d; set the same "
                      "cluster.nnodes, cluster.nodes and cluster.spares on every node",
                      h->node_rank, who, h->nnodes, p->nnodes);
    else if (!has_number(p, h))
        refuse_caller(chief, conn,
                      "node rank %u (%s) is out of range: the job has %d nodes%s, counted from 0",
                      h->node_rank, who, p->nnodes, p->spares ? ", then its spares" : "");
    else if (h->stands_by && h->node_rank < (uint32_t)p->nnodes &&
             !chief->peers[h->node_rank].was_replaced)
        refuse_caller(chief, conn,
                      "node %u (%s) stands by, and no other supervisor has its place in this "
                      "attempt; start it again",
                      h->node_rank, who);
    else if (first_difference(p->settings, h->settings, ours, theirs, sizeof ours))
        refuse_caller(chief, conn, "node %u (%s) has %s, node 0 has %s; set the same on every node",
                      h->node_rank, who, theirs[0] ? theirs : "nothing",
                      ours[0] ? ours : "nothing");
    else if (h->node_rank == 0 && conn != CONN_SELF)
        refuse_caller(chief, conn,
                      "%s says that it is node 0, which is this one; is its --node-rank right?",
                      who);
    else if (msg->stamp.attempt && msg->stamp.attempt != p->attempt)
        refuse_caller(chief, conn, "node %u (%s) is of attempt %u; this is attempt %u",
                      h->node_rank, who, msg->stamp.attempt, p->attempt);
    else if (msg->stamp.epoch != p->epoch)
        refuse_caller(chief, conn,
                      "node %u (%s) follows a node 0 of epoch %u, this one is of epoch %u; stop "
                      "this pchrun if another node has taken node 0's place",
                      h->node_rank, who, msg->stamp.epoch, p->epoch);
    else
        return true;
    return false;
}

/* No supervisor has joined as this node, or the one that had joined ended before the start. */
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
    if (h->stands_by) {
        admit_spare(chief, (int)h->node_rank, &caller);
        return;
    }
    struct peer *peer = &chief->peers[h->node_rank];
    bool is_other = peer->at.incarnation && peer->at.incarnation != h->incarnation;
    bool is_former = msg->stamp.attempt > 0 && (chief->order.start || peer->was_replaced);
    bool may_come = chief_is_restarting(chief) || !chief->order.start; /* also to hear of the end */
    if (is_other && is_former && chief->params->replace_wait_ns > 0) {
        refuse_former(chief, peer, &caller, LOG_WARN);
        return;
    }
    if (peer_is(peer, FACT_VACANT) && may_come && (is_other || !peer_is(peer, FACT_LOST))) {
        fill_place(chief, peer, &caller);
        return;
    }
    if (is_other && peer->was_replaced && chief->spares) {
        chief_let_stand_by(chief, conn);
        return;
    }
    if (is_other && !is_vacant(chief, peer)) {
        hold_duplicate(chief, peer, &caller);
        return;
    }
    if (peer_is(peer, FACT_LOST) && !is_other) {
        refuse_former(chief, peer, &caller, LOG_WARN);
        return;
    }
    chief_refuse_duplicate(chief, peer);
    admit(chief, peer, &caller);
}

/* --- the directory that the nodes are to share --- */

void chief_tell_dirs(struct chief *chief)
{
    char others[96];
    int n = chief->params->nnodes - chief->count[FACT_SAME_DIR];
    if (chief->has_told_dirs || !chief->params->shared_dir[0] || n == 0 ||
        any_is(chief, FACT_LOOKS) || !all_are(chief, FACT_HEARD))
        return;
    chief->has_told_dirs = true;
    chief_list_without(chief, FACT_SAME_DIR, others, sizeof others);
    out_log(chief->out, LOG_WARN, "join",
            "node%s %s %s not have node 0's %s, but another one: a rank there cannot load what "
            "another node saved. Give all nodes one directory of a shared file system, or, if "
            "each rank loads only what its own node saved, set --no-checkpoint-shared",
            n > 1 ? "s" : "", others, n > 1 ? "do" : "does", chief->params->shared_dir);
}

/* --- the network between the nodes --- */

/* Normal: every node listens within a round trip. */
#define LISTEN_NS (2 * NS_PER_S)
/* A connection may take 3 s, and a transfer 2 s. */
#define TRANSFER_NS (6 * NS_PER_S)

/* A node that comes and goes delays the start no further. */
enum { MEASURED_AGAIN_MAX = 2 };

static const struct peer_link *link_of(const void *of, int node)
{
    const struct peer *peer = &((const struct chief *)of)->peers[node];
    return peer_is(peer, FACT_LISTENS) ? &peer->status.link : NULL;
}

static const char *host_of(const void *of, int node)
{
    return ((const struct chief *)of)->peers[node].at.host;
}

static void set_measure(struct chief *chief, struct peer_measure measure, int64_t ns)
{
    chief->order.measure = measure;
    chief->measure_until = chief->out->now + ns;
    chief->is_changed = true;
}

static void measure(struct chief *chief)
{
    uint32_t number = ++chief->measurements;
    out_log(chief->out, LOG_INFO, "network", "measuring %d pairs of nodes", chief->params->nnodes);
    set_measure(chief, (struct peer_measure){.number = number}, LISTEN_NS);
    chief_note_all(chief);
}

static void end_measure(struct chief *chief)
{
    const struct ring ring = {
        .n = chief->params->nnodes, .of = chief, .link = link_of, .host = host_of};
    chief->network = ring_judge(&ring);
    ring_say(&ring, &chief->network, chief->out);
    chief->measured_again = 0;
    set_measure(chief, (struct peer_measure){0}, 0);
}

bool chief_knows_network(struct chief *chief)
{
    const struct peer_measure *now = &chief->order.measure;
    bool is_late = chief->out->now >= chief->measure_until;
    if (!chief->params->checks_net || chief->params->nnodes == 1)
        return true;
    if (chief->measured_again > MEASURED_AGAIN_MAX) {
        out_log(chief->out, LOG_WARN, "network",
                "not measured: each time a node lost its connection to node 0");
        chief->measured_again = 0;
        return true;
    }
    if (now->number == 0) {
        measure(chief);
    } else if (!now->begins && (all_are(chief, FACT_LISTENS) || is_late)) {
        set_measure(chief, (struct peer_measure){.number = now->number, .begins = 1}, TRANSFER_NS);
    } else if (now->begins && (all_are(chief, FACT_MEASURED) || is_late)) {
        end_measure(chief);
        return true;
    }
    return false;
}

/* The measurement would blame its neighbour. */
void chief_cut_measure(struct chief *chief)
{
    if (chief->order.measure.number == 0)
        return;
    chief->measured_again++;
    set_measure(chief, (struct peer_measure){0}, 0);
}

int64_t chief_measures_until(const struct chief *chief)
{
    return chief->order.measure.number > 0 ? chief->measure_until : CLOCK_NEVER;
}
