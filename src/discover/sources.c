/* SPDX-License-Identifier: Apache-2.0
 * See discover.h.
 *
 * To add a source: add its constant to discover.h, its finder to vars.h and finders.c, its row
 * here, and the environment of a real job to tests/unit/test_discover.c.
 */
#include "discover/discover.h"

#include "base/fd.h"
#include "base/str.h"
#include "discover/vars.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

const char *const discover_names[] = {
    [DISCOVER_NONE] = "none",         [DISCOVER_AUTO] = "auto",
    [DISCOVER_SLURM] = "slurm",       [DISCOVER_TORCHRUN] = "torchrun",
    [DISCOVER_KUBEFLOW] = "kubeflow", [DISCOVER_TF_CONFIG] = "tf-config",
    [DISCOVER_MPI] = "mpi",           [DISCOVER_LWS] = "leaderworkerset",
    [DISCOVER_JOBSET] = "jobset",     [DISCOVER_AWS_BATCH] = "aws-batch",
    [DISCOVER_TPU] = "tpu",           [DISCOVER_KUBERNETES] = "kubernetes",
    [DISCOVER__COUNT] = NULL,
};

enum { SIGNS_MAX = 4 };
static const struct {
    finder_fn *find;
    const char *signs[SIGNS_MAX + 1]; /* each of these variables shows that the source is there;
                                       * ends with NULL */
    bool is_last; /* used only if no other source names several nodes: its index may number parts of
                   * the job instead of nodes */
} sources[DISCOVER__COUNT] = {
    [DISCOVER_SLURM] = {find_slurm, {"SLURM_STEP_NODELIST", "SLURM_STEP_NUM_TASKS"}},
    [DISCOVER_TORCHRUN] = {find_torchrun, {"RANK"}},
    [DISCOVER_KUBEFLOW] = {find_kubeflow, {"PET_NNODES", "PET_NODE_RANK"}},
    [DISCOVER_TF_CONFIG] = {find_tf_config, {"TF_CONFIG"}},
    [DISCOVER_MPI] = {find_mpi,
                      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE"}},
    [DISCOVER_LWS] = {find_lws, {"LWS_GROUP_SIZE", "LWS_WORKER_INDEX"}},
    [DISCOVER_JOBSET] = {find_jobset, {"JOBSET_NAME"}},
    [DISCOVER_AWS_BATCH] = {find_aws_batch,
                            {"AWS_BATCH_JOB_NUM_NODES", "AWS_BATCH_JOB_NODE_INDEX"}},
    [DISCOVER_TPU] = {find_tpu, {"TPU_WORKER_HOSTNAMES", "TPU_PROCESS_ADDRESSES", "TPU_WORKER_ID"}},
    [DISCOVER_KUBERNETES] = {find_kubernetes, {"JOB_COMPLETION_INDEX"}, .is_last = true},
};

/* The source's first variable that is set; NULL: none, so the source is not there. */
static const char *find_sign(const struct place *place, enum discover_from from)
{
    for (const char *const *sign = sources[from].signs; *sign; sign++)
        if (vars_get(place, *sign))
            return *sign;
    return NULL;
}

static void list_signs(enum discover_from from, char *text, size_t size)
{
    for (const char *const *sign = sources[from].signs; *sign; sign++)
        str_addf(text, size, "%s%s", text[0] ? ", " : "", *sign);
}

static bool tells_of_several(const struct discovery *found)
{
    return found->nnodes != 1 && (found->nnodes > 1 || found->node_rank >= 0);
}

static bool discover_find(const struct place *place, enum discover_from from, struct discovery *ret,
                          struct err *err)
{
    *ret = (struct discovery){.from = from, .node_rank = -1};
    if (sources[from].find(place, ret, err)) {
        if (ret->nnodes == 1)
            ret->node_rank = 0;
        return true;
    }
    struct err what = *err;
    if (what.code == ERR_NOT_FOUND && ret->nnodes <= 1)
        snprintf(ret->warning, sizeof ret->warning,
                 "%s: %.280s, so this source is ignored; if this is one of several nodes, set "
                 "the missing variable, else set cluster.discovery to none",
                 discover_names[from], what.text);
    return err_set(err, ERR_USAGE, what.sys_errno,
                   "cluster.discovery, %s: %.280s; set cluster.chief, cluster.nnodes and "
                   "cluster.node_rank, or another cluster.discovery, such as none",
                   discover_names[from], what.text);
}

/* --- several sources at once --- */

static bool differ(const struct discovery *a, const struct discovery *b, struct err *err)
{
    bool counts = a->nnodes > 0 && b->nnodes > 0 && a->nnodes != b->nnodes;
    bool ranks = a->node_rank >= 0 && b->node_rank >= 0 && a->node_rank != b->node_rank;
    if (!counts && !ranks)
        return false;
    err_set(err, ERR_USAGE, 0,
            "cluster.discovery: two sources differ: %s (%.150s), %s (%.150s); set "
            "cluster.discovery to the right one",
            discover_names[a->from], counts ? a->nnodes_why : a->node_rank_why,
            discover_names[b->from], counts ? b->nnodes_why : b->node_rank_why);
    return true;
}

static void discover_fill_in(struct discovery *all, const struct discovery *one)
{
    if (all->nnodes == 0) {
        all->nnodes = one->nnodes;
        str_copy(all->nnodes_why, sizeof all->nnodes_why, one->nnodes_why);
    }
    if (all->node_rank < 0) {
        all->node_rank = one->node_rank;
        str_copy(all->node_rank_why, sizeof all->node_rank_why, one->node_rank_why);
    }
    if (!all->chief[0]) {
        str_copy(all->chief, sizeof all->chief, one->chief);
        str_copy(all->bind, sizeof all->bind, one->bind);
        str_copy(all->chief_why, sizeof all->chief_why, one->chief_why);
    }
    if (all->port == 0) {
        all->port = one->port;
        str_copy(all->port_why, sizeof all->port_why, one->port_why);
    }
}

/* A source with one node does not contradict a source with several: the first may see a part of the
 * job. */
static bool merge(struct discovery *all, const struct discovery *one, struct err *err)
{
    bool is_news = one->nnodes > 0 || one->node_rank >= 0;
    if (!is_news || (!tells_of_several(one) && all->from != DISCOVER_NONE))
        return true;
    if (!tells_of_several(all)) {
        *all = *one;
        return true;
    }
    if (differ(all, one, err))
        return false;
    discover_fill_in(all, one);
    return true;
}

static bool find_all(const struct place *place, bool is_asked, struct discovery *ret,
                     struct err *err)
{
    char why[DISCOVER_WHY_MAX] = "", looked[DISCOVER_WHY_MAX] = "";
    char warning[DISCOVER_WHY_MAX] = "";
    struct discovery one;
    for (int from = DISCOVER_AUTO + 1; from < DISCOVER__COUNT; from++) {
        const char *sign = find_sign(place, (enum discover_from)from);
        if (!sign) {
            list_signs((enum discover_from)from, looked, sizeof looked);
            continue;
        }
        if (sources[from].is_last && tells_of_several(ret))
            continue;
        bool is_found = discover_find(place, (enum discover_from)from, &one, err);
        if (!is_found && !is_asked && one.warning[0]) {
            str_copy(warning, sizeof warning, one.warning);
            continue;
        }
        if (!is_found || !merge(ret, &one, err))
            return false;
        if (one.warning[0])
            str_copy(warning, sizeof warning, one.warning);
        str_addf(why, sizeof why, "%s%s by %s", why[0] ? ", " : "", discover_names[from], sign);
    }
    str_copy(ret->warning, sizeof ret->warning, warning);
    if (why[0])
        str_copy(ret->why, sizeof ret->why, why);
    else
        snprintf(ret->why, sizeof ret->why, "%.480s: none is set", looked);
    return true;
}

/* An interactive shell gives each job a process group of its own, and the terminal. A program that
 * a scheduler starts there leads the session. */
static bool is_typed(void)
{
    FD_CLEANUP int terminal = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    return terminal >= 0 && getpgrp() != getsid(0) && tcgetpgrp(terminal) == getpgrp();
}

bool discover(char **env, const char *root, enum discover_from from, struct discovery *ret,
              struct err *err)
{
    struct place place = {env, root, env == environ && is_typed()};
    *ret = (struct discovery){.node_rank = -1};
    if (from == DISCOVER_NONE)
        return true;
    if (from == DISCOVER_AUTO || from == DISCOVER_UNASKED)
        return find_all(&place, from == DISCOVER_AUTO, ret, err);
    const char *sign = find_sign(&place, from);
    if (!sign) {
        char signs[DISCOVER_WHY_MAX] = "";
        list_signs(from, signs, sizeof signs);
        return err_set(err, ERR_USAGE, 0,
                       "cluster.discovery is %s, but none of its variables is set (%s)",
                       discover_names[from], signs);
    }
    if (!discover_find(&place, from, ret, err))
        return false;
    snprintf(ret->why, sizeof ret->why, "%s by %s", discover_names[from], sign);
    return true;
}

const char *discover_outer(char **env)
{
    return vars_get(&(struct place){env, ""}, "PCH_SOCKET");
}
