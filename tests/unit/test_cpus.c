/* SPDX-License-Identifier: Apache-2.0
 *
 * The processors in shares, on machines that are made up below a directory of the test's own.
 */
#include "base/str.h"
#include "os/cpus.h"

#include <criterion/criterion.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[64];

static void make_root(void)
{
    strcpy(root, "/tmp/test_cpus.XXXXXX");
    cr_assert(mkdtemp(root));
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    return remove(path);
}

static void remove_root(void)
{
    cr_assert(nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS) == 0);
}

TestSuite(cpus, .init = make_root, .fini = remove_root);

static void put(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s%s", root, name);
    for (char *slash = strchr(path + strlen(root) + 1, '/'); slash;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
    FILE *file = fopen(path, "w");
    cr_assert(file && fprintf(file, "%s\n", text) > 0);
    cr_assert(fclose(file) == 0);
}

/* Two hardware threads in each core, with numbers as Linux gives them: first all first ones. */
static void put_threads(int cpus)
{
    char name[128], text[32];
    for (int i = 0; i < cpus; i++) {
        snprintf(name, sizeof name, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list",
                 i);
        snprintf(text, sizeof text, "%d,%d", i % (cpus / 2), i % (cpus / 2) + cpus / 2);
        put(name, text);
    }
}

static struct cpus first(int n)
{
    struct cpus cpus = {{0}};
    for (int i = 0; i < n; i++)
        cpus_add(&cpus, i);
    return cpus;
}

/* "0 1 8 9 | 2 3 …" */
static void assert_shares(const struct cpus *allowed, int count, const char *expected)
{
    struct cpus shares[16];
    struct err err = {0};
    char text[512] = "";
    cr_assert(cpus_split(allowed, root, count, shares, &err), "%s", err.text);
    for (int i = 0; i < count; i++) {
        str_addf(text, sizeof text, "%s", i > 0 ? "| " : "");
        for (int cpu = 0; cpu < CPUS_MAX; cpu++)
            if (cpus_has(&shares[i], cpu))
                str_addf(text, sizeof text, "%d ", cpu);
    }
    cr_expect_str_eq(text, expected, "%s", text);
}

Test(cpus, the_threads_of_a_core_stay_together)
{
    struct cpus all = first(8);
    put_threads(8);
    assert_shares(&all, 1, "0 1 2 3 4 5 6 7 ");
    assert_shares(&all, 2, "0 1 4 5 | 2 3 6 7 ");
    assert_shares(&all, 4, "0 4 | 1 5 | 2 6 | 3 7 ");
    assert_shares(&all, 3, "0 4 | 1 2 5 | 3 6 7 ");
}

/* Even and odd numbers on one node each, as some firmware has it. */
Test(cpus, a_share_is_of_one_node)
{
    struct cpus all = first(8);
    put("/sys/devices/system/node/online", "0-1");
    put("/sys/devices/system/node/node0/cpulist", "0,2,4,6");
    put("/sys/devices/system/node/node1/cpulist", "1,3,5,7");
    assert_shares(&all, 2, "0 2 4 6 | 1 3 5 7 ");
    assert_shares(&all, 4, "0 2 | 4 6 | 1 3 | 5 7 ");
    put_threads(8); /* 0 and 4 are one core */
    assert_shares(&all, 4, "0 4 | 2 6 | 1 5 | 3 7 ");
}

/* A scheduler that gave us some, and a kernel without NUMA. */
Test(cpus, only_those_that_are_allowed)
{
    struct cpus some = {{0}};
    cpus_add(&some, 3);
    cpus_add(&some, 64);
    cpus_add(&some, CPUS_MAX - 1);
    assert_shares(&some, 3, "3 | 64 | 4095 ");
    put("/sys/devices/system/node/online", "nonsense");
    put("/sys/devices/system/cpu/cpu3/topology/thread_siblings_list", "");
    assert_shares(&some, 2, "3 | 64 4095 ");
}

Test(cpus, too_few)
{
    struct cpus two = first(2), shares[3];
    struct err err = {0};
    cr_expect(!cpus_split(&two, root, 3, shares, &err));
    cr_expect_str_eq(err.text, "there are 2 processors for 3 commands");
}

Test(cpus, ours)
{
    struct cpus ours;
    struct err err = {0};
    cr_assert(cpus_allowed(&ours, &err), "%s", err.text);
    assert_shares(&(struct cpus){{1}}, 1, "0 ");
    cr_expect(memcmp(&ours, &(struct cpus){{0}}, sizeof ours) != 0);
}
