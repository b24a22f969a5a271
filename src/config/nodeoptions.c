/* SPDX-License-Identifier: Apache-2.0
 * See loadsteps.h: the discovery of the nodes, the checks of options that must fit together, and
 * the flags of torchrun that pchrun has under other names.
 */
#include "config/loadsteps.h"

#include "base/address.h"
#include "base/clock.h"
#include "base/str.h"
#include "config/options.h"
#include "config/text.h"
#include "config/values.h"

#include <errno.h>
#include <limits.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* cluster.replace_wait with spares. A spare comes at once; without one the scheduler needs time to
 * start another pchrun. */
#define SPARES_WAIT_NS (600 * NS_PER_S)

#define KEY(name) option_by_key("cluster." name)

/* The user's number of nodes; 0: not given. */
static int given_nnodes(const struct config *config)
{
    int n = (int)str_count(config->cluster.nodes);
    return n > 0 ? n : origin_is_given(config, "cluster.nnodes") ? config->cluster.nnodes : 0;
}

/* True if the user asked for discovery. It also runs by default, but then guesses less. */
static bool is_asked(const struct config *config)
{
    return origin_is_given(config, "cluster.discovery");
}

/* Why discovery does not run; NULL: it runs. If another pchrun started this one, the variables
 * describe the nodes of the outer pchrun, and it already uses the port. */
static const char *why_not(const struct config *config, char **env)
{
    bool has_nodes = config->cluster.nodes[0], has_chief = has_nodes || config->cluster.chief;
    int given = given_nnodes(config);
    if (config->cluster.discovery == DISCOVER_NONE)
        return "cluster.discovery is none; with auto it would be:";
    if (given == 1 || (given > 1 && has_chief && config->cluster.node_rank >= 0))
        return "the nodes and this node's rank are given, so discovery did not run";
    if (is_asked(config))
        return NULL;
    if (has_nodes)
        return "the nodes are given, and this machine's address shows its node rank, so discovery "
               "did not run";
    if (discover_outer(env))
        return "PCH_SOCKET is set: another pchrun has started this one, so discovery did not run";
    return NULL;
}

static bool set(struct config *config, const struct option *option, const char *text,
                const char *why, struct err *err)
{
    char origin[2 * DISCOVER_TEXT_MAX];
    if (origin_from(config, option->key) != FROM_DEFAULT)
        return true;
    snprintf(origin, sizeof origin, "discovery %s: %s", discover_names[config->found.from], why);
    return origin_set(config, option, FROM_DISCOVERY, origin, err) &&
           (value_from_text(option, text, config, err) || err_wrap(err, "%s", origin));
}

static bool set_number(struct config *config, const struct option *option, int number,
                       const char *why, struct err *err)
{
    char text[16];
    snprintf(text, sizeof text, "%d", number);
    return set(config, option, text, why, err);
}

/* A pod of an indexed Job knows its index, but not the number of pods, nor whether they train
 * together. That is an error only if the user asked for discovery: the job may be meant for one
 * node. */
static void warn_of_rank(struct config *config)
{
    struct discovery *found = &config->found;
    snprintf(
        found->warning, sizeof found->warning,
        "%s: %s, but nothing says how many nodes there are, so this node runs alone; if several "
        "nodes train together, set cluster.nnodes; if not, set cluster.discovery to none",
        discover_names[found->from], found->node_rank_why);
}

/* A discovered node rank is valid only for the discovered number of nodes, so the user must not
 * give another number. */
static bool check_rank(const struct config *config, int given, struct err *err)
{
    const struct discovery *found = &config->found;
    if (config->cluster.node_rank >= 0 ||
        (found->nnodes > 0 && (given == 0 || given == found->nnodes)))
        return true;
    if (found->nnodes > 0)
        return err_set(
            err, ERR_USAGE, 0, "the job has %d nodes (%s), but %s; set cluster.node_rank, too",
            given,
            origin_text(config, config->cluster.nodes[0] ? "cluster.nodes" : "cluster.nnodes"),
            found->nnodes_why);
    return given > 0 || err_set(err, ERR_USAGE, 0,
                                "cluster.discovery, %s: %s, but nothing says how many nodes there "
                                "are; set cluster.nnodes",
                                discover_names[found->from], found->node_rank_why);
}

static bool discovered_take(struct config *config, struct err *err)
{
    const struct discovery *found = &config->found;
    int given = given_nnodes(config);
    bool is_told = found->nnodes > 0 || found->node_rank >= 0;
    if (!is_told || (found->nnodes == 1 && given > 1))
        return true;
    if (found->nnodes == 0 && given == 0 && config->cluster.node_rank < 0 && !is_asked(config))
        return warn_of_rank(config), true;
    if (!check_rank(config, given, err))
        return false;
    bool is_several = given > 1 || found->nnodes > 1, has_nodes = config->cluster.nodes[0];
    if (found->nnodes > 0 && !has_nodes &&
        !set_number(config, KEY("nnodes"), found->nnodes, found->nnodes_why, err))
        return false;
    if (found->node_rank >= 0 &&
        !set_number(config, KEY("node_rank"), found->node_rank,
                    found->node_rank_why[0] ? found->node_rank_why : found->nnodes_why, err))
        return false;
    if (!is_several)
        return true;
    if (found->port > 0 && !set_number(config, KEY("port"), found->port, found->port_why, err))
        return false;
    if (!found->chief[0] || has_nodes || config->cluster.chief)
        return true;
    return set(config, KEY("chief"), found->chief, found->chief_why, err) &&
           (!found->bind[0] || config->cluster.node_rank != 0 ||
            set(config, KEY("bind"), found->bind, "HOSTNAME is this pod's name", err));
}

/* If PCH_SOCKET is left over, this node runs alone, and saves at other steps than the others. */
static void warn_of_leftover(struct config *config, char **env)
{
    struct discovery found;
    struct err err;
    const char *outer = discover_outer(env);
    bool is_alone = given_nnodes(config) == 0 && !config->cluster.chief;
    bool is_gone = outer && access(outer, F_OK) != 0 && errno == ENOENT;
    if (is_asked(config) || !is_alone || !is_gone ||
        (discover(env, "", DISCOVER_UNASKED, &found, &err) && found.nnodes <= 1))
        return;
    snprintf(
        config->found.warning, sizeof config->found.warning,
        "PCH_SOCKET is set, as if another pchrun had started this one, but that one has "
        "ended. This pchrun runs alone, though other variables name several nodes. If PCH_SOCKET "
        "is left over from the job that submitted this one, unset it; if not, set "
        "cluster.discovery to none");
}

static bool settle_job(struct config *config, char **env, struct err *err)
{
    char folder[PATH_MAX], host[ADDRESS_HOST_MAX] = "";
    struct job_name found;
    config->is_unnamed = !config->job;
    if (config->job)
        return true;
    (void)gethostname(host, sizeof host - 1);
    discover_job_name(env, getcwd(folder, sizeof folder) ? folder : "", host, &found);
    return origin_set(config, option_by_key("job"), FROM_DEFAULT, found.why, err) &&
           text_keep(&config->job, strdup(found.name), err);
}

const char *config_job_identity(const struct config *config)
{
    return config->is_unnamed ? JOB_UNNAMED : config->job;
}

bool discovered_apply(struct config *config, char **env, struct err *err)
{
    if (!settle_job(config, env, err))
        return false;
    int from = is_asked(config) ? config->cluster.discovery : DISCOVER_UNASKED;
    const char *why = why_not(config, env);
    config->restarts = discover_outer(env) ? 0 : discover_restarts(env);
    config->job_start_s = discover_outer(env) ? 0 : discover_job_start(env);
    config->found = (struct discovery){.node_rank = -1};
    str_copy(config->found.why, sizeof config->found.why, why);
    if (why)
        return warn_of_leftover(config, env), true;
    return discover(env, "", (enum discover_from)from, &config->found, err) &&
           discovered_take(config, err);
}

/* ---- --print-config ---- */

static void discovered_show_found(const struct discovery *found, struct writer *w)
{
    writer_text(w, "found", found->from == DISCOVER_NONE ? NULL : discover_names[found->from]);
    if (found->nnodes > 0)
        writer_int(w, "nnodes", found->nnodes);
    if (found->node_rank >= 0)
        writer_int(w, "node_rank", found->node_rank);
    if (found->chief[0])
        writer_text(w, "chief", found->chief);
    writer_text(w, "why", found->why);
    if (found->warning[0])
        writer_text(w, "warning", found->warning);
}

/* The user did not ask for discovery, so an incomplete source is not an error. */
static void show_possible(char **env, struct writer *w)
{
    struct discovery found;
    struct err err;
    writer_object(w, "auto");
    if (discover(env, "", DISCOVER_AUTO, &found, &err))
        discovered_show_found(&found, w);
    else
        writer_text(w, "why", err.text);
    writer_end(w);
}

void discovered_show(const struct config *config, char **env, struct writer *w)
{
    writer_object(w, "$cluster");
    discovered_show_found(&config->found, w);
    if (config->cluster.discovery == DISCOVER_NONE)
        show_possible(env, w);
    writer_end(w);
}

/* ---- what must fit together ---- */

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

/* Node 0 has no replacement, so a job with spares needs another node that trains. */
static bool settle_spares(struct config *config, struct err *err)
{
    int spares = config->cluster.spares, nnodes = config->cluster.nnodes;
    const char *origin = origin_text(config, "cluster.spares");
    if (spares == 0)
        return true;
    if (nnodes - spares < 2)
        return err_set(err, ERR_USAGE, 0,
                       "cluster.spares is %d (%s), and the job has %d node%s with its spares (%s), "
                       "but two nodes at least must train: a spare cannot replace node 0; start "
                       "pchrun on %d nodes or more",
                       spares, origin, nnodes, nnodes == 1 ? "" : "s",
                       origin_text(config, "cluster.nnodes"), spares + 2);
    if (config->cluster.replace_wait_ns > 0)
        return true;
    if (origin_is_given(config, "cluster.replace_wait"))
        return err_set(err, ERR_USAGE, 0,
                       "cluster.spares is %d (%s), but cluster.replace_wait is 0 (%s), so the job "
                       "waits for no spare; leave cluster.replace_wait out, or give it a time",
                       spares, origin, origin_text(config, "cluster.replace_wait"));
    config->cluster.replace_wait_ns = SPARES_WAIT_NS;
    return origin_set(config, option_by_key("cluster.replace_wait"), FROM_DEFAULT,
                      "the default with cluster.spares", err);
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
    return address_compare(&x->address, &y->address);
}

/* Sorts the entries, so that equal ones are neighbours. */
static bool check_twins(struct entry *entries, size_t n, struct err *err)
{
    qsort(entries, n, sizeof *entries, compare_entries);
    for (size_t i = 1; i < n; i++) {
        const struct entry *a = &entries[i - 1], *b = &entries[i];
        if (compare_entries(a, b) == 0)
            return err_set(
                err, ERR_USAGE, 0,
                "nodes %d and %d are the same, %.200s port %d; nodes on one machine need "
                "ports of their own, as in n0:14242, n0:14243",
                a->rank < b->rank ? a->rank : b->rank, a->rank < b->rank ? b->rank : a->rank,
                a->address.host, a->address.port);
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

/* The replacement starts only when no process of the lost node can run any more. */
static bool validate_replace(const struct config *config, struct err *err)
{
    char wait[32], fence[32];
    int64_t wait_ns = config->cluster.replace_wait_ns;
    int64_t fence_ns =
        policy_fence_ns(config->cluster.heartbeat_timeout_ns, config->stop.kill_wait_ns);
    const char *origin = origin_text(config, "cluster.replace_wait");
    if (wait_ns == 0)
        return true;
    if (config->cluster.nnodes == 1)
        return err_set(err, ERR_USAGE, 0,
                       "cluster.replace_wait (%s) is for the nodes of a job, and this job has one; "
                       "its scheduler starts it again",
                       origin);
    if (!config->checkpoint.dir && !config->state_dir)
        return err_set(err, ERR_USAGE, 0,
                       "cluster.replace_wait (%s) needs checkpoint.dir: a replacement finds there "
                       "where its ranks resume",
                       origin);
    return wait_ns > fence_ns ||
           err_set(err, ERR_USAGE, 0,
                   "cluster.replace_wait is %s (%s), but the processes of a lost node may run for "
                   "%s: cluster.heartbeat_timeout and stop.kill_wait, and a tenth of both; give "
                   "its replacement more time",
                   str_duration(wait_ns, wait, sizeof wait), origin,
                   str_about(fence_ns, fence, sizeof fence));
}

/* The C library takes back-references, and then the time of a match may double with each byte. */
static bool has_back_reference(const char *pattern)
{
    for (const char *at = strchr(pattern, '\\'); at && at[1]; at = strchr(at + 2, '\\'))
        if (at[1] >= '1' && at[1] <= '9')
            return true;
    return false;
}

static bool check_pattern(const struct config *config, const char *key, const char *pattern,
                          size_t groups, struct err *err)
{
    char why[128];
    regex_t regex;
    if (!pattern)
        return true;
    int rc = regcomp(&regex, pattern, REG_EXTENDED);
    regerror(rc, &regex, why, sizeof why);
    if (rc != 0)
        return err_set(err, ERR_USAGE, 0, "%s (%s) is no extended regular expression: %s", key,
                       origin_text(config, key), why);
    bool has_groups = regex.re_nsub >= groups;
    regfree(&regex);
    if (has_back_reference(pattern))
        return err_set(
            err, ERR_USAGE, 0,
            "%s (%s) has a back-reference such as \\1, which can take for ever; name the "
            "texts instead, as in (nan|inf)",
            key, origin_text(config, key));
    return has_groups ||
           err_set(err, ERR_USAGE, 0,
                   "%s (%s) has no group for the step: put ( ) around its digits, as in 'step "
                   "([0-9]+)'",
                   key, origin_text(config, key));
}

/* Without logs.dir pchrun does not see the output, and these options would have no effect. */
static bool check_logs(const struct config *config, struct err *err)
{
    const char *idle = config->watchdog.silence_ns > 0 ? "watchdog.silence"
                       : config->watchdog.log          ? "watchdog.log"
                       : config->watchdog.log_failure  ? "watchdog.log_failure"
                                                       : NULL;
    if (!check_pattern(config, "watchdog.log", config->watchdog.log, 1, err) ||
        !check_pattern(config, "watchdog.log_failure", config->watchdog.log_failure, 0, err))
        return false;
    if (config->logs.dir)
        return true;
    if (idle)
        return err_set(err, ERR_USAGE, 0,
                       "%s (%s) needs logs.dir: without it pchrun does not see the "
                       "output of the commands",
                       idle, origin_text(config, idle));
    if (config->logs.prefix)
        return err_set(err, ERR_USAGE, 0,
                       "logs.prefix is set (%s), but logs.dir is not, so nothing is passed on by "
                       "pchrun; set logs.dir",
                       origin_text(config, "logs.prefix"));
    return true;
}

static bool check_health_disk(const struct config *config, struct err *err)
{
    return !config->health.disk || config->checkpoint.dir ||
           err_set(err, ERR_USAGE, 0,
                   "health.disk is set (%s), but checkpoint.dir is not, so there is no directory "
                   "to check; set checkpoint.dir",
                   origin_text(config, "health.disk"));
}

bool config_validate(struct config *config, struct err *err)
{
    return check_cluster(config, err) && settle_nnodes(config, err) && settle_spares(config, err) &&
           check_chief(config, err) && settle_node_rank(config, err) &&
           validate_replace(config, err) && validate_check_nodes(config, err) &&
           check_one(config, "cluster.chief", config->cluster.chief, err) &&
           check_one(config, "cluster.bind", config->cluster.bind, err) &&
           check_logs(config, err) && check_health_disk(config, err);
}

/* --- flags of torchrun --- */

const char *nodeoptions_of_torchrun(const char *name)
{
    static const struct {
        const char *name, *here;
    } list[] = {
        {"max-restarts", "torchrun's --max-restarts is --restart-max here"},
        {"rdzv-endpoint", "torchrun's --rdzv-endpoint is --cluster-chief here"},
        {"master-addr", "torchrun's --master-addr is --cluster-chief here"},
        {"master-port", "pchrun -n chooses MASTER_PORT; leave the flag out"},
        {"rdzv-backend", "pchrun needs no rendezvous; leave the flag out"},
        {"rdzv-id", "torchrun's --rdzv-id is --job here"},
        {"standalone", "one node is the default; leave the flag out"},
    };
    for (size_t i = 0; i < ARRAY_LEN(list); i++)
        if (str_is(list[i].name, name))
            return list[i].here;
    return NULL;
}
