/* SPDX-License-Identifier: Apache-2.0
 *
 * test_reap_strays: the processes that a program of ours leaves behind are found by their mark. No
 * other process is found.
 */
#include "os/reap.h"

#include "os/tree.h"
#include "unit.h"

#include <stdio.h>

#define MARK "TEST_STRAY_MARK"

static struct reap reap;

static void begin(void)
{
    struct err err;

    cr_assert(tree_adopt(&err), "%s", err.text);
}

TestSuite(reap_strays, .init = begin);

/* Starts a shell that ends and leaves two processes in a session of their own, one below the other;
 * returns the pid of the upper one when both are there. */
static pid_t leave(char *mark)
{
    static char script[] = "setsid sh -c 'sleep 100 & echo $$; wait' &";
    char *env[] = {mark, "PATH=/usr/bin:/bin", NULL}, line[32] = "";
    char *argv[] = {"sh", "-c", script, NULL};
    int ends[2], upper;
    cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        execve("/bin/sh", argv, env);
        _exit(127);
    }
    close(ends[1]);
    cr_assert(unit_readable(ends[0]));
    cr_assert_gt(read(ends[0], line, sizeof line - 1), 0);
    close(ends[0]);
    cr_assert_eq(sscanf(line, "%d", &upper), 1);
    cr_assert_neq(unit_wait(pid), -1);
    return upper;
}

Test(reap_strays, is_killed_and_taken_in)
{
    pid_t marked = leave(MARK "=1"), other = leave(MARK "S=1");
    reap_strays(&reap, MARK);
    cr_expect_geq(reap.kept, 1);
    UNIT_SETTLE(reap);
    struct proc proc;
    cr_expect(!proc_read(marked, &proc));
    cr_assert(proc_read(other, &proc) && !proc_is_dead(&proc), "it was none of ours");
    cr_assert(proc_kill_group(other, SIGKILL));
    unit_reap_all();
    cr_assert(unit_no_children());
}

Test(reap_strays, who_is_known_is_none)
{
    struct reap_watch watch = {.pid = leave(MARK "=1"), .kind = REAP_CHILD};
    reap_watch(&reap, &watch);
    reap_strays(&reap, MARK);
    cr_expect_eq(reap.kept, 0);
    struct proc proc;
    cr_assert(proc_read(watch.pid, &proc) && !proc_is_dead(&proc));
    cr_assert(proc_kill_group(watch.pid, SIGKILL));
    unit_reap_all();
    cr_assert(unit_no_children());
}
