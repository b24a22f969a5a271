/* SPDX-License-Identifier: Apache-2.0
 * See cluster.h.
 */
#include "peers/cluster.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/keyfile.h"
#include "base/log.h"
#include "base/str.h"
#include "net/dial.h"
#include "net/resolve.h"
#include "net/tls.h"

#include <errno.h>
#include <event2/event.h>

/* The other side reads the last messages within a round trip, or never. These messages only
 * announce that this node leaves. */
#define LAST_WORDS_WAIT_NS NS_PER_S
/* Room for connections that belong to no node (port scans, health checks), and its lower bound. */
enum { GUESTS_MORE = 256, GUESTS_MIN = 16 };
/* Nodes that are started together are all running within this time. */
#define PATIENCE_NS NS_PER_S
/* How long the look-up of another node's name may take. */
#define NAME_WAIT_NS NS_PER_S

_Static_assert(PEERS_CHIEF == CONN_CHIEF, "peers and core number the connections alike");
_Static_assert(PEERS_FIRST == CONN_FIRST, "peers and core number the connections alike");

/* --- from peers --- */

static void on_up(void *ctx, int conn)
{
    struct cluster *cluster = ctx;
    loop_post(cluster->loop, &(struct event){.type = EV_CHIEF_UP, .peer = {.conn = conn}});
}

static void cluster_on_message(void *ctx, int conn, const char *from, const struct peermsg *msg)
{
    struct cluster *cluster = ctx;
    if (msg->type == PEERMSG_LOOK || msg->type == PEERMSG_RANKS) {
        cluster->on_ranks(cluster->ranks_ctx, conn, msg);
        return;
    }
    if (msg->type == PEERMSG_STANDBY && cluster->on_standby) {
        cluster->on_standby(cluster->standby_ctx);
        return;
    }
    if (msg->type == PEERMSG_WELCOME ||
        msg->type == PEERMSG_STANDBY) { /* only now is it known that node 0 answers */
        cluster->has_said_why = false;
        cluster->began_at = CLOCK_NEVER;
    }
    loop_post(cluster->loop, &(struct event){.type = EV_PEER_MESSAGE,
                                             .peer = {.conn = conn, .msg = msg, .from = from}});
}

/* A node may try to connect for minutes, at first many times a second, so the log gets each reason
 * only once. Log nothing while nodes that start together wait for each other. */
static void log_down(struct cluster *cluster, const char *why)
{
    char time[32];
    bool was_up = cluster->began_at == CLOCK_NEVER;
    if (cluster->has_said_why || (!was_up && clock_now_ns() - cluster->began_at < PATIENCE_NS))
        return;
    cluster->has_said_why = true;
    if (was_up)
        log_info("peers", "no connection to node 0: %s", why);
    else
        log_info("join", "waiting for node 0, for %s at most: %s",
                 str_duration(cluster->join_timeout_ns, time, sizeof time), why);
}

static void cluster_on_down(void *ctx, int conn, const char *why, bool has_ended)
{
    struct cluster *cluster = ctx;
    if (conn == CONN_CHIEF) /* the core logs other connections: it knows their nodes */
        log_down(cluster, why);
    loop_post(cluster->loop,
              &(struct event){.type = EV_PEER_DOWN,
                              .peer = {.conn = conn, .why = why, .has_ended = has_ended}});
}

static void on_strange(void *ctx, const char *why)
{
    struct cluster *cluster = ctx;
    loop_post(cluster->loop, &(struct event){.type = EV_PEER_STRANGE, .peer = {.why = why}});
}

/* --- beginning and end --- */

/* Where the other nodes look for node 0, and where node 0 listens. */
static bool take_addresses(struct cluster *cluster, const struct config *config,
                           struct address *ret_bind, struct err *err)
{
    const char *chief = config->cluster.chief ? config->cluster.chief : config->cluster.nodes[0];
    if (!address_parse(chief, config->cluster.port, &cluster->chief, err))
        return false;
    const char *bind = config->cluster.bind ? config->cluster.bind : chief;
    return address_parse(bind, cluster->chief.port, ret_bind, err);
}

static bool take_key(struct cluster *cluster, const struct config *config, struct err *err)
{
    struct key key;
    if (!config->cluster.key_file)
        return true;
    if (!keyfile_read(config->cluster.key_file, &key, err))
        return false;
    cluster->tls = tls_new(&key, config_job_identity(config), err);
    key_wipe(&key);
    return cluster->tls;
}

/* However many clients connect, record, report and processes must still get descriptors. */
static int guests_max(const struct config *config)
{
    int n = cluster_supervisors(config);
    int64_t wanted = n + GUESTS_MORE;
    int64_t room = fd_limit() - cluster_descriptors(config);
    return (int)(wanted < room ? wanted : room > GUESTS_MIN ? room : GUESTS_MIN);
}

/* With too few descriptors, no command could be started, or a rank could not attach. Node 0 would
 * lose nodes in the middle of the training. */
static void want_files(const struct config *config)
{
    int64_t need = cluster_descriptors(config);
    bool is_chief = config->cluster.nnodes > 1 && config->cluster.node_rank == 0;
    fd_limit_raise(is_chief ? need + cluster_supervisors(config) + GUESTS_MORE : need);
    if (is_chief && fd_limit() < need)
        log_warn("join",
                 "for %d nodes node 0 needs %lld open descriptors, but the limit is %lld: raise "
                 "the hard limit (ulimit -Hn, LimitNOFILE)",
                 cluster_supervisors(config), (long long)need, (long long)fd_limit());
}

/* The other nodes are on this machine, as far as their names tell. Looks up one name that is not
 * node 0's. */
static bool are_others_here(const struct config *config, const struct address *chief)
{
    char **entry = config->cluster.nodes;
    struct address other = *chief;
    struct netaddr_list list = {0};
    struct err err;
    while (*entry && str_is(other.host, chief->host))
        if (!address_parse(*entry++, chief->port, &other, &err))
            return true;
    if (str_is(other.host, chief->host))
        return config->cluster.nodes[0];
    return resolve_wait(&other, NAME_WAIT_NS, &list, &err) && netaddr_find_local(&list);
}

bool cluster_is_here(const struct config *config)
{
    struct cluster cluster = {0};
    struct address bind;
    struct netaddr_list list = {0};
    struct err err;
    if (!take_addresses(&cluster, config, &bind, &err))
        return true;
    if (config->cluster.node_rank == 0)
        return are_others_here(config, &cluster.chief);
    return resolve_wait(&cluster.chief, NAME_WAIT_NS, &list, &err) && netaddr_find_local(&list);
}

/* Many systems map a machine's own name to 127.0.1.1 in /etc/hosts. Other machines map it to an
 * address at which node 0 does not listen. */
static void cluster_find_place(struct cluster *cluster, const struct config *config,
                               const struct address *bind)
{
    struct cluster_place *place = &cluster->place;
    bool is_loopback = peers_where(cluster->peers, place->text, sizeof place->text);
    if (is_loopback && !address_is_loopback(bind) && !are_others_here(config, &cluster->chief))
        str_addf(place->hidden, sizeof place->hidden,
                 "here %.120s is %s, which nodes on other machines cannot reach", bind->host,
                 place->text);
}

static void say_place(const struct cluster *cluster, const struct config *config,
                      const struct address *bind)
{
    struct netaddr_list list;
    bool is_name = !netaddr_numeric(bind, &list);
    char others[512], time[32];
    nodenames_list(config, others, sizeof others);
    log_info("join", "waiting for %s, for %s at most, at %s, port %d%s%s", others,
             str_duration(cluster->join_timeout_ns, time, sizeof time), bind->host, bind->port,
             is_name ? ": listening on " : "", is_name ? cluster->place.text : "");
    if (cluster->place.hidden[0])
        log_warn("join", "%s: " CLUSTER_HIDDEN_ADVICE, cluster->place.hidden);
}

bool cluster_prepare(struct cluster *cluster, const struct config *config, struct address *ret_bind,
                     struct err *err)
{
    return take_addresses(cluster, config, ret_bind, err) && take_key(cluster, config, err);
}

bool cluster_open(struct cluster *cluster, const struct config *config, struct loop *loop,
                  struct err *err)
{
    struct address bind;
    want_files(config);
    if (config->cluster.nnodes == 1)
        return true;
    cluster->loop = loop;
    cluster->began_at = clock_now_ns();
    cluster->join_timeout_ns = config->cluster.join_timeout_ns;
    if (!cluster_prepare(cluster, config, &bind, err))
        return false;
    struct peers_options options = {.base = loop->base,
                                    .arg = cluster,
                                    .on_up = on_up,
                                    .on_message = cluster_on_message,
                                    .on_down = cluster_on_down,
                                    .on_strange = on_strange,
                                    .tls = cluster->tls,
                                    .silence_ns = config->cluster.heartbeat_timeout_ns,
                                    .close_wait_ns = LAST_WORDS_WAIT_NS,
                                    .guests_max = guests_max(config)};
    /* A node can try to reconnect several times before it counts as lost, also after an outage. */
    options.reconnect_wait_ns = clock_min(options.silence_ns, CLUSTER_RECONNECT_NS) / 4;
    cluster->peers = peers_new(&options);
    if (!cluster->peers)
        return err_set(err, ERR_SYSTEM, ENOMEM, "cannot start");
    if (config->cluster.node_rank != 0)
        return true;
    if (!peers_listen(cluster->peers, &bind, err))
        return false;
    cluster_find_place(cluster, config, &bind);
    say_place(cluster, config, &bind);
    nodenames_look_up(&cluster->names, config, loop);
    return true;
}

/* --- can it be reached? --- */

/* No event is left afterwards, so the loop ends. */
static void on_reached(void *arg, int fd, const union netaddr *peer, const struct err *err)
{
    *(struct err *)arg = fd < 0 ? *err : (struct err){.code = ERR_NONE};
    fd_close(&fd);
}

static bool reach_chief(const struct config *config, struct event_base *base, int64_t wait_ns,
                        struct err *err)
{
    struct cluster cluster = {0};
    struct address bind;
    struct dial_options options = {.base = base,
                                   .silence_ns = config->cluster.heartbeat_timeout_ns,
                                   .on_done = on_reached,
                                   .arg = err};
    if (!take_addresses(&cluster, config, &bind, err))
        return false;
    struct dial *dial = dial_new(&options);
    err_set(err, ERR_SYSTEM, ENOMEM, "cannot look for node 0");
    if (!dial)
        return false;
    dial_start(dial, &cluster.chief, wait_ns);
    event_base_dispatch(base);
    dial_free(dial);
    return err->code == ERR_NONE;
}

bool cluster_reach(const struct config *config, int64_t wait_ns, struct cluster_place *ret,
                   struct err *err)
{
    struct cluster cluster = {0};
    struct loop loop = {.base = event_base_new()};
    bool ok = false;
    if (!loop.base)
        return err_set(err, ERR_SYSTEM, ENOMEM, "cannot look for the other nodes");
    if (config->cluster.node_rank > 0)
        ok = reach_chief(config, loop.base, wait_ns, err);
    else
        ok = cluster_open(&cluster, config, &loop, err);
    *ret = cluster.place;
    cluster_free(&cluster);
    event_base_free(loop.base);
    return ok;
}

void cluster_free(struct cluster *cluster)
{
    nodenames_free(&cluster->names);
    peers_free(cluster->peers);
    tls_free(cluster->tls);
    *cluster = (struct cluster){0};
}

void cluster_finish(struct cluster *cluster)
{
    nodenames_free(&cluster->names);
    if (cluster->peers)
        peers_finish(cluster->peers);
}

bool cluster_is_busy(const struct cluster *cluster)
{
    return cluster->peers && peers_is_busy(cluster->peers);
}
