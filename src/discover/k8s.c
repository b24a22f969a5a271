/* SPDX-License-Identifier: Apache-2.0
 *
 * k8s: pods of Kubernetes: the indexed Job, the JobSet, the LeaderWorkerSet.
 *
 * Kubernetes gives a pod of a Job only its index, so the user must set the number of nodes. Pods
 * have DNS names if a headless service is their subdomain; then the kubelet writes the pod's full
 * name into its /etc/hosts. See vars.h.
 */
#include "base/fd.h"
#include "base/str.h"
#include "discover/vars.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define INDEX "JOB_COMPLETION_INDEX"

enum { HOSTS_MAX = 64 * 1024, PATH_SIZE = 512 };

bool find_lws(const struct place *place, struct discovery *ret, struct err *err)
{
    if (!vars_take_nodes(place, "LWS_GROUP_SIZE", "LWS_WORKER_INDEX", ret, err))
        return false;
    if (ret->nnodes == 1)
        return true;
    vars_bind_to_pod(place, ret);
    return vars_need_chief(place, "LWS_LEADER_ADDRESS", "LWS_GROUP_SIZE", ret, err);
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
    vars_bind_to_pod(place, ret);
    return vars_take_chief(ret, chief, "by JOBSET_NAME and REPLICATED_JOB_NAME node 0", err);
}

/* --- the indexed Job --- */

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
    vars_bind_to_pod(place, ret);
    return vars_take_chief(ret, chief, "this pod's name in /etc/hosts, with index 0,", err);
}

bool find_kubernetes(const struct place *place, struct discovery *ret, struct err *err)
{
    if (!vars_number(place, INDEX, INDEX, &ret->node_rank, err))
        return false;
    snprintf(ret->node_rank_why, sizeof ret->node_rank_why, INDEX " is %d", ret->node_rank);
    return take_pod_0(place, ret, err);
}
