/* SPDX-License-Identifier: Apache-2.0
 *
 * slurmvars: the variables of a task that srun starts.
 *
 * One task is one node, so "srun pchrun" works with one task per host and with several. In a batch
 * script without srun, pchrun is alone, whatever the allocation: only srun would start a second
 * one. See vars.h.
 */
#include "base/str.h"
#include "discover/vars.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOSTS "SLURM_STEP_NODELIST"
#define TASKS "SLURM_STEP_NUM_TASKS"
#define JOB   "SLURM_JOB_ID"
#define STEP  "SLURM_STEP_ID"
#define PTY   "SLURM_PTY_PORT"

/* Steps of a job may run at the same time, and other jobs have neighbouring ids: keep their ports
 * apart. */
enum { PORTS_PER_STEP = 97 };

/* No scheduler starts a job more often. */
enum { RESTARTS_MAX = 1000000 };

/* ---- lists of hosts ---- */

/* No known site has more digits in a host number, or more brackets in a name. */
enum { DIGITS_MAX = 9, PARTS_MAX = 8 };

struct reading {
    const char *text, *at; /* the list, and the part of it that is not read yet */
    struct err *err;
    /* of the name that is read, with its brackets: */
    char first[HOSTLIST_NAME_MAX];
    size_t n; /* hosts */
    int parts;
};

static bool is_bad(const struct reading *reading, const char *at, const char *why)
{
    return err_set(reading->err, ERR_USAGE, 0, "'%.100s' is not a list of hosts: character %zu: %s",
                   reading->text, (size_t)(at - reading->text) + 1, why);
}

static bool has_more(const struct reading *reading)
{
    return err_set(reading->err, ERR_USAGE, 0, "'%.100s' has more than %d hosts", reading->text,
                   DISCOVER_NODES_MAX);
}

/* Returns -1 if there is no number, or if it is too long. */
static int64_t read_number(struct reading *reading)
{
    size_t len = strspn(reading->at, STR_DIGITS);
    if (len == 0 || len > DIGITS_MAX)
        return -1;
    int64_t number = strtoll(reading->at, NULL, 10);
    reading->at += len;
    return number;
}

/* Adds `len` characters to the first host. */
static bool name_add(struct reading *reading, const char *text, size_t len)
{
    return str_addf(reading->first, sizeof reading->first, "%.*s", (int)len, text) ||
           is_bad(reading, text, "a name is too long");
}

/* Reads one number, or two with a dash between them, and adds the number of hosts to *n. */
static bool hostlist_read_range(struct reading *reading, size_t *n)
{
    const char *begin = reading->at;
    int64_t first = read_number(reading), last = first;
    if (first < 0)
        return is_bad(reading, begin, "a number of at most 9 digits is wanted");
    if (*reading->at == '-') {
        reading->at++;
        last = read_number(reading);
    }
    *n += (size_t)(last - first) + 1;
    return last >= first ||
           is_bad(reading, begin, "the range has no end, or ends before it begins");
}

/* Reads a part, from its opening bracket to its closing one. */
static bool read_part(struct reading *reading)
{
    const char *open = reading->at;
    size_t n = 0;
    if (!strchr(open, ']'))
        return is_bad(reading, open, "'[' without ']'");
    if (reading->parts++ == PARTS_MAX)
        return is_bad(reading, open, "a name has too many brackets");
    do {
        reading->at++;
        if (!hostlist_read_range(reading, &n))
            return false;
        if (*reading->at != ',' && *reading->at != ']')
            return is_bad(reading, reading->at, "',' or ']' is wanted");
    } while (*reading->at == ',');
    reading->at++;
    reading->n *= n;
    if (reading->n > DISCOVER_NODES_MAX)
        return has_more(reading);
    return name_add(reading, open + 1, strspn(open + 1, STR_DIGITS));
}

/* Reads a name, up to a comma or the end. */
static bool hostlist_read_name(struct reading *reading)
{
    for (;;) {
        size_t plain = strcspn(reading->at, "[],");
        char end = reading->at[plain];
        if (reading->parts > 0 && plain > 0 && end != '[')
            return is_bad(reading, reading->at, "text follows the last bracket");
        if (!name_add(reading, reading->at, plain))
            return false;
        reading->at += plain;
        if (end == ']')
            return is_bad(reading, reading->at, "']' without '['");
        if (end != '[')
            return reading->first[0] || is_bad(reading, reading->at, "a name is missing");
        if (!read_part(reading))
            return false;
    }
}

bool hostlist_read(const char *text, struct hostlist *ret, struct err *err)
{
    struct reading reading = {.text = text, .at = text, .err = err};
    const char *strange = strpbrk(text, " \t\n()");
    *ret = (struct hostlist){.n = 0};
    if (strange)
        return is_bad(&reading, strange, "it is not allowed in a name");
    for (;; reading.at++) {
        reading.first[0] = '\0';
        reading.n = 1;
        reading.parts = 0;
        if (!hostlist_read_name(&reading))
            return false;
        if (ret->n == 0)
            str_copy(ret->first, sizeof ret->first, reading.first);
        ret->n += reading.n;
        if (ret->n > DISCOVER_NODES_MAX)
            return has_more(&reading);
        if (!*reading.at)
            return true;
    }
}

/* ---- the job ---- */

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
    if (!hostlist_read(list, &hosts, err))
        return err_wrap(err, HOSTS);
    if (hosts.n != (size_t)nhosts)
        return err_set(err, ERR_USAGE, 0,
                       HOSTS " is %.60s, %zu hosts, but SLURM_STEP_NUM_NODES is %d", list, hosts.n,
                       nhosts);
    if (ret->node_rank == 0 && host != 0)
        return err_set(err, ERR_USAGE, 0,
                       "SLURM_PROCID is 0, but SLURM_NODEID is %d: task 0 is not on the first host "
                       "of " HOSTS " (%.60s), where the other nodes look for it",
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
           err_set(
               err, ERR_USAGE, 0,
               "SLURM_HET_SIZE is %d: the parts of a heterogeneous job have separate host lists",
               parts);
}

/* "srun -n 8 --pty bash": task 0 is the shell at the terminal, and the other seven tasks ended,
 * because they found no terminal. The shell has the variables of task 0. A command that is typed
 * there is one process.
 */
static void take_typed(struct discovery *ret)
{
    snprintf(ret->warning, sizeof ret->warning,
             "typed in a shell of srun --pty, so this pchrun trains alone, although " TASKS
             " is %d; to start one in each task: srun pchrun ...",
             ret->nnodes);
    snprintf(ret->nnodes_why, sizeof ret->nnodes_why, PTY " is set, and a shell started this");
    ret->nnodes = 1;
    ret->node_rank = 0;
}

int discover_restarts(char **env)
{
    struct place place = {.env = env, .root = ""};
    const char *text = vars_get(&place, "SLURM_RESTART_COUNT");
    int64_t n;
    bool counts = text && vars_get(&place, JOB);
    return counts && str_to_i64(text, 0, RESTARTS_MAX, &n) ? (int)n : 0;
}

/* Slurm 22.05 does not set it. A job that is requeued has a new start. */
int64_t discover_job_start(char **env)
{
    struct place place = {.env = env, .root = ""};
    const char *text = vars_get(&place, "SLURM_JOB_START_TIME");
    int64_t s;
    return text && vars_get(&place, JOB) && str_to_i64(text, 0, UINT32_MAX, &s) ? s : 0;
}

bool find_slurm(const struct place *place, struct discovery *ret, struct err *err)
{
    if (!vars_take_nodes(place, TASKS, "SLURM_PROCID", ret, err))
        return false;
    if (ret->nnodes > 1 && place->is_typed && vars_get(place, PTY))
        take_typed(ret);
    return ret->nnodes == 1 ||
           (is_one_part(place, err) && take_hosts(place, ret, err) && take_port(place, ret, err));
}
