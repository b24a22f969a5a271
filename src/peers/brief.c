/* SPDX-License-Identifier: Apache-2.0
 * See brief.h.
 */
#include "peers/brief.h"

#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "core/common/verdict.h"
#include "loop/watch.h"
#include "peers/cluster.h"

#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* A running pchrun answers at once. */
#define CLAIM_WAIT_NS NS_PER_S
/* The others read the last message within a round trip or not at all. */
#define CLOSE_WAIT_NS NS_PER_S
/* How often a node that cannot start tries to reach node 0, which may start a little later. */
#define RETRY_NS (200 * NS_PER_MS)
/* Room for connections that belong to no node. */
enum { GUESTS_MORE = 256 };

struct brief {
    const struct config *config;
    const struct err *why; /* why this node cannot start */
    struct cluster cluster;
    struct address bind;
    struct event_base *base;
    struct watch clock, signal;
    int64_t until;
    bool is_over;
    bool is_down; /* the connection to node 0 is to be made again */
    char host[64];
    int64_t wall; /* when this node failed */
    uint64_t seq;
    bool has_heard;                /* node 0 knows, and ends the job */
    char answer[PEERMSG_WHY_SIZE]; /* node 0 refuses this node: its words; "": it does not */
    char lost[256];                /* why there is no connection to node 0; "": there is */
    bool *told;                    /* on node 0: these nodes know why */
    int ntold;
};

/* --- the conversation --- */

static void brief_on_clock(void *ctx)
{
    struct brief *brief = ctx;
    brief->is_over = brief->is_over || clock_now_ns() >= brief->until;
    watch_at(&brief->clock, brief->until);
    if (!brief->is_over && brief->is_down)
        peers_connect(brief->cluster.peers, &brief->cluster.chief);
    brief->is_down = false;
}

static void brief_on_signal(void *ctx)
{
    ((struct brief *)ctx)->is_over = true;
}

static void brief_say_hello(void *ctx, int conn)
{
    struct brief *brief = ctx;
    const struct config *config = brief->config;
    struct peermsg msg = {.type = PEERMSG_HELLO,
                          .hello = {.incarnation = (uint64_t)clock_real_ns() ^ (uint64_t)getpid(),
                                    .node_rank = (uint32_t)config->cluster.node_rank,
                                    .nnodes = (uint32_t)config->cluster.nnodes,
                                    .pid = (uint32_t)getpid()}};
    str_copy(msg.hello.host, sizeof msg.hello.host, brief->host);
    if (str_copy(msg.hello.job, sizeof msg.hello.job, config_job_identity(config)) &&
        config_binding(config, msg.hello.settings, sizeof msg.hello.settings))
        peers_send(brief->cluster.peers, conn, &msg);
    else
        brief->is_over = true;
}

static void take_refusal(struct brief *brief, const struct peermsg *msg)
{
    str_fit(brief->answer, sizeof brief->answer, msg->refused.why);
    brief->is_over = true;
}

/* False: nothing can be told. */
static bool brief_open(struct brief *brief, int64_t wait_ns, struct peers_options *options)
{
    struct err err;
    brief->base = watch_open(&err);
    if (!brief->base || !cluster_prepare(&brief->cluster, brief->config, &brief->bind, &err))
        return false;
    if (gethostname(brief->host, sizeof brief->host - 1) != 0)
        str_copy(brief->host, sizeof brief->host, "unknown");
    options->base = brief->base;
    options->arg = brief;
    options->on_up = brief_say_hello;
    options->tls = brief->cluster.tls;
    options->close_wait_ns = CLOSE_WAIT_NS;
    brief->cluster.peers = peers_new(options);
    if (!brief->cluster.peers)
        return false;
    brief->until = clock_now_ns() + wait_ns;
    watch_init(&brief->clock, brief->base, brief_on_clock, brief);
    watch_at(&brief->clock, brief->until);
    return true;
}

static void brief_run(struct brief *brief)
{
    while (!brief->is_over && watch_turn(brief->base))
        ;
    cluster_finish(&brief->cluster);
    while (cluster_is_busy(&brief->cluster) && watch_turn(brief->base))
        ;
}

static void brief_free(struct brief *brief)
{
    watch_end(&brief->clock);
    watch_end(&brief->signal);
    cluster_free(&brief->cluster);
    free(brief->told);
    if (brief->base)
        watch_close(brief->base);
}

/* --- two nodes with rank 0 --- */

static void hear_duplicate(void *ctx, int conn, const char *from, const struct peermsg *msg)
{
    struct brief *brief = ctx;
    if (msg->type == PEERMSG_REFUSED)
        take_refusal(brief, msg);
    brief->is_over = true;
}

static void lose_duplicate(void *ctx, int conn, const char *why, bool has_ended)
{
    ((struct brief *)ctx)->is_over = true;
}

void brief_tell_duplicate(const struct config *config)
{
    struct brief brief = {.config = config};
    struct peers_options options = {
        .on_message = hear_duplicate, .on_down = lose_duplicate, .connect_wait_ns = CLAIM_WAIT_NS};
    if (config->cluster.nnodes == 1 || config->cluster.node_rank != 0)
        return;
    if (brief_open(&brief, CLAIM_WAIT_NS, &options)) {
        peers_connect(brief.cluster.peers, &brief.cluster.chief);
        brief_run(&brief);
    }
    if (brief.answer[0])
        log_warn("join",
                 "this is node 0, but another node 0 runs at %s, port %d, and answers: \"%s\". "
                 "Unless that one is about to end, give each node its own --node-rank",
                 brief.cluster.chief.host, brief.cluster.chief.port, brief.answer);
    brief_free(&brief);
}

/* --- node 0 cannot start --- */

/* A node of another version sends an empty job, but understands the answer. Any other job finds out
 * by itself that its node 0 is not here. */
static void tell_caller(void *ctx, int conn, const char *from, const struct peermsg *msg)
{
    struct brief *brief = ctx;
    const struct peer_hello *hello = &msg->hello;
    struct peermsg answer = {.type = PEERMSG_REFUSED};
    int supervisors = cluster_supervisors(brief->config);
    if (msg->type != PEERMSG_HELLO)
        return;
    bool is_ours = str_is(hello->job, config_job_identity(brief->config));
    snprintf(answer.refused.why, sizeof answer.refused.why, "node 0 (%s) cannot start: %s",
             brief->host, brief->why->text);
    if (is_ours || !hello->job[0])
        peers_send(brief->cluster.peers, conn, &answer);
    peers_close(brief->cluster.peers, conn);
    if (is_ours && hello->node_rank > 0 && hello->node_rank < (uint32_t)supervisors &&
        !brief->told[hello->node_rank]) {
        brief->told[hello->node_rank] = true;
        brief->is_over = ++brief->ntold == supervisors - 1;
    }
}

static void lose_caller(void *ctx, int conn, const char *why, bool has_ended)
{
}

/* False: the address is taken, or is not one of this machine. */
static bool wait_for_others(struct brief *brief)
{
    struct err err;
    brief->told = calloc((size_t)cluster_supervisors(brief->config), sizeof brief->told[0]);
    return brief->told && peers_listen(brief->cluster.peers, &brief->bind, &err);
}

/* --- another node cannot start --- */

/* The STATUS that the core of this node would send after such a failure. */
static void say_failure(struct brief *brief, int conn, uint8_t life, const struct peer_stamp *heard)
{
    struct peermsg msg = {.type = PEERMSG_STATUS,
                          .stamp = *heard,
                          .status = {.life = life, .seen = heard->seq},
                          .cause = {.fault = FAULT_START,
                                    .node = brief->config->cluster.node_rank,
                                    .rank = -1,
                                    .code = EXIT_OWN_ERROR,
                                    .error_ns = -1,
                                    .wall_ns = brief->wall}};
    msg.stamp.seq = ++brief->seq;
    str_copy(msg.cause.host, sizeof msg.cause.host, brief->host);
    str_fit(msg.cause.text, sizeof msg.cause.text, brief->why->text);
    peers_send(brief->cluster.peers, conn, &msg);
}

/* Node 0 waits for this node until it has seen the newest order that ends the job. */
static void hear_chief(void *ctx, int conn, const char *from, const struct peermsg *msg)
{
    struct brief *brief = ctx;
    if (msg->type == PEERMSG_REFUSED) {
        take_refusal(brief, msg);
    } else if (msg->type == PEERMSG_STANDBY) { /* another supervisor has this node's place */
        brief->has_heard = brief->is_over = true;
    } else if (msg->type == PEERMSG_WELCOME) {
        say_failure(brief, conn, LIFE_FAILED, &msg->stamp);
    } else if (msg->type == PEERMSG_ORDER && msg->order.end != END_NONE) {
        say_failure(brief, conn, LIFE_GONE, &msg->stamp);
        brief->has_heard = true;
        brief->is_over = msg->order.end == END_LEAVE;
    }
}

static void brief_lose_chief(void *ctx, int conn, const char *why, bool has_ended)
{
    struct brief *brief = ctx;
    brief->is_over = brief->has_heard;
    brief->is_down = true;
    str_fit(brief->lost, sizeof brief->lost, why);
    watch_at(&brief->clock, clock_min(brief->until, clock_now_ns() + RETRY_NS));
}

/* --- either --- */

static void say_result(const struct brief *brief)
{
    if (brief->config->cluster.node_rank == 0)
        log_info("join", "told %d of %d other nodes why", brief->ntold,
                 cluster_supervisors(brief->config) - 1);
    else if (brief->answer[0])
        log_info("join", "node 0 answers: %s", brief->answer);
    else if (!brief->has_heard)
        log_info("join", "node 0 was not told: %s", brief->lost[0] ? brief->lost : "no answer");
}

static void brief_tell(struct brief *brief, int64_t wait_ns)
{
    char within[32];
    bool is_chief = brief->config->cluster.node_rank == 0;
    log_error("start", "this node cannot start, and waits to tell %s, for %s at most: %s",
              is_chief ? "the others" : "node 0", str_duration(wait_ns, within, sizeof within),
              brief->why->text);
    if (!is_chief)
        peers_connect(brief->cluster.peers, &brief->cluster.chief);
    brief_run(brief);
    say_result(brief);
}

void brief_tell_failure(const struct config *config, const sigset_t *end, const struct err *why)
{
    struct brief brief = {.config = config, .why = why, .wall = clock_real_ns()};
    bool is_chief = config->cluster.node_rank == 0;
    int64_t wait_ns = clock_min(config->cluster.join_timeout_ns, BRIEF_TELL_NS);
    struct peers_options options = {.on_message = is_chief ? tell_caller : hear_chief,
                                    .on_down = is_chief ? lose_caller : brief_lose_chief,
                                    .guests_max = cluster_supervisors(config) + GUESTS_MORE};
    struct err err;
    if (config->cluster.nnodes == 1)
        return;
    FD_CLEANUP int signals = signalfd(-1, end, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals < 0 || !brief_open(&brief, wait_ns, &options) ||
        (is_chief && !wait_for_others(&brief))) {
        brief_free(&brief);
        return;
    }
    watch_init(&brief.signal, brief.base, brief_on_signal, &brief);
    if (watch_fd(&brief.signal, signals, &err))
        brief_tell(&brief, wait_ns);
    brief_free(&brief);
}
