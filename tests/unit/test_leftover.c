/* SPDX-License-Identifier: Apache-2.0
 *
 * test_leftover: which processes are killed as those of a dead supervisor. A wrong answer would end
 * another job.
 */
#include "os/leftover.h"

#include "os/cgroup.h"
#include "unit.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Tests run at the same time, so each has a state directory of its own. */
static const char *own_dir(void)
{
    static char dir[64];
    snprintf(dir, sizeof dir, "/state/of/%d", (int)getpid());
    return dir;
}

/* Moves a process into a control group. False: we may not. */
static bool move(pid_t pid, const char *group)
{
    char path[PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/cgroup.procs", group);
    FILE *procs = fopen(path, "we");
    if (!procs)
        return false;
    fprintf(procs, "%d", (int)pid);
    return fclose(procs) == 0;
}

/* A process with this mark and these variables in its environment; NULL: no mark, our group. It
 * waits for a line that never comes: while it became another program, it would have no environment.
 */
static pid_t start_marked(const char *mark, const char *more, const char *group)
{
    char entry[128], byte;
    int ends[2], never[2];
    cr_assert(pipe(ends) == 0 && pipe(never) == 0);
    snprintf(entry, sizeof entry, "%s=%s", LEFTOVER_VARIABLE, mark ? mark : "");
    char *env[] = {(char *)more, mark ? entry : NULL, NULL};
    char *argv[] = {"sh", "-c", "echo; read line", NULL};
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* if an assertion ends the test */
        if (group && !move(getpid(), group))
            _exit(98);
        dup2(ends[1], STDOUT_FILENO);
        dup2(never[0], STDIN_FILENO); /* never[1] stays open in it */
        close(ends[0]);
        close(ends[1]);
        execve("/bin/sh", argv, env);
        _exit(99);
    }
    cr_assert_eq(read(ends[0], &byte, 1), 1);
    close(ends[0]);
    close(ends[1]);
    close(never[0]);
    close(never[1]);
    return pid;
}

/* True if leftover_kill() has killed such a process. Ends it. */
static bool is_killed_there(const char *mark, const char *more, const char *group,
                            struct leftover_list *ret)
{
    static struct leftover_marks marks;
    int ends[2], status;
    leftover_begin(own_dir(), &marks);
    cr_assert(marks.ours[0] && pipe(ends) == 0);
    pid_t pid = start_marked(mark, more, group);
    pid_t helper = fork();
    if (helper == 0) {
        leftover_kill(&marks, ends[1]);
        _exit(0);
    }
    cr_assert_eq(read(ends[0], ret, sizeof *ret), (ssize_t)sizeof *ret);
    waitpid(helper, NULL, 0);
    close(ends[0]);
    close(ends[1]);
    bool was_killed = ret->n == 1 && ret->list[0].pid == pid;
    cr_assert(was_killed || ret->n == 0);
    kill(pid, SIGTERM);
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert(WIFSIGNALED(status));
    cr_assert_eq(WTERMSIG(status), was_killed ? SIGKILL : SIGTERM);
    return was_killed;
}

static bool is_killed(const char *mark, struct leftover_list *ret)
{
    return is_killed_there(mark, "A=1", NULL, ret);
}

/* A mark of this place and origin with another supervisor. */
static void change_supervisor(char mark[LEFTOVER_MARK_SIZE], pid_t pid, uint64_t started)
{
    char ours[LEFTOVER_MARK_SIZE];
    leftover_mark(own_dir(), ours);
    cr_assert(ours[0]);
    snprintf(mark, LEFTOVER_MARK_SIZE, "%d.%" PRIu64 "%s", (int)pid, started,
             strchr(strchr(ours, '.') + 1, '.'));
}

static pid_t dead_pid(void)
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    waitpid(pid, NULL, 0);
    return pid;
}

Test(leftover, of_a_dead_supervisor_is_killed)
{
    struct leftover_list left;
    char mark[LEFTOVER_MARK_SIZE], text[128];
    change_supervisor(mark, dead_pid(), 4711);
    cr_assert(is_killed(mark, &left));
    cr_assert(strstr(leftover_describe(&left, text, sizeof text), " (s"), "%s", text);
    leftover_settle(&left);
    cr_assert_eq(left.n, 0);
    cr_assert_str_eq(leftover_describe(&left, text, sizeof text), "");
}

/* Another process has the pid of the supervisor now. */
Test(leftover, is_known_when_the_pid_is_used_again)
{
    struct leftover_list left;
    struct proc us;
    char mark[LEFTOVER_MARK_SIZE];
    cr_assert(proc_read(getpid(), &us));
    change_supervisor(mark, getpid(), us.started - 1);
    cr_expect(is_killed(mark, &left));
    change_supervisor(mark, getpid(), us.started);
    cr_expect_not(is_killed(mark, &left), "its supervisor lives");
}

/* A supervisor that has been killed, but whose parent has not reaped it. */
Test(leftover, of_a_zombie_is_killed)
{
    struct leftover_list left;
    struct proc zombie;
    siginfo_t info;
    char mark[LEFTOVER_MARK_SIZE];
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT);
    cr_assert(proc_read(pid, &zombie));
    change_supervisor(mark, pid, zombie.started);
    cr_expect(is_killed(mark, &left));
    waitpid(pid, NULL, 0);
}

Test(leftover, of_another_job_or_without_a_mark_is_left_alone)
{
    struct leftover_list left;
    char mark[LEFTOVER_MARK_SIZE], other[LEFTOVER_MARK_SIZE], broken[LEFTOVER_MARK_SIZE];
    change_supervisor(mark, dead_pid(), 4711);
    cr_expect_not(is_killed(NULL, &left));
    leftover_mark("/another/state/directory", other);
    snprintf(strrchr(mark, '.'), 20, "%s", strrchr(other, '.'));
    cr_expect_not(is_killed(mark, &left));
    static const char *const beginnings[] = {"",       "1.4711", "0.4711",    "-1.4711",
                                             "x.4711", "4711",   "4194304.0", "4194304.1x"};
    leftover_mark(own_dir(), other);
    const char *rest = strchr(strchr(other, '.') + 1, '.');
    for (size_t i = 0; i < sizeof beginnings / sizeof beginnings[0]; i++) {
        snprintf(broken, sizeof broken, "%s%s", beginnings[i], rest);
        cr_expect_not(is_killed(broken, &left), "%s", broken);
    }
    snprintf(broken, sizeof broken, "4194304.1%s.1", rest);
    cr_expect_not(is_killed(broken, &left), "%s", broken);
}

/* A command has submitted a job, as an evaluation. The batch system gave it the environment. */
Test(leftover, of_another_batch_job_is_left_alone)
{
    struct leftover_list left;
    char mark[LEFTOVER_MARK_SIZE];
    change_supervisor(mark, dead_pid(), 4711);
    cr_expect_not(is_killed_there(mark, "SLURM_JOB_ID=78", NULL, &left));
    cr_expect(is_killed_there(mark, "SLURM_JOB_NAME=78", NULL, &left));
}

/* The same, where each job has a control group. But the commands may run in a group below that of
 * their supervisor. */
Test(leftover, of_another_control_group_is_left_alone)
{
    struct leftover_list left;
    struct cgroup_place us = {0};
    char mark[LEFTOVER_MARK_SIZE], below[PATH_MAX + 64];
    if (!cgroup_find("", 0, &us)) {
        us.is_v2 = true;
        if (!cgroup_find("", 0, &us))
            cr_skip_test("no control group is mounted");
    }
    snprintf(below, sizeof below, "%s/test-leftover-%d", us.dir, (int)getpid());
    if (mkdir(below, 0755) != 0)
        cr_skip_test("cannot make a control group below %s", us.dir);
    bool is_moved = move(getpid(), below);
    change_supervisor(mark, dead_pid(), 4711);
    bool is_above_killed = is_moved && is_killed_there(mark, "A=1", us.dir, &left);
    bool is_back = is_moved && move(getpid(), us.dir);
    change_supervisor(mark, dead_pid(), 4711);
    bool is_below_killed = is_back && is_killed_there(mark, "A=1", below, &left);
    rmdir(below);
    if (!is_back)
        cr_skip_test("cannot move a process to %s", below);
    cr_expect_not(is_above_killed);
    cr_expect(is_below_killed);
}

/* A user in a shell that a dead pchrun has left starts the job again. */
Test(leftover, around_us_is_left_alone)
{
    struct leftover_list left;
    char mark[LEFTOVER_MARK_SIZE];
    change_supervisor(mark, dead_pid(), 4711);
    setenv(LEFTOVER_VARIABLE, mark, 1);
    cr_expect_not(is_killed(mark, &left));
    change_supervisor(mark, dead_pid(), 4711);
    cr_expect(is_killed(mark, &left));
    unsetenv(LEFTOVER_VARIABLE);
}
