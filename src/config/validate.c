/* SPDX-License-Identifier: Apache-2.0
 * See sources.h.
 */
#include "config/sources.h"

#include "base/address.h"
#include "base/str.h"
#include "config/origin.h"
#include "config/text.h"

#include <errno.h>
#include <stdlib.h>
#include <strings.h>

/* Ports of training frameworks, which pchrun must not use. */
static const struct {
    int first, last;
    const char *owner;
} taken_ports[] = {
    {8482, 8482, "JAX on TPU"},
    {29400, 29400, "torchrun's rendezvous"},
    {29500, 29500, "torch.distributed"},
    {55527, 55527, "JAX on Kubernetes"},
    {61440, 65535, "JAX under Slurm and Open MPI"},
};

static bool check_port(int port, struct err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(taken_ports); i++)
        if (port >= taken_ports[i].first && port <= taken_ports[i].last)
            return err_set(err, ERR_USAGE, 0,
                           "port %d is used by %s; take another one, such as 14242", port,
                           taken_ports[i].owner);
    return true;
}

/* The number of nodes is the length of cluster.nodes; a given cluster.nnodes must be equal. */
static bool settle_nnodes(struct config *config, struct err *err)
{
    int n = (int)str_count(config->cluster.nodes);
    if (n > 0 && config->cluster.chief)
        return err_set(err, ERR_USAGE, 0,
                       "cluster.nodes (%s) and cluster.chief (%s) exclude each other; keep one",
                       origin_text(config, "cluster.nodes"), origin_text(config, "cluster.chief"));
    if (n == 0)
        return true;
    if (origin_is_given(config, "cluster.nnodes") && config->cluster.nnodes != n)
        return err_set(err, ERR_USAGE, 0,
                       "cluster.nnodes is %d (%s), but cluster.nodes has %d entries (%s)",
                       config->cluster.nnodes, origin_text(config, "cluster.nnodes"), n,
                       origin_text(config, "cluster.nodes"));
    if (origin_is_given(config, "cluster.nnodes"))
        return true;
    config->cluster.nnodes = n;
    return origin_set(config, option_by_key("cluster.nnodes"), FROM_DEFAULT,
                      "the length of cluster.nodes", err);
}

/* Discovered nodes may belong to other jobs, so the error says how to run alone. */
static const char *alone_hint(const struct config *config)
{
    return origin_from(config, "cluster.nnodes") == FROM_DISCOVERY
               ? "; if each pchrun is a job of its own, --cluster-discovery none"
               : "";
}

/* Requires the address of node 0, and this node's rank if no list of nodes can give it. */
static bool check_chief(const struct config *config, struct err *err)
{
    bool has_nodes = config->cluster.nodes[0];
    if (config->cluster.chief && !origin_is_given(config, "cluster.nnodes"))
        return err_set(err, ERR_USAGE, 0,
                       "cluster.chief (%s) needs cluster.nnodes, the number of nodes",
                       origin_text(config, "cluster.chief"));
    if (config->cluster.nnodes > 1 && !has_nodes && !config->cluster.chief)
        return err_set(err, ERR_USAGE, 0,
                       "cluster.nnodes is %d (%s), but nothing says where node 0 is; set "
                       "cluster.nodes or cluster.chief%s",
                       config->cluster.nnodes, origin_text(config, "cluster.nnodes"),
                       alone_hint(config));
    if (config->cluster.nnodes > 1 && !has_nodes && config->cluster.node_rank < 0)
        return err_set(
            err, ERR_USAGE, 0,
            "cluster.chief (%s) is set; set cluster.node_rank, too: the number of this node",
            origin_text(config, "cluster.chief"));
    return true;
}

static bool settle_node_rank(struct config *config, struct err *err)
{
    if (config->cluster.node_rank >= config->cluster.nnodes)
        return err_set(err, ERR_USAGE, 0,
                       "cluster.node_rank is %d (%s), but the job has %d node%s (%s); ranks count "
                       "from 0",
                       config->cluster.node_rank, origin_text(config, "cluster.node_rank"),
                       config->cluster.nnodes, config->cluster.nnodes == 1 ? "" : "s",
                       origin_text(config, "cluster.nnodes"));
    if (config->cluster.node_rank >= 0 || config->cluster.nnodes > 1)
        return true;
    config->cluster.node_rank = 0;
    return origin_set(config, option_by_key("cluster.node_rank"), FROM_DEFAULT, "the only node",
                      err);
}

/* An address must be well-formed, with a port that is not in taken_ports. Several nodes without a
 * key or cluster.insecure need a loopback address. */
static bool check_address(const struct config *config, const char *text, struct address *ret,
                          struct err *err)
{
    if (!address_parse(text, config->cluster.port, ret, err) || !check_port(ret->port, err))
        return false;
    if (config->cluster.nnodes == 1 || config->cluster.key_file || config->cluster.insecure ||
        address_is_loopback(ret))
        return true;
    return err_set(err, ERR_USAGE, 0,
                   "%.120s is not a loopback address, and the nodes have no key. Make one, copy it "
                   "to every node, and name it there: pchrun --make-key run.key; pchrun "
                   "--cluster-key-file run.key ...; or, on a network that you trust, add "
                   "--cluster-insecure%s",
                   ret->host, alone_hint(config));
}

static bool check_one(const struct config *config, const char *key, const char *text,
                      struct err *err)
{
    struct address address;
    if (!text || check_address(config, text, &address, err))
        return true;
    return err_wrap(err, "%s (%s)", key, origin_text(config, key));
}

struct entry {
    struct address address;
    int rank;
};

static int compare_entries(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->address.port != y->address.port)
        return x->address.port < y->address.port ? -1 : 1;
    return strcasecmp(x->address.host, y->address.host);
}

/* Sorts the entries, so that equal ones are neighbours. */
static bool check_twins(struct entry *entries, size_t n, struct err *err)
{
    qsort(entries, n, sizeof *entries, compare_entries);
    for (size_t i = 1; i < n; i++) {
        const struct entry *a = &entries[i - 1], *b = &entries[i];
        if (address_equal(&a->address, &b->address))
            return err_set(err, ERR_USAGE, 0, "nodes %d and %d are the same, %.200s port %d",
                           a->rank < b->rank ? a->rank : b->rank,
                           a->rank < b->rank ? b->rank : a->rank, a->address.host, a->address.port);
    }
    return true;
}

static bool validate_check_nodes(const struct config *config, struct err *err)
{
    size_t n = str_count(config->cluster.nodes);
    struct entry *entries = calloc(n + 1, sizeof *entries);
    if (!entries)
        return err_set(err, ERR_SYSTEM, ENOMEM, "cannot check cluster.nodes");
    bool ok = true;
    for (size_t i = 0; ok && i < n; i++) {
        entries[i].rank = (int)i;
        ok = check_address(config, config->cluster.nodes[i], &entries[i].address, err) ||
             err_wrap(err, "node %zu", i);
    }
    ok = ok && check_twins(entries, n, err);
    free(entries);
    return ok || err_wrap(err, "cluster.nodes (%s)", origin_text(config, "cluster.nodes"));
}

static bool check_cluster(const struct config *config, struct err *err)
{
    if (!check_port(config->cluster.port, err))
        return err_wrap(err, "cluster.port (%s)", origin_text(config, "cluster.port"));
    if (config->cluster.heartbeat_timeout_ns < 2 * config->cluster.heartbeat_interval_ns) {
        char timeout[32], interval[32];
        return err_set(
            err, ERR_USAGE, 0,
            "cluster.heartbeat_timeout is %s (%s), less than twice cluster.heartbeat_interval, "
            "which is %s (%s)",
            str_duration(config->cluster.heartbeat_timeout_ns, timeout, sizeof timeout),
            origin_text(config, "cluster.heartbeat_timeout"),
            str_duration(config->cluster.heartbeat_interval_ns, interval, sizeof interval),
            origin_text(config, "cluster.heartbeat_interval"));
    }
    return true;
}

/* Without logs.dir pchrun does not see the output, and these options would have no effect. */
static bool check_logs(const struct config *config, struct err *err)
{
    if (config->logs.dir)
        return true;
    if (config->watchdog.silence_ns > 0)
        return err_set(err, ERR_USAGE, 0,
                       "watchdog.silence (%s) needs logs.dir: without it pchrun does not see the "
                       "output of the commands",
                       origin_text(config, "watchdog.silence"));
    if (config->logs.prefix)
        return err_set(err, ERR_USAGE, 0,
                       "logs.prefix is set (%s), but logs.dir is not, so nothing is passed on by "
                       "pchrun; set logs.dir",
                       origin_text(config, "logs.prefix"));
    return true;
}

bool config_validate(struct config *config, struct err *err)
{
    return check_cluster(config, err) && settle_nnodes(config, err) && check_chief(config, err) &&
           settle_node_rank(config, err) && validate_check_nodes(config, err) &&
           check_one(config, "cluster.chief", config->cluster.chief, err) &&
           check_one(config, "cluster.bind", config->cluster.bind, err) && check_logs(config, err);
}
