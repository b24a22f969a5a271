/* SPDX-License-Identifier: Apache-2.0
 *
 * test_proc: what /proc shows of a process, and which processes kill refuses.
 */
#include "os/proc.h"

#include "unit.h"

#include <sys/prctl.h>
#include <sys/ptrace.h>

Test(proc, reads_what_ps_shows)
{
    struct proc proc;
    prctl(PR_SET_NAME, ") Z 1 (");
    cr_assert(proc_read(getpid(), &proc));
    cr_assert_str_eq(proc.comm, ") Z 1 (");
    cr_assert_eq(proc.ppid, getppid());
    cr_assert_eq(proc.pgid, getpgrp());
    cr_assert_eq(proc.sid, getsid(0));
    cr_assert_eq(proc.state, 'R');
    cr_assert_gt(proc.started, 0);
    cr_assert(!proc_read(0x7ffffff0, &proc));
}

Test(proc, refuses_everybody)
{
    const pid_t refused[] = {1, 0, -1, -2};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct proc proc = {.pid = refused[i]};
        cr_assert(!proc_kill(refused[i], 0));
        cr_assert(!proc_kill_group(refused[i], 0));
        cr_assert(!proc_signal(&proc, 0));
    }
    cr_assert(!proc_kill_group(getpgrp(), 0));
    cr_assert(proc_kill(getpid(), 0));
}

Test(proc, does_not_signal_who_came_after)
{
    struct proc proc;
    pid_t pid = fork();
    if (pid == 0) {
        pause();
        _exit(1);
    }
    cr_assert(proc_read(pid, &proc));
    cr_assert(proc_is_descendant(pid));
    struct proc earlier = proc;
    earlier.started--;
    cr_assert(!proc_signal(&earlier, SIGKILL));
    cr_assert(proc_signal(&proc, SIGKILL));
    siginfo_t info;
    cr_assert_eq(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    cr_assert(proc_read(pid, &proc));
    cr_assert(proc_is_dead(&proc));
    cr_assert_eq(WTERMSIG(unit_wait(pid)), SIGKILL);
    cr_assert(!proc_signal(&proc, 0));
    cr_assert(!proc_is_descendant(getppid()));
    cr_assert(!proc_is_descendant(getpid()));
}

/* A debugger has let it run again after a stop, of which the kernel still shows the signal. */
Test(proc, who_runs_has_not_died)
{
    struct proc proc;
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        for (;;)
            pause();
    }
    if (ptrace(PTRACE_ATTACH, pid, NULL, NULL) != 0) {
        proc_kill(pid, SIGKILL);
        unit_wait(pid);
        cr_skip_test("no process may be traced here");
    }
    cr_assert_eq(waitpid(pid, &status, __WALL), pid);
    cr_assert_eq(ptrace(PTRACE_CONT, pid, NULL, SIGSTOP), 0);
    cr_assert_eq(waitpid(pid, &status, __WALL), pid);
    cr_expect_eq(proc_died_with(pid), 0);
    cr_assert_eq(ptrace(PTRACE_CONT, pid, NULL, 0), 0);
    do
        cr_assert(proc_read(pid, &proc));
    while (proc.state == 't' || proc.state == 'T');
    cr_expect_eq(proc_died_with(pid), 0);
    cr_assert(proc_kill(pid, SIGKILL));
    cr_assert_eq(WTERMSIG(unit_wait(pid)), SIGKILL);
}

Test(proc, finds_a_name_in_an_environment)
{
    char longer[9000]; /* so that the text does not come in one read */
    memset(longer, 'R', sizeof longer - 1);
    longer[0] = 'A';
    longer[1] = '=';
    longer[sizeof longer - 1] = '\0';
    char *env[] = {"LOCAL_RANK=3", "RANKS=1", "X=RANK=1", longer, "RANK=2", "SIZE", NULL};
    char *argv[] = {"sleep", "100", NULL};
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        /* The pipe reaches its end when exec closes it. */
        dup3(ends[1], 200, O_CLOEXEC);
        close(ends[1]);
        execve("/bin/sleep", argv, env);
        _exit(127);
    }
    close(ends[1]);
    cr_assert(unit_readable(ends[0]));
    cr_assert(proc_has_env(pid, "RANK"));
    cr_assert(proc_has_env(pid, "LOCAL_RANK=3"));
    cr_assert(!proc_has_env(pid, "LOCAL_RANK=33") && !proc_has_env(pid, "LOCAL_RANK="));
    cr_assert(proc_has_env(pid, "LOCAL_RANK"));
    cr_assert(proc_has_env(pid, "A"));
    cr_assert(!proc_has_env(pid, "RAN"));
    cr_assert(!proc_has_env(pid, "SIZE"));
    cr_assert(!proc_has_env(pid, "ANK"));
    cr_assert(proc_kill(pid, SIGKILL));
    cr_assert_eq(WTERMSIG(unit_wait(pid)), SIGKILL);
    cr_assert(!proc_has_env(pid, "RANK"));
    close(ends[0]);
}
