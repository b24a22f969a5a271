/* SPDX-License-Identifier: Apache-2.0
 *
 * test_cgroup: finds the path of our control group, as the kernel tells it. Another program that
 * tidies up does not take the group from us. tests/behave/test_cgroup.py tests its use.
 */
#include "os/cgroup.h"

#include "folder.h"

#include <sys/prctl.h>

static const char hybrid[] =
    "30 24 0:26 / /sys/fs/cgroup ro,nosuid - tmpfs tmpfs ro,mode=755\n"
    "31 30 0:27 / /sys/fs/cgroup/unified rw,nosuid shared:9 - cgroup2 cgroup2 rw\n"
    "32 30 0:28 / /sys/fs/cgroup/memory rw,nosuid - cgroup cgroup rw,memory\n";
static const char unified[] = "31 30 0:27 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";
/* Another group's directory is mounted first, then one above ours. */
static const char parts[] = "31 30 0:27 /other /mnt/other rw - cgroup2 cgroup2 rw\n"
                            "32 30 0:27 /a /mnt/a rw - cgroup2 cgroup2 rw\n";

static const struct {
    const char *groups, *mounts, *path; /* NULL: none */
} cases[] = {
    {"9:name=systemd:/x\n1:cpu:/y\n0::/user.slice/s.scope\n", hybrid,
     "/sys/fs/cgroup/unified/user.slice/s.scope"},
    {"0::/user.slice/s.scope\n", unified, "/sys/fs/cgroup/user.slice/s.scope"},
    {"0::/\n", unified, "/sys/fs/cgroup"},
    {"0::/a\n", parts, "/mnt/a"},
    {"0::/a/b\n", parts, "/mnt/a/b"},
    {"0::/ab\n", parts, NULL},
    {"0::/\n", parts, NULL},
    {"0::/../b\n", unified, NULL}, /* outside of our namespace */
    {"1:cpu:/\n", hybrid, NULL},
    {"0::/a\n", "32 30 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n", NULL},
    {"0::/a\n", "", NULL},
    {"", unified, NULL},
    {"0::/a\n", "31 30 - cgroup2 \n", NULL},
};

static bool is_found(const char *groups, const char *mounts, struct cgroup_place *place)
{
    folder_put("proc/self/cgroup", groups);
    folder_put("proc/self/mountinfo", mounts);
    *place = (struct cgroup_place){.is_v2 = true};
    return cgroup_find(folder, 0, place);
}

Test(cgroup, is_found, .init = folder_make, .fini = folder_remove)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct cgroup_place place;
        bool found = is_found(cases[i].groups, cases[i].mounts, &place);
        cr_expect_eq(found, cases[i].path != NULL, "case %zu", i);
        if (cases[i].path)
            cr_expect_str_eq(place.dir, cases[i].path, "case %zu", i);
    }
}

Test(cgroup, of_a_path_that_does_not_fit, .init = folder_make, .fini = folder_remove)
{
    static char groups[PATH_MAX];
    struct cgroup_place place;
    memset(groups, 'a', sizeof groups - 1);
    memcpy(groups, "0::/", 4);
    cr_assert_not(is_found(groups, unified, &place));
}

/* Only groups with such names are swept. */
Test(cgroup, has_a_name_of_its_own)
{
    static const char *const others[] = {
        "",
        "pchrun",
        "pchrun.",
        "pchrun.service",
        "pchrun.slice",
        "pchrun.4711",
        "pchrun.4711.",
        "pchrun.4711.aB3dE",
        "pchrun.4711.aB3dE6g",
        "pchrun.4711.aB3d-6",
        "pchrun.4711-aB3dE6",
        "pchrun..aB3dE6",
        "pchrun.x1.aB3dE6",
        "pchrun.4711.service",
        "pchrun.4711.aB3dE6.scope",
        "Xpchrun.4711.aB3dE6",
        "pchrun-4711.aB3dE6",
    };
    cr_expect(cgroup_is_name("pchrun.1.aB3dE6") && cgroup_is_name("pchrun.4194304.zzzzzz"));
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        cr_expect_not(cgroup_is_name(others[i]), "%s", others[i]);
}

Test(cgroup, that_was_not_made_is_nothing_to_end)
{
    struct cgroup none = {.dir = 0};
    cr_assert_not(cgroup_kill(&none));
    struct cgroup_left left = {.groups = 1};
    cgroup_sweep(&none, &left);
    cr_assert_eq(left.groups, 0);
    cgroup_end(&none);
}

/* As when several start on a node at once. */
Test(cgroup, is_made_while_others_sweep)
{
    struct cgroup first, one;
    struct err err;
    if (!cgroup_begin(&first, &err))
        cr_skip_test("%s", err.text);
    pid_t sweeper = fork();
    if (sweeper == 0) {
        struct cgroup_left left;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            cgroup_sweep(&first, &left);
    }
    for (int i = 0; i < 2000; i++) {
        cr_expect(cgroup_begin(&one, &err), "%d: %s", i, err.text);
        cgroup_end(&one);
    }
    kill(sweeper, SIGKILL);
    waitpid(sweeper, NULL, 0);
    cgroup_end(&first);
}
