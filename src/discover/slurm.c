/* SPDX-License-Identifier: Apache-2.0
 *
 * slurm: the variables of a task that srun starts.
 *
 * One task is one node, so "srun pchrun" works with one task per host and with several. In a batch
 * script without srun, pchrun is alone, whatever the allocation: only srun would start a second
 * one. See vars.h.
 */
#include "base/str.h"
#include "discover/hostlist.h"
#include "discover/vars.h"

#include <inttypes.h>
#include <stdio.h>

#define HOSTS "SLURM_STEP_NODELIST"
#define TASKS "SLURM_STEP_NUM_TASKS"
#define JOB   "SLURM_JOB_ID"
#define STEP  "SLURM_STEP_ID"

/* Steps of a job may run at the same time, and other jobs have neighbouring ids: keep their ports
 * apart. */
enum { PORTS_PER_STEP = 97 };

/* The list and the count come from the same srun; if they differ, one is stale. */
static bool take_hosts(const struct place *place, struct discovery *ret, struct err *err)
{
    const char *list = vars_need(place, HOSTS, TASKS, err);
    char why[DISCOVER_TEXT_MAX];
    struct hostlist hosts;
    int nhosts, host;
    if (!list || !vars_number(place, "SLURM_STEP_NUM_NODES", HOSTS, &nhosts, err) ||
        !vars_number(place, "SLURM_NODEID", HOSTS, &host, err))
        return false;
    if (!hostlist_read(list, DISCOVER_NODES_MAX, &hosts, err))
        return err_wrap(err, HOSTS);
    if (hosts.n != (size_t)nhosts)
        return err_set(err, ERR_USAGE, 0,
                       HOSTS " is %.60s, %zu hosts, but SLURM_STEP_NUM_NODES is %d", list, hosts.n,
                       nhosts);
    if (ret->node_rank == 0 && host != 0)
        return err_set(err, ERR_USAGE, 0,
                       "SLURM_PROCID is 0, but SLURM_NODEID is %d: task 0 is not on the first host "
                       "of " HOSTS " (%.60s), where the others would look for it",
                       host, list);
    if (nhosts == 1) {
        snprintf(why, sizeof why, HOSTS " is %.60s", list);
        vars_take_loopback(ret, why);
        return true;
    }
    return vars_take_chief(ret, hosts.first, "the first host of " HOSTS, err);
}

static bool take_port(const struct place *place, struct discovery *ret, struct err *err)
{
    uint64_t job, step;
    if (!vars_id(place, JOB, HOSTS, &job, err) || !vars_id(place, STEP, HOSTS, &step, err))
        return false;
    vars_take_port(ret, job + step * PORTS_PER_STEP, JOB, vars_get(place, JOB));
    str_addf(ret->port_why, sizeof ret->port_why, ", " STEP " is %" PRIu64, step);
    return true;
}

static bool is_one_part(const struct place *place, struct err *err)
{
    int parts = 1;
    if (!vars_number_if_set(place, "SLURM_HET_SIZE", &parts, err))
        return false;
    return parts <= 1 ||
           err_set(err, ERR_USAGE, 0,
                   "SLURM_HET_SIZE is %d: each part of a heterogeneous job has lists of its own",
                   parts);
}

bool find_slurm(const struct place *place, struct discovery *ret, struct err *err)
{
    if (!vars_take_nodes(place, TASKS, "SLURM_PROCID", ret, err))
        return false;
    return ret->nnodes == 1 ||
           (is_one_part(place, err) && take_hosts(place, ret, err) && take_port(place, ret, err));
}
