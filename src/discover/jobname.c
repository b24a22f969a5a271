/* SPDX-License-Identifier: Apache-2.0
 *
 * jobname: names a job that its user has not named. See discover.h.
 */
#include "base/str.h"
#include "discover/vars.h"

#include <stdio.h>
#include <string.h>

/* The schedulers that name a job. `sign` must also be set, because other programs set `name`, too.
 * The tasks of an array share the name; `task` numbers them. */
static const struct {
    const char *name, *sign, *task;
} schedulers[] = {
    {"SLURM_JOB_NAME", "SLURM_JOB_ID", "SLURM_ARRAY_TASK_ID"},
    {"PBS_JOBNAME", "PBS_JOBID", "PBS_ARRAY_INDEX"},
    {"LSB_JOBNAME", "LSB_JOBID", NULL},
    {"JOB_NAME", "SGE_ROOT", "SGE_TASK_ID"},
    {"JOBSET_NAME", "JOBSET_NAME", NULL},
};

/* Schedulers give these names, of the command or of its kind, to jobs without a name. */
static bool is_no_name(const char *name)
{
    static const char *const common[] = {"pchrun", "bash",  "sh",          "wrap",
                                         "sbatch", "STDIN", "interactive", NULL};
    return str_is_one_of(name, common);
}

static bool name_by_scheduler(const struct place *place, struct job_name *ret)
{
    for (size_t i = 0; i < ARRAY_LEN(schedulers); i++) {
        const char *name = vars_get(place, schedulers[i].name);
        const char *task = schedulers[i].task ? vars_get(place, schedulers[i].task) : NULL;
        if (!name || !vars_get(place, schedulers[i].sign) || is_no_name(name))
            continue;
        snprintf(ret->name, sizeof ret->name, "%s", name);
        if (task && str_is_of(task, STR_DIGITS)) /* Grid Engine: "undefined" without an array */
            str_addf(ret->name, sizeof ret->name, "-%s", task);
        snprintf(ret->why, sizeof ret->why, "%s is %.80s", schedulers[i].name, name);
        return true;
    }
    return false;
}

/* The last part of a pod's name is its index, or five random characters of Kubernetes' alphabet
 * (k8s.io/apimachinery/pkg/util/rand). Returns the length without it. */
static size_t cut_pod(const char *host)
{
    const char *dash = strrchr(host, '-');
    if (!dash || dash == host || !dash[1])
        return strlen(host);
    bool is_random = strlen(dash) == 6 && str_is_of(dash + 1, "bcdfghjklmnpqrstvwxz2456789");
    return is_random || str_is_of(dash + 1, STR_DIGITS) ? (size_t)(dash - host) : strlen(host);
}

static bool name_by_pod(const struct place *place, const char *host, struct job_name *ret)
{
    static const char *const roles[] = {"-master", "-worker", "-launcher"}; /* Kubeflow's */
    if (!vars_get(place, "KUBERNETES_SERVICE_HOST"))
        return false;
    snprintf(ret->name, sizeof ret->name, "%.*s", (int)cut_pod(host), host);
    for (size_t i = 0; i < ARRAY_LEN(roles); i++) {
        size_t len = strlen(ret->name), role = strlen(roles[i]);
        if (len > role && str_is(ret->name + len - role, roles[i]))
            ret->name[len - role] = '\0';
    }
    snprintf(ret->why, sizeof ret->why, "the pod's name is %.80s", host);
    return true;
}

void discover_job_name(char **env, const char *folder, const char *host, struct job_name *ret)
{
    struct place place = {.env = env, .root = ""};
    const char *slash = strrchr(folder, '/');
    if (!name_by_scheduler(&place, ret) && !name_by_pod(&place, host, ret)) {
        bool has_name = slash && slash[1] && str_is_utf8(slash);
        snprintf(ret->name, sizeof ret->name, "%s", has_name ? slash + 1 : host);
        snprintf(ret->why, sizeof ret->why, has_name ? "the name of %.120s" : "this host's name",
                 folder);
    }
    ret->name[str_fitting(ret->name, JOB_NAME_MAX)] = '\0';
    str_printable(ret->name);
}
