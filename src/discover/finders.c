/* SPDX-License-Identifier: Apache-2.0
 *
 * finders: a function for each of these sources: mpirun, torchrun, Kubeflow for torchrun,
 * Kubernetes (LeaderWorkerSet, JobSet, indexed Job), AWS Batch, and Cloud TPU. See vars.h.
 */
#include "base/fd.h"
#include "base/str.h"
#include "discover/vars.h"

#include <stdio.h>
#include <string.h>

#define INDEX "JOB_COMPLETION_INDEX"
#define BATCH "AWS_BATCH_JOB_"

enum { HOSTS_MAX = 64 * 1024, PATH_SIZE = 512 };

/* Like vars_take_chief(), but the variable is necessary, see vars_need(). */
static bool need_chief(const struct place *place, const char *name, const char *with,
                       struct discovery *ret, struct err *err)
{
    const char *text = vars_need(place, name, with, err);
    return text && vars_take_chief(ret, text, name, err);
}

/* In a pod node 0 listens on its short name, which resolves before the full name is in the DNS. */
static void bind_to_pod(const struct place *place, struct discovery *ret)
{
    str_copy(ret->bind, sizeof ret->bind, vars_get(place, "HOSTNAME"));
}

/* --- mpirun: Open MPI has its own variables, MPICH, Intel MPI and others use PMI's --- */

static const struct {
    const char *rank, *size, *local_size, *job;
} families[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE",
     "PMIX_NAMESPACE"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", "PMI_JOBID"},
};

/* No variable says where rank 0 is, so rank 0's place is known only if all ranks are on this
 * machine. Open MPI up to 4 gives the address of mpirun, which may run elsewhere than rank 0, so it
 * is not used. */
bool find_mpi(const struct place *place, struct discovery *ret, struct err *err)
{
    size_t at = vars_get(place, families[0].rank) || vars_get(place, families[0].size) ? 0 : 1;
    const char *local_size = families[at].local_size, *job = families[at].job;
    char why[DISCOVER_TEXT_MAX];
    int local = 0;
    if (!vars_take_nodes(place, families[at].size, families[at].rank, ret, err))
        return false;
    if (ret->nnodes == 1)
        return true;
    if (!vars_number_if_set(place, local_size, &local, err))
        return false;
    if (vars_get(place, job)) /* hashed: Open MPI's lower bits are the same for all jobs */
        vars_take_port(ret, str_hash(vars_get(place, job)), job, vars_get(place, job));
    if (local == ret->nnodes) {
        snprintf(why, sizeof why, "%s is %d", local_size, local);
        vars_take_loopback(ret, why);
    }
    return true;
}

/* --- torchrun --- */

/* People and Kubeflow's PyTorchJob also set RANK, WORLD_SIZE and MASTER_ADDR without torchrun. In a
 * pod, RANK may count pods while WORLD_SIZE counts processes, so PET_* is used there. But RANK is
 * used below torchrun: its workers inherit PET_*. WORLD_SIZE or MASTER_ADDR alone prove nothing:
 * batch scripts export them for the program. */

static bool is_worker(const struct place *place)
{
    return vars_get(place, "TORCHELASTIC_RUN_ID");
}

bool find_torchrun(const struct place *place, struct discovery *ret, struct err *err)
{
    int local = 0, port = -1;
    if (!is_worker(place) && vars_get(place, "PET_NODE_RANK"))
        return true;
    if (!vars_take_nodes(place, "WORLD_SIZE", "RANK", ret, err))
        return false;
    if (ret->nnodes == 1)
        return true;
    const char *master = vars_need(place, "MASTER_ADDR", "RANK", err);
    if (!vars_number_if_set(place, "LOCAL_WORLD_SIZE", &local, err) || !master ||
        !vars_number_if_set(place, "MASTER_PORT", &port, err))
        return false;
    if (port >= 0)
        vars_take_port(ret, (uint64_t)port, "MASTER_PORT", vars_get(place, "MASTER_PORT"));
    if (local != ret->nnodes)
        return vars_take_chief(ret, master, "MASTER_ADDR", err);
    vars_take_loopback(ret, "LOCAL_WORLD_SIZE is WORLD_SIZE");
    return true;
}

bool find_kubeflow(const struct place *place, struct discovery *ret, struct err *err)
{
    const char *count = vars_get(place, "PET_NNODES");
    if (is_worker(place))
        return true;
    if (count && str_is(count, "1")) {
        ret->nnodes = 1;
        str_copy(ret->nnodes_why, sizeof ret->nnodes_why, "PET_NNODES is 1");
        return true;
    }
    bind_to_pod(place, ret);
    return vars_take_nodes(place, "PET_NNODES", "PET_NODE_RANK", ret, err) &&
           need_chief(place, "PET_MASTER_ADDR", "PET_NNODES", ret, err);
}

/* --- LeaderWorkerSet --- */

bool find_lws(const struct place *place, struct discovery *ret, struct err *err)
{
    if (!vars_take_nodes(place, "LWS_GROUP_SIZE", "LWS_WORKER_INDEX", ret, err))
        return false;
    if (ret->nnodes == 1)
        return true;
    bind_to_pod(place, ret);
    return need_chief(place, "LWS_LEADER_ADDRESS", "LWS_GROUP_SIZE", ret, err);
}

/* --- JobSet: named like its labels, which the manifest passes to the pod --- */

/* Reads how many pods a Job has, and which of several equal Jobs this is. */
static bool take_jobs(const struct place *place, struct discovery *ret, struct err *err)
{
    int jobs = 1, job = 0, pods = 0, index;
    if (!vars_number(place, INDEX, "JOBSET_NAME", &index, err))
        return false;
    if (vars_get(place, "REPLICATED_JOB_REPLICAS") || vars_get(place, "JOB_INDEX")) {
        struct discovery among = {0};
        if (!vars_take_nodes(place, "REPLICATED_JOB_REPLICAS", "JOB_INDEX", &among, err))
            return false;
        ret->nnodes = jobs = among.nnodes;
        job = among.node_rank;
    }
    if ((jobs > 1 || vars_get(place, "PROCESSES_IN_JOB")) &&
        !vars_number(place, "PROCESSES_IN_JOB", jobs > 1 ? "REPLICATED_JOB_REPLICAS" : INDEX, &pods,
                     err))
        return false;
    if (pods > DISCOVER_NODES_MAX / jobs || (pods > 0 && index >= pods))
        return err_set(err, ERR_USAGE, 0,
                       "PROCESSES_IN_JOB is %d, REPLICATED_JOB_REPLICAS %d and " INDEX
                       " %d, which do not fit together",
                       pods, jobs, index);
    ret->nnodes = jobs * pods;
    ret->node_rank = job * pods + index;
    snprintf(ret->node_rank_why, sizeof ret->node_rank_why, INDEX " is %d, JOB_INDEX is %d", index,
             job);
    snprintf(ret->nnodes_why, sizeof ret->nnodes_why,
             "PROCESSES_IN_JOB is %d, REPLICATED_JOB_REPLICAS is %d", pods, jobs);
    return true;
}

bool find_jobset(const struct place *place, struct discovery *ret, struct err *err)
{
    char chief[2 * ADDRESS_HOST_MAX];
    const char *set = vars_get(place, "JOBSET_NAME");
    const char *job = vars_need(place, "REPLICATED_JOB_NAME", "JOBSET_NAME", err);
    if (!job || !take_jobs(place, ret, err))
        return false;
    if (ret->nnodes == 1)
        return true;
    snprintf(chief, sizeof chief, "%.200s-%.200s-0-0.%.60s", set, job, set);
    bind_to_pod(place, ret);
    return vars_take_chief(ret, chief, "node 0 by JOBSET_NAME and REPLICATED_JOB_NAME", err);
}

/* --- the indexed Job --- */

/* Kubernetes gives a pod of a Job only its index, so the user must set the number of nodes. Pods
 * have DNS names if a headless service is their subdomain; then the kubelet writes the pod's full
 * name into its /etc/hosts. */

/* Finds the name in `text` that begins with `host` and a dot. NULL: no such name. */
static char *find_whole_name(char *text, const char *host)
{
    size_t len = strlen(host);
    char *save;
    for (char *name = strtok_r(text, " \t\n", &save); name; name = strtok_r(NULL, " \t\n", &save))
        if (strncmp(name, host, len) == 0 && name[len] == '.' && name[len + 1])
            return name;
    return NULL;
}

/* If this pod is "train-3.svc.team.svc.cluster.local", pod 0 has "train-0" in its place. */
static bool take_pod_0(const struct place *place, struct discovery *ret, struct err *err)
{
    const char *host = vars_get(place, "HOSTNAME");
    char end[24], chief[2 * ADDRESS_HOST_MAX], path[PATH_SIZE], hosts[HOSTS_MAX];
    snprintf(end, sizeof end, "-%d", ret->node_rank);
    size_t len = host ? strlen(host) : 0, end_len = strlen(end);
    if (len <= end_len || !str_is(host + len - end_len, end))
        return true;
    snprintf(path, sizeof path, "%s/etc/hosts", place->root);
    (void)fd_read_text(path, hosts, sizeof hosts);
    const char *whole = find_whole_name(hosts, host);
    if (!whole)
        return true;
    snprintf(chief, sizeof chief, "%.*s-0%.250s", (int)(len - end_len), host, whole + len);
    bind_to_pod(place, ret);
    return vars_take_chief(ret, chief, "this pod's name in /etc/hosts, with index 0,", err);
}

bool find_kubernetes(const struct place *place, struct discovery *ret, struct err *err)
{
    if (!vars_number(place, INDEX, INDEX, &ret->node_rank, err))
        return false;
    snprintf(ret->node_rank_why, sizeof ret->node_rank_why, INDEX " is %d", ret->node_rank);
    return take_pod_0(place, ret, err);
}

/* --- AWS Batch --- */

/* AWS may make any node the main node. The main node becomes our node 0. The nodes before it get a
 * rank that is higher by one. Only the other nodes get its address. */
bool find_aws_batch(const struct place *place, struct discovery *ret, struct err *err)
{
    int main_node;
    if (!vars_take_nodes(place, BATCH "NUM_NODES", BATCH "NODE_INDEX", ret, err))
        return false;
    if (ret->nnodes == 1)
        return true;
    if (!vars_number(place, BATCH "MAIN_NODE_INDEX", BATCH "NODE_INDEX", &main_node, err))
        return false;
    if (main_node >= ret->nnodes)
        return err_set(err, ERR_USAGE, 0, BATCH "MAIN_NODE_INDEX is %d, but %s", main_node,
                       ret->nnodes_why);
    int index = ret->node_rank;
    ret->node_rank = index == main_node ? 0 : index < main_node ? index + 1 : index;
    str_addf(ret->node_rank_why, sizeof ret->node_rank_why, ", " BATCH "MAIN_NODE_INDEX is %d",
             main_node);
    if (index == main_node)
        return vars_take_chief(ret, "0.0.0.0", "the main node's own address", err);
    return need_chief(place, BATCH "MAIN_NODE_PRIVATE_IPV4_ADDRESS", BATCH "NODE_INDEX", ret, err);
}

/* --- TPU --- */

static int count_items(const char *list)
{
    int n = 1;
    for (; *list; list++)
        n += *list == ',';
    return n;
}

/* Finds the list of a slice's workers, and its first item. Returns the variable's name. */
static const char *read_workers(const struct place *place, const char **ret_list, char *first,
                                size_t size)
{
    static const char *const names[] = {"TPU_WORKER_HOSTNAMES", "TPU_PROCESS_ADDRESSES"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        *ret_list = vars_get(place, names[i]);
        if (!*ret_list)
            continue;
        snprintf(first, size, "%.*s", (int)strcspn(*ret_list, ","), *ret_list);
        return names[i];
    }
    return NULL;
}

/* With several slices, each has the same number of workers. */
static bool take_slices(const struct place *place, struct discovery *ret, struct err *err)
{
    struct discovery slices = {0};
    if (!vars_get(place, "MEGASCALE_NUM_SLICES") && !vars_get(place, "MEGASCALE_SLICE_ID"))
        return true;
    if (!vars_take_nodes(place, "MEGASCALE_NUM_SLICES", "MEGASCALE_SLICE_ID", &slices, err))
        return false;
    if (slices.nnodes == 1)
        return true;
    if (slices.nnodes > DISCOVER_NODES_MAX / ret->nnodes)
        return err_set(err, ERR_USAGE, 0, "%s, and %s: more than %d nodes", slices.nnodes_why,
                       ret->nnodes_why, DISCOVER_NODES_MAX);
    ret->node_rank += slices.node_rank * ret->nnodes;
    ret->nnodes *= slices.nnodes;
    str_addf(ret->nnodes_why, sizeof ret->nnodes_why, ", %s", slices.nnodes_why);
    str_addf(ret->node_rank_why, sizeof ret->node_rank_why, ", %s", slices.node_rank_why);
    return need_chief(place, "MEGASCALE_COORDINATOR_ADDRESS", "MEGASCALE_NUM_SLICES", ret, err);
}

bool find_tpu(const struct place *place, struct discovery *ret, struct err *err)
{
    const char *list;
    char first[ADDRESS_HOST_MAX + 8];
    const char *name = read_workers(place, &list, first, sizeof first);
    if (!name)
        return err_set(err, ERR_NOT_FOUND, 0,
                       "TPU_WORKER_ID is set (%.20s), but TPU_WORKER_HOSTNAMES is not",
                       vars_get(place, "TPU_WORKER_ID"));
    int n = count_items(list), id = 0;
    bool is_numbered = n > 1 || vars_get(place, "TPU_WORKER_ID");
    ret->nnodes = n;
    if (is_numbered && !vars_number(place, "TPU_WORKER_ID", name, &id, err))
        return false;
    if (id >= n || n > DISCOVER_NODES_MAX)
        return err_set(err, ERR_USAGE, 0, "TPU_WORKER_ID is %d, but %s has %d entries (%.100s)", id,
                       name, n, list);
    ret->node_rank = id;
    snprintf(ret->nnodes_why, sizeof ret->nnodes_why, "%s has %d entr%s", name, n,
             n == 1 ? "y" : "ies");
    if (is_numbered)
        snprintf(ret->node_rank_why, sizeof ret->node_rank_why, "TPU_WORKER_ID is %d", id);
    if (n > 1 && !vars_take_chief(ret, first, name, err))
        return false;
    return take_slices(place, ret, err);
}
