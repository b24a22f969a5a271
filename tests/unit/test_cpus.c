/* SPDX-License-Identifier: Apache-2.0
 *
 * The processors in shares, on machines that are made up below a directory of the test's own.
 */
#include "os/cpus.h"

#include "folder.h"

#include "base/str.h"

TestSuite(cpus, .init = folder_make, .fini = folder_remove);

/* Two hardware threads in each core, with numbers as Linux gives them: first all first ones. */
static void put_threads(int cpus)
{
    char name[128], text[32];
    for (int i = 0; i < cpus; i++) {
        snprintf(name, sizeof name, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list",
                 i);
        snprintf(text, sizeof text, "%d,%d\n", i % (cpus / 2), i % (cpus / 2) + cpus / 2);
        folder_put(name, text);
    }
}

static struct cpus first(int n)
{
    struct cpus cpus = {{{{0}}}};
    for (int i = 0; i < n; i++)
        CPU_SET_S(i, sizeof cpus, cpus.sets);
    return cpus;
}

/* "0 1 8 9 | 2 3 …" */
static void assert_shares(const struct cpus *allowed, int count, const char *expected)
{
    struct cpus shares[16];
    struct err err = {0};
    char text[512] = "";
    cr_assert(cpus_split(allowed, folder, count, shares, &err), "%s", err.text);
    for (int i = 0; i < count; i++) {
        str_addf(text, sizeof text, "%s", i > 0 ? "| " : "");
        for (int cpu = 0; cpu < CPUS_MAX; cpu++)
            if (CPU_ISSET_S(cpu, sizeof shares[i], shares[i].sets))
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
    folder_put("/sys/devices/system/node/online", "0-1\n");
    folder_put("/sys/devices/system/node/node0/cpulist", "0,2,4,6\n");
    folder_put("/sys/devices/system/node/node1/cpulist", "1,3,5,7\n");
    assert_shares(&all, 2, "0 2 4 6 | 1 3 5 7 ");
    assert_shares(&all, 4, "0 2 | 4 6 | 1 3 | 5 7 ");
    put_threads(8); /* 0 and 4 are one core */
    assert_shares(&all, 4, "0 4 | 2 6 | 1 5 | 3 7 ");
}

/* A scheduler that gave us some processors, and a kernel without NUMA. */
Test(cpus, only_those_that_are_allowed)
{
    struct cpus some = {{{{0}}}};
    CPU_SET_S(3, sizeof some, some.sets);
    CPU_SET_S(64, sizeof some, some.sets);
    CPU_SET_S(CPUS_MAX - 1, sizeof some, some.sets);
    assert_shares(&some, 3, "3 | 64 | 4095 ");
    folder_put("/sys/devices/system/node/online", "nonsense\n");
    folder_put("/sys/devices/system/cpu/cpu3/topology/thread_siblings_list", "\n");
    assert_shares(&some, 2, "3 | 64 4095 ");
}

Test(cpus, too_few)
{
    struct cpus two = first(2), shares[3];
    struct err err = {0};
    cr_expect(!cpus_split(&two, folder, 3, shares, &err));
    cr_expect_str_eq(err.text, "there are 2 processors for 3 commands");
}

Test(cpus, ours)
{
    struct cpus ours;
    struct err err = {0};
    cr_assert(cpus_allowed(&ours, &err), "%s", err.text);
    assert_shares(&(struct cpus){{{{1}}}}, 1, "0 ");
    cr_expect(memcmp(&ours, &(struct cpus){{{{0}}}}, sizeof ours) != 0);
}
