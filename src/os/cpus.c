/* SPDX-License-Identifier: Apache-2.0
 * See cpus.h.
 */
#include "os/cpus.h"

#include "base/fd.h"
#include "base/str.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NODES "/sys/devices/system/node"
#define CPU   "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list"

enum { PATH_SIZE = 512, LIST_SIZE = 4096 };

/* A usable processor and its place. */
struct place {
    int node, core, cpu; /* core: the lowest number of the core's hardware threads */
};

bool cpus_allowed(struct cpus *ret, struct err *err)
{
    memset(ret, 0, sizeof *ret);
    return sched_getaffinity(0, sizeof *ret, ret->sets) == 0 ||
           err_set(err, ERR_SYSTEM, errno, "cannot tell which processors may be used");
}

/* --- the kernel's lists: "0-3,8-11" --- */

/* Takes the next range. False: no more, or malformed. */
static bool next_range(char **at, int *ret_first, int *ret_last)
{
    char *range = strsep(at, ",");
    char *last = range ? strchr(range, '-') : NULL;
    int64_t a, b;
    if (last)
        *last++ = '\0';
    if (!range || !str_to_i64(range, 0, CPUS_MAX - 1, &a) ||
        !str_to_i64(last ? last : range, a, CPUS_MAX - 1, &b))
        return false;
    *ret_first = (int)a;
    *ret_last = (int)b;
    return true;
}

/* --- topology --- */

static void take_node(const char *root, int node, struct place *by_cpu)
{
    char path[PATH_SIZE], text[LIST_SIZE], *at = text;
    int first, last;
    snprintf(path, sizeof path, "%s" NODES "/node%d/cpulist", root, node);
    fd_read_line(path, text, sizeof text);
    while (next_range(&at, &first, &last))
        for (int cpu = first; cpu <= last; cpu++)
            by_cpu[cpu].node = node;
}

static void take_nodes(const char *root, struct place *by_cpu)
{
    char path[PATH_SIZE], text[LIST_SIZE], *at = text;
    int first, last;
    snprintf(path, sizeof path, "%s" NODES "/online", root);
    fd_read_line(path, text, sizeof text);
    while (next_range(&at, &first, &last))
        for (int node = first; node <= last; node++)
            take_node(root, node, by_cpu);
}

static void take_core(const char *root, struct place *place)
{
    char path[PATH_SIZE], text[LIST_SIZE], *at = text;
    int first, last;
    snprintf(path, sizeof path, "%s" CPU, root, place->cpu);
    fd_read_line(path, text, sizeof text);
    place->core = next_range(&at, &first, &last) ? first : place->cpu;
}

static int cpus_compare(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->node != y->node)
        return x->node - y->node;
    return x->core != y->core ? x->core - y->core : x->cpu - y->cpu;
}

/* Sorts the allowed processors by place; returns how many. */
static int arrange(const struct cpus *allowed, const char *root, struct place *places)
{
    int n = 0;
    for (int cpu = 0; cpu < CPUS_MAX; cpu++)
        places[cpu] = (struct place){.cpu = cpu};
    take_nodes(root, places);
    for (int cpu = 0; cpu < CPUS_MAX; cpu++)
        if (CPU_ISSET_S(cpu, sizeof *allowed, allowed->sets))
            places[n++] = places[cpu];
    for (int i = 0; i < n; i++)
        take_core(root, &places[i]);
    qsort(places, (size_t)n, sizeof *places, cpus_compare);
    return n;
}

bool cpus_split(const struct cpus *allowed, const char *root, int count, struct cpus *ret,
                struct err *err)
{
    struct place *places = calloc(CPUS_MAX, sizeof *places);
    if (!places)
        return err_set(err, ERR_SYSTEM, ENOMEM, "cannot divide the processors among the commands");
    int n = arrange(allowed, root, places);
    bool is_enough = n >= count;
    if (!is_enough)
        err_set(err, ERR_USAGE, 0, "there are %d processors for %d commands", n, count);
    for (int i = 0; is_enough && i < count; i++) {
        memset(&ret[i], 0, sizeof ret[i]);
        for (int k = i * n / count; k < (i + 1) * n / count; k++)
            CPU_SET_S(places[k].cpu, sizeof ret[i], ret[i].sets);
    }
    free(places);
    return is_enough;
}
