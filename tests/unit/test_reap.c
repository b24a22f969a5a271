/* SPDX-License-Identifier: Apache-2.0
 *
 * test_reap: every end is reported once, and in time.
 */
#include "os/reap.h"

#include "os/proc.h"
#include "os/tree.h"
#include "unit.h"

static struct reap reap;

struct seen {
    struct reap_watch watch;
    int count, status;
    enum reap_what what;
    bool was_zombie, was_last;
    const struct reap *reap;
};

static void on_end(void *ctx, enum reap_what what, int status)
{
    struct seen *seen = ctx;
    struct proc proc;
    seen->count++;
    seen->what = what;
    seen->status = status;
    seen->was_last = seen->reap && seen->watch.pid && reap_is_last(seen->reap, seen->watch.pid);
    seen->was_zombie = seen->watch.pid && proc_read(seen->watch.pid, &proc) && proc.state == 'Z';
}

static pid_t start(struct seen *seen, enum reap_kind kind, int code)
{
    pid_t pid = fork();
    if (pid == 0) {
        if (code < 0)
            pause();
        _exit(code);
    }
    *seen = (struct seen){.watch = {.pid = pid, .kind = kind, .fn = on_end, .ctx = seen},
                          .reap = &reap};
    reap_watch(&reap, &seen->watch);
    return pid;
}

/* Blocks until a child has changed as `options` say, and leaves the change to reap_all(). */
static void await(pid_t pid, int options)
{
    siginfo_t info;
    cr_assert_eq(waitid(P_PID, (id_t)pid, &info, options | WNOWAIT), 0);
}

/* As await(), and then handles the change. */
static void take(pid_t pid, int options)
{
    await(pid, options);
    reap_all(&reap);
}

static void end_by_kill(pid_t pid)
{
    kill(pid, SIGKILL);
    take(pid, WEXITED);
}

Test(reap, tells_an_end_before_the_pid_is_free)
{
    struct seen seen;
    pid_t pid = start(&seen, REAP_CHILD, 9);
    take(pid, WEXITED);
    cr_assert_eq(seen.count, 1);
    cr_assert_eq(seen.what, REAP_EXITED);
    cr_assert(WIFEXITED(seen.status));
    cr_assert_eq(WEXITSTATUS(seen.status), 9);
    cr_assert(seen.was_zombie);
    cr_assert_eq(seen.watch.pid, 0);
    cr_assert(unit_no_children());
    cr_assert(reap_is_empty(&reap));
}

Test(reap, takes_in_all_that_ended)
{
    enum { MANY = 20 };
    struct seen seen[MANY];
    for (int i = 0; i < MANY; i++)
        await(start(&seen[i], REAP_CHILD, i), WEXITED);
    reap_all(&reap);
    int last = 0;
    for (int i = 0; i < MANY; i++) {
        cr_assert(seen[i].count == 1 && WEXITSTATUS(seen[i].status) == i);
        last += seen[i].was_last;
    }
    cr_assert_eq(last, 1);
    cr_assert(unit_no_children());
}

Test(reap, tells_stops_and_signals)
{
    struct seen seen;
    pid_t pid = start(&seen, REAP_CHILD, -1);
    kill(pid, SIGSTOP);
    take(pid, WSTOPPED);
    cr_assert_eq(seen.what, REAP_STOPPED);
    cr_assert(WIFSTOPPED(seen.status));
    cr_assert_eq(WSTOPSIG(seen.status), SIGSTOP);
    kill(pid, SIGCONT);
    take(pid, WCONTINUED);
    cr_assert_eq(seen.count, 1);
    end_by_kill(pid);
    cr_assert_eq(seen.what, REAP_EXITED);
    cr_assert(WIFSIGNALED(seen.status));
    cr_assert_eq(WTERMSIG(seen.status), SIGKILL);
    cr_assert_eq(seen.count, 2);
    cr_assert(unit_no_children());
}

Test(reap, does_not_count_helpers)
{
    struct seen helper, child;
    pid_t pids[4];
    pid_t helping = start(&helper, REAP_HELPER, -1);
    pid_t pid = start(&child, REAP_CHILD, -1);
    cr_assert_eq(reap_helpers(&reap, pids, 4), 1);
    cr_assert_eq(pids[0], helping);
    cr_assert(!reap_is_empty(&reap));
    end_by_kill(pid);
    cr_assert_eq(child.count, 1);
    cr_assert_eq(helper.count, 0);
    cr_assert(child.was_last);
    cr_assert(reap_is_empty(&reap));
    end_by_kill(helping);
    cr_assert_eq(helper.count, 1);
    cr_assert_eq(helper.watch.pid, 0);
    cr_assert(unit_no_children());
}

Test(reap, takes_in_orphans)
{
    struct err err;
    struct seen seen;
    int ends[2];
    cr_assert(tree_adopt(&err));
    cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[1]);
        char byte;
        /* The orphan ends when we close the pipe. */
        if (fork() == 0)
            _exit(read(ends[0], &byte, 1) == 0 ? 5 : 6);
        _exit(0);
    }
    seen = (struct seen){.watch = {.pid = pid, .kind = REAP_CHILD, .fn = on_end, .ctx = &seen}};
    reap_watch(&reap, &seen.watch);
    take(pid, WEXITED);
    cr_assert_eq(seen.count, 1);
    cr_assert(!seen.was_last);
    cr_assert(!reap_is_empty(&reap));
    close(ends[0]);
    close(ends[1]);
    siginfo_t info;
    cr_assert_eq(waitid(P_ALL, 0, &info, WEXITED | WNOWAIT), 0);
    cr_assert_eq(info.si_status, 5);
    reap_all(&reap);
    cr_assert(reap_is_empty(&reap));
}

Test(reap, an_end_that_somebody_else_has_seen_is_told_as_lost)
{
    struct seen seen;
    pid_t pid = start(&seen, REAP_CHILD, 0);
    cr_assert_eq(unit_wait(pid), 0);
    reap_all(&reap);
    cr_assert_eq(seen.count, 1);
    cr_assert_eq(seen.what, REAP_EXITED);
    cr_assert(!WIFEXITED(seen.status) && !WIFSIGNALED(seen.status));
}

Test(reap, children_from_before_are_not_of_the_job)
{
    struct seen seen;
    pid_t stranger = fork();
    if (stranger == 0) {
        pause();
        _exit(0);
    }
    reap_begin(&reap);
    cr_assert(reap_is_empty(&reap));
    await(start(&seen, REAP_CHILD, 3), WEXITED);
    cr_assert(!reap_is_empty(&reap));
    reap_all(&reap);
    cr_assert(seen.was_last);
    cr_assert(reap_is_empty(&reap));
    end_by_kill(stranger);
    cr_assert(unit_no_children());
    reap_end(&reap);
}

/* A source does not belong to the job, but is still a zombie when its end is reported. */
Test(reap, tells_the_end_of_a_source_before_its_group_is_free)
{
    struct seen source;
    pid_t helpers[4];
    pid_t pid = start(&source, REAP_SOURCE, -1);
    cr_assert_eq(reap_helpers(&reap, helpers, 4), 1);
    cr_assert_eq(helpers[0], pid);
    cr_assert(reap_is_empty(&reap));
    cr_assert(proc_kill(pid, SIGKILL));
    take(pid, WEXITED);
    cr_assert_eq(source.count, 1);
    cr_assert(source.was_zombie);
    cr_assert_eq(source.watch.pid, 0);
    cr_assert(unit_no_children());
}
