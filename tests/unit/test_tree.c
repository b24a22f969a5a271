/* SPDX-License-Identifier: Apache-2.0
 *
 * test_tree: no process hides from the tree, and its signals reach the right processes.
 */
#include "os/tree.h"

#include "unit.h"

#include <stdio.h>
#include <stdlib.h>

/* Starts `sh -c script` and waits for `lines` lines of its output. */
static pid_t start_shell(const char *script, int lines, char *text, size_t size)
{
    int ends[2];
    cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        execl("/bin/sh", "sh", "-c", script, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    size_t len = 0;
    while (lines > 0 && unit_readable(ends[0])) {
        ssize_t n = read(ends[0], text + len, size - 1 - len);
        cr_assert_gt(n, 0);
        for (ssize_t i = 0; i < n; i++)
            lines -= text[len + (size_t)i] == '\n';
        len += (size_t)n;
    }
    text[len] = '\0';
    close(ends[0]);
    return pid;
}

Test(tree, holds_who_ran_away)
{
    struct err err;
    struct tree tree = {0};
    struct tree_job job = {0};
    char line[64];
    int runaway;
    cr_assert(tree_adopt(&err));
    /* The middle shell ends; its child has a session of its own and becomes our child. */
    pid_t pid = start_shell("(setsid sh -c 'echo $$; exec sleep 100' &) ; exec sleep 100", 1, line,
                            sizeof line);
    cr_assert_eq(sscanf(line, "%d", &runaway), 1);
    tree_scan(&tree, &job);
    bool has_child = false, has_runaway = false;
    for (size_t i = 0; i < tree.n; i++) {
        has_child |= tree.entries[i].proc.pid == pid;
        has_runaway |= tree.entries[i].proc.pid == runaway;
    }
    cr_assert(has_child && has_runaway);
    cr_assert_geq(tree_signal(&job, SIGKILL), 2);
    unit_reap_all();
    tree_scan(&tree, &job);
    cr_assert_eq(tree.n, 0);
    tree_free(&tree);
}

Test(tree, leaves_helpers_alone)
{
    char line[64];
    pid_t helper = start_shell("echo; exec sleep 100", 1, line, sizeof line);
    struct tree_job job = {.helpers = &helper, .nhelpers = 1};
    cr_assert_eq(tree_signal(&job, SIGKILL), 0);
    struct proc proc;
    cr_assert(proc_read(helper, &proc));
    cr_assert(!proc_is_dead(&proc));
    char text[256];
    cr_assert_str_eq(tree_describe(&job, text, sizeof text), "");
    tree_describe(&(struct tree_job){0}, text, sizeof text);
    cr_assert(strstr(text, "(sleep)") || strstr(text, "(sh)"), "%s", text);
    cr_assert(proc_kill(helper, SIGKILL));
    unit_reap_all();
}

Test(tree, wakes_who_is_stopped)
{
    char line[64];
    pid_t pid = start_shell("echo; exec sleep 100", 1, line, sizeof line);
    int status;
    cr_assert(proc_kill(pid, SIGSTOP));
    cr_assert_eq(waitpid(pid, &status, WUNTRACED), pid);
    cr_assert(WIFSTOPPED(status));
    cr_assert_eq(tree_signal(&(struct tree_job){0}, SIGTERM), 1);
    status = unit_wait(pid);
    cr_assert(WIFSIGNALED(status));
    cr_assert_eq(WTERMSIG(status), SIGTERM);
}

Test(tree, finds_the_ranks_and_not_their_workers)
{
    struct proc ranks[8];
    char line[64];
    int first, second;
    struct err err;
    unsetenv("RANK");
    cr_assert(tree_adopt(&err));
    start_shell("RANK=0 sh -c 'sleep 100 & sleep 100 & echo $$; wait' &\n"
                "RANK=1 sh -c 'sleep 100 & echo $$; wait' &\n"
                "wait",
                2, line, sizeof line);
    struct tree_job job = {0};
    cr_assert_eq(sscanf(line, "%d %d", &first, &second), 2);
    cr_assert_eq(tree_ranks(&job, ranks, 8), 2);
    cr_assert(ranks[0].pid == first || ranks[0].pid == second);
    cr_assert(ranks[1].pid == first || ranks[1].pid == second);
    cr_assert_eq(tree_ranks(&job, ranks, 1), 2);
    tree_signal(&job, SIGKILL);
    unit_reap_all();
}

Test(tree, outruns_a_fork_chain)
{
    struct err err;
    char line[64];
    cr_assert(tree_adopt(&err));
    /* Each process starts its successor and ends. None lives long enough to be listed twice. */
    start_shell("S='sleep 0.01; setsid sh -c \"$S\" &'; export S;"
                " echo; exec sh -c \"$S\"",
                1, line, sizeof line);
    struct tree_job job = {0};
    int tries = 0;
    while (!unit_no_children() && tries++ < 2000) {
        tree_signal(&job, SIGKILL);
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
    }
    cr_assert(unit_no_children());
}
