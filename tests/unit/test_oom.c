/* SPDX-License-Identifier: Apache-2.0
 *
 * test_oom: which counter tells of the OOM killer, in trees of files that stand for /proc and /sys;
 * and in a real control group, where one can be made.
 */
#include "os/oom.h"

#include "folder.h"

#include <sys/mman.h>

static struct oom oom = {.root = folder};

TestSuite(oom, .init = folder_make, .fini = folder_remove);

#define V2_LINE "31 24 0:27 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
#define V1_LINE "35 31 0:32 / /sys/fs/cgroup/mem\\040ory rw - cgroup cgroup rw,memory\n"
#define OTHERS                                                             \
    "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"                                \
    "23 22 0:21 / /sys/fs/cgroup/cpu rw - cgroup none rw,cpu,memoryless\n" \
    "nonsense\n\n"

static void begin_v2(void)
{
    folder_put("proc/self/mountinfo", OTHERS V2_LINE);
    folder_put("proc/self/cgroup", "0::/job\n");
    folder_put("proc/7/cgroup", "0::/job/rank\n");
    folder_put("proc/8/cgroup", "0::/elsewhere\n");
    folder_put("sys/fs/cgroup/job/memory.events", "low 0\nhigh 0\nmax 3\noom 1\noom_kill 2\n");
    folder_put("sys/fs/cgroup/job/rank/memory.events", "oom 0\noom_kill 1\noom_group_kill 0\n");
    folder_put("sys/fs/cgroup/elsewhere/memory.events", "oom_kill 9\n");
}

Test(oom, version_2)
{
    const char *group = NULL;
    begin_v2();
    oom_watch(&oom, 0);
    oom_watch(&oom, 0);
    cr_assert_eq(oom.n, 1, "once");
    cr_assert_eq(oom_ask(&oom, 7, true, &group), OOM_NO, "those were before");
    folder_put("sys/fs/cgroup/job/memory.events", "oom_kill 4\n");
    cr_assert_eq(oom_ask(&oom, 7, true, &group), OOM_YES);
    cr_assert_str_eq(group, "/job");
    cr_assert_eq(oom_ask(&oom, 7, true, &group), OOM_YES, "two died");
    cr_assert_eq(oom_ask(&oom, 7, true, &group), OOM_NO, "and no third");
}

/* A rank in a group of its own does not die of what happens in its neighbour's. */
Test(oom, the_group_of_the_dead)
{
    const char *group = NULL;
    begin_v2();
    oom_watch(&oom, 7);
    cr_assert_eq(oom_ask(&oom, 8, true, &group), OOM_UNKNOWN, "its group was not read in time");
    oom_watch(&oom, 8);
    folder_put("sys/fs/cgroup/job/rank/memory.events", "oom_kill 2\n");
    cr_assert_eq(oom_ask(&oom, 8, true, &group), OOM_NO);
    folder_put("proc/7/cgroup", "0::/job/rank/deeper (deleted)\n");
    cr_assert_eq(oom_ask(&oom, 7, true, &group), OOM_YES);
    cr_assert_str_eq(group, "/job/rank");
}

/* In v1 a dead process is shown in the topmost group, whatever group it was in. */
Test(oom, version_1)
{
    const char *group = NULL;
    folder_put("proc/self/mountinfo", OTHERS V1_LINE);
    folder_put("proc/self/cgroup", "12:cpu,cpuacct:/\n4:memory:/job\n0::/\n");
    folder_put("proc/7/cgroup", "4:memory:/\n0::/\n");
    folder_put("sys/fs/cgroup/mem ory/job/memory.oom_control", "under_oom 0\noom_kill 0\n");
    oom_watch(&oom, 0);
    cr_assert_eq(oom.n, 1);
    cr_assert_eq(oom_ask(&oom, 7, true, &group), OOM_NO);
    folder_put("sys/fs/cgroup/mem ory/job/memory.oom_control", "under_oom 0\noom_kill 1\n");
    cr_assert_eq(oom_ask(&oom, 7, true, &group), OOM_YES);
    cr_assert_str_eq(group, "/job");
}

/* Version 2 is mounted beside version 1, and has no memory controller. */
Test(oom, both_versions)
{
    folder_put("proc/self/mountinfo", V2_LINE V1_LINE);
    folder_put("proc/self/cgroup", "4:memory:/job\n0::/job\n");
    folder_put("sys/fs/cgroup/mem ory/job/memory.oom_control", "oom_kill 0\n");
    oom_watch(&oom, 0);
    cr_assert_eq(oom.n, 1);
    cr_assert(!oom.groups[0].is_v2);
}

/* A rank that dies of our SIGTERM is reaped before the one that the kernel has killed: the first
 * rank finds that kill in the counter, and leaves it to the other rank. */
static void expect_left_alone(const char *file, const char *group_name)
{
    const char *group = NULL;
    folder_put(file, "oom_kill 0\n");
    oom_watch(&oom, 0);
    cr_assert_eq(oom.n, 1);
    folder_put(file, "oom_kill 1\n");
    cr_assert_eq(oom_ask(&oom, 8, false, &group), OOM_YES, "it hears of it");
    cr_assert_str_eq(group, group_name);
    cr_assert_eq(oom_ask(&oom, 8, false, &group), OOM_YES, "and so does the next");
    cr_assert_eq(oom_ask(&oom, 7, true, &group), OOM_YES, "this was it");
    cr_assert_eq(oom_ask(&oom, 7, true, &group), OOM_NO, "one kill, one death");
    cr_assert_eq(oom_ask(&oom, 8, false, &group), OOM_NO, "all is accounted for");
    folder_put(file, "oom_kill 2\n");
    oom_settle(&oom);
    cr_assert_eq(oom_ask(&oom, 7, true, &group), OOM_NO, "that was in the generation before");
    folder_put(file, "oom_kill 3\n");
    cr_assert_eq(oom_ask(&oom, 7, true, &group), OOM_YES);
}

Test(oom, only_a_kill_takes_from_version_2)
{
    folder_put("proc/self/mountinfo", V2_LINE);
    folder_put("proc/self/cgroup", "0::/job\n");
    folder_put("proc/7/cgroup", "0::/job/rank\n");
    folder_put("proc/8/cgroup", "0::/job/rank\n");
    expect_left_alone("/sys/fs/cgroup/job/memory.events", "/job");
}

Test(oom, only_a_kill_takes_from_version_1)
{
    folder_put("proc/self/mountinfo", V1_LINE);
    folder_put("proc/self/cgroup", "4:memory:/job\n0::/\n");
    folder_put("proc/7/cgroup", "4:memory:/\n0::/\n");
    folder_put("proc/8/cgroup", "4:memory:/\n0::/\n");
    expect_left_alone("/sys/fs/cgroup/mem ory/job/memory.oom_control", "/job");
}

/* A container sees a part of the hierarchy, and may be shown the whole path of its group. */
Test(oom, a_part_of_the_hierarchy)
{
    folder_put("proc/self/mountinfo",
               "31 24 0:27 /pods/x /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    folder_put("proc/self/cgroup", "0::/pods/x/job\n");
    folder_put("proc/7/cgroup", "0::/pods/xy\n");
    folder_put("proc/8/cgroup", "0::/../other\n");
    folder_put("proc/9/cgroup", "0::/pods/x\n");
    folder_put("sys/fs/cgroup/job/memory.events", "oom_kill 0\n");
    folder_put("sys/fs/cgroup/memory.events", "oom_kill 0\n");
    oom_watch(&oom, 0);
    oom_watch(&oom, 7);
    oom_watch(&oom, 8);
    oom_watch(&oom, 9);
    cr_assert_eq(oom.n, 2, "those that are not shown have no counter");
}

Test(oom, nothing_there)
{
    const char *group;
    oom_watch(&oom, 0);
    oom_watch(&oom, 7);
    cr_assert_eq(oom.n, 0);
    cr_assert_eq(oom_ask(&oom, 7, true, &group), OOM_UNKNOWN);
    folder_put("proc/self/mountinfo", V2_LINE);
    folder_put("proc/self/cgroup", "0::/job\n");
    folder_put("sys/fs/cgroup/job/memory.events", "oom 3\nxoom_kill 3\n");
    oom_watch(&oom, 0);
    cr_assert_eq(oom.n, 0);
}

/* --- the real thing --- */

static bool write_to(const char *dir, const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0)
        close(fd);
    return ok;
}

/* A child in the group, that takes more than the group may have. */
static pid_t start_hog(const char *dir)
{
    char text[16];
    int go[2];
    cr_assert_eq(pipe(go), 0);
    pid_t pid = fork();
    if (pid == 0) {
        char c;
        enum { SIZE = 256 << 20 };
        if (read(go[0], &c, 1) == 1) {
            char *memory =
                mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            for (size_t i = 0; memory != MAP_FAILED && i < SIZE; i += 4096)
                memory[i] = 1;
        }
        _exit(3);
    }
    snprintf(text, sizeof text, "%d", (int)pid);
    cr_assert(write_to(dir, "cgroup.procs", text));
    cr_assert_eq(write(go[1], "g", 1), 1);
    close(go[0]);
    close(go[1]);
    return pid;
}

static bool make_group(char *dir, size_t size, bool *ret_is_v2)
{
    static const char *const parents[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/memory"};
    static const char *const limits[] = {"memory.max", "memory.limit_in_bytes"};
    for (int i = 0; i < 2; i++) {
        snprintf(dir, size, "%s/pchrun-test-%d", parents[i], (int)getpid());
        if (mkdir(dir, 0755) != 0)
            continue;
        *ret_is_v2 = i == 0;
        if (write_to(dir, limits[i], "16777216"))
            return true;
        rmdir(dir);
    }
    return false;
}

Test(oom, a_real_control_group)
{
    char dir[128], text[16];
    bool is_v2;
    oom = (struct oom){.root = ""};
    const char *group = NULL;
    if (!make_group(dir, sizeof dir, &is_v2))
        cr_skip_test("no control group can be made here");
    write_to(dir, "memory.swap.max", "0");
    pid_t idle = fork();
    if (idle == 0) {
        pause();
        _exit(0);
    }
    snprintf(text, sizeof text, "%d", (int)idle);
    cr_assert(write_to(dir, "cgroup.procs", text));
    oom_watch(&oom, idle);
    cr_assert_eq(oom.n, 1);
    cr_assert_eq(oom.groups[0].is_v2, is_v2);
    kill(idle, SIGKILL);
    siginfo_t info;
    waitid(P_PID, (id_t)idle, &info, WEXITED | WNOWAIT);
    cr_expect_eq(oom_ask(&oom, idle, true, &group), OOM_NO);
    unit_wait(idle);
    pid_t hog = start_hog(dir);
    waitid(P_PID, (id_t)hog, &info, WEXITED | WNOWAIT);
    cr_expect_eq(info.si_status, SIGKILL);
    cr_expect_eq(oom_ask(&oom, hog, true, &group), OOM_YES);
    unit_wait(hog);
    for (int i = 0; i < 1000 && rmdir(dir) != 0; i++)
        usleep(1000); /* the group is busy until the kernel has freed the processes */
    cr_assert(unit_no_children());
}
