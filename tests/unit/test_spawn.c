/* SPDX-License-Identifier: Apache-2.0
 *
 * test_spawn: the state in which a command starts, and the error when it cannot be started.
 */
#include "os/spawn.h"

#include "base/fd.h"
#include "folder.h"
#include "os/signals.h"

extern char **environ;

static struct err err;
static int status;

/* A request to start this command as it is found on `path`. */
static struct spawn_request request_of(char **argv, const char *path)
{
    signals_begin();
    return (struct spawn_request){.argv = argv, .path = path, .env = environ, .tty = -1};
}

/* Starts the command, and waits for the outcome of the start and for its end, which `status` has.
 */
static enum spawn_result start(const struct spawn_request *request)
{
    int report;
    pid_t pid = spawn_start(request, &report, &err);
    cr_assert_neq(pid, 0, "%s", err.text);
    cr_assert(unit_readable(report));
    enum spawn_result result = spawn_result(report, request->argv[0], &err);
    close(report);
    status = unit_wait(pid);
    cr_assert(unit_no_children());
    return result;
}

static enum spawn_result run(char **argv, const char *path)
{
    struct spawn_request request = request_of(argv, path);
    return start(&request);
}

static void write_file(const char *path, const char *text, mode_t mode)
{
    folder_put(path, text);
    cr_assert_eq(chmod(path, mode), 0);
}

TestSuite(spawn, .init = folder_enter, .fini = folder_remove);

Test(spawn, runs_a_command_of_path)
{
    char *argv[] = {"sh", "-c", "exit 9", NULL};
    cr_assert_eq(run(argv, "/nowhere::/bin"), SPAWN_RUNNING);
    cr_assert_eq(WEXITSTATUS(status), 9);
    cr_assert_eq(run(argv, NULL), SPAWN_RUNNING);
    cr_assert_eq(WEXITSTATUS(status), 9);
}

Test(spawn, says_what_is_not_found)
{
    char *argv[] = {"no-such-command", NULL};
    cr_assert_eq(run(argv, "/bin:/usr/bin"), SPAWN_FAILED);
    cr_assert_eq(err.code, ERR_NOT_FOUND);
    cr_assert(strstr(err.text, "'no-such-command'") && strstr(err.text, "PATH"), "%s", err.text);
    char *path[] = {"./no-such-file", NULL};
    cr_assert_eq(run(path, "/bin"), SPAWN_FAILED);
    cr_assert_eq(err.code, ERR_NOT_FOUND);
    write_file("train.py", "", 0644);
    char *script[] = {"train.py", NULL};
    cr_assert_eq(run(script, "/bin"), SPAWN_FAILED);
    cr_assert(strstr(err.text, "current directory: write python before its name"), "%s", err.text);
    char *nothing[] = {"", NULL};
    cr_assert_eq(run(nothing, "/bin"), SPAWN_FAILED);
    cr_assert_eq(err.code, ERR_NOT_FOUND);
}

Test(spawn, says_what_cannot_be_executed)
{
    write_file("plain", "#!/bin/sh\n", 0644);
    char *argv[] = {"./plain", NULL};
    cr_assert_eq(run(argv, "/bin"), SPAWN_FAILED);
    cr_assert_eq(err.code, ERR_NOT_EXEC);
    cr_assert_eq(err.sys_errno, EACCES);
    cr_assert(strstr(err.text, "chmod"), "%s", err.text);
    /* The program is found in PATH but may not be run: the error says this, not "not found" … */
    char *name[] = {"plain", NULL};
    cr_assert_eq(run(name, ".:/bin"), SPAWN_FAILED);
    cr_assert_eq(err.code, ERR_NOT_EXEC);
    /* … unless a later directory has it. */
    cr_assert_eq(mkdir("later", 0755), 0);
    write_file("later/plain", "#!/bin/sh\nexit 3\n", 0755);
    cr_assert_eq(run(name, ".:later"), SPAWN_RUNNING);
    cr_assert_eq(WEXITSTATUS(status), 3);
    char *directory[] = {"/tmp", NULL};
    cr_assert_eq(run(directory, "/bin"), SPAWN_FAILED);
    cr_assert_eq(err.code, ERR_NOT_EXEC);
}

Test(spawn, runs_a_script_without_interpreter)
{
    write_file("script", "exit $(($1 + $2))\n", 0755);
    char *argv[] = {"./script", "20", "3", NULL};
    cr_assert_eq(run(argv, "/bin"), SPAWN_RUNNING);
    cr_assert_eq(WEXITSTATUS(status), 23);
}

/* A session of its own only on request. */
Test(spawn, leads_a_group_of_its_own)
{
    char *argv[] = {"sleep", "100", NULL};
    for (int new_session = 0; new_session < 2; new_session++) {
        int report;
        struct spawn_request request = request_of(argv, NULL);
        request.new_session = new_session;
        pid_t pid = spawn_start(&request, &report, &err);
        cr_assert_neq(pid, 0, "%s", err.text);
        if (new_session)
            cr_assert(unit_readable(report));
        cr_assert_eq(getpgid(pid), pid);
        cr_assert_eq(getsid(pid), new_session ? pid : getsid(0));
        cr_assert_eq(kill(-pid, SIGKILL), 0);
        cr_assert_eq(WTERMSIG(unit_wait(pid)), SIGKILL);
        close(report);
    }
}

Test(spawn, closes_what_was_closed_and_tells_the_pid)
{
    char *argv[] = {"/bin/sh", "-c",
                    "[ ! -e /proc/$$/fd/0 ] && [ -e /proc/$$/fd/1 ] && [ $OWN = $$ ]", NULL};
    char own[4 + SPAWN_PID_SIZE] = "OWN=";
    char *env[] = {own, NULL};
    struct spawn_request request = request_of(argv, NULL);
    request.env = env;
    request.own_pid = own + 4;
    request.closed = 1U << 0;
    cr_assert_eq(start(&request), SPAWN_RUNNING);
    cr_assert_eq(status, 0);
}

Test(spawn, lets_go_of_what_it_inherited)
{
    int ends[2], ours[2];
    cr_assert_eq(pipe(ends), 0);
    cr_assert_eq(pipe2(ours, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        char cwd[16];
        dup2(ends[1], STDOUT_FILENO);
        spawn_let_go();
        bool is_right = fcntl(ends[1], F_GETFD) < 0 && fcntl(ours[1], F_GETFD) >= 0 &&
                        fcntl(STDIN_FILENO, F_GETFD) >= 0 && getcwd(cwd, sizeof cwd) &&
                        strcmp(cwd, "/") == 0;
        if (write(ours[1], is_right ? "y" : "n", 1) == 1)
            pause();
        _exit(1);
    }
    /* The child lives, and does not hold the end of the pipe under any number. */
    char byte;
    close(ends[1]);
    cr_assert(unit_readable(ends[0]));
    cr_assert_eq(read(ends[0], &byte, 1), 0);
    cr_assert(unit_readable(ours[0]));
    cr_assert_eq(read(ours[0], &byte, 1), 1);
    cr_assert_eq(byte, 'y');
    kill(pid, SIGKILL);
    cr_assert_eq(WTERMSIG(unit_wait(pid)), SIGKILL);
}

/* Starts a program that serves us, and is kept apart from the job. Returns its output. */
static const char *said_apart(char **argv)
{
    static char text[256];
    int ends[2];
    cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
    struct spawn_request request = request_of(argv, NULL);
    request.is_apart = true;
    request.dir = "/usr";
    memcpy(request.streams, (int[]){SPAWN_NULL, ends[1], ends[1]}, sizeof request.streams);
    cr_assert_eq(start(&request), SPAWN_RUNNING);
    cr_assert_gt(read(ends[0], text, sizeof text - 1), 0);
    close(ends[0]);
    close(ends[1]);
    cr_assert(unit_no_children());
    return text;
}

/* Three descriptors, an empty mask, its own directory. */
Test(spawn, apart_from_the_job)
{
    char *argv[] = {"/bin/sh", "-c", "pwd; echo /proc/self/fd/*; grep SigBlk: /proc/self/status",
                    NULL};
    FD_CLEANUP int inherited = open("/dev/null", O_RDONLY); /* not close-on-exec */
    cr_assert_gt(inherited, 2);
    const char *text = said_apart(argv);
    /* 3 is the directory that the shell lists */
    cr_expect(strstr(text, "/usr\n/proc/self/fd/0 /proc/self/fd/1 /proc/self/fd/2 /proc/self/fd/3\n"
                           "SigBlk:\t0000000000000000\n") == text,
              "%s", text);
}

/* SIGCHLD is not ignored in the program, so it can wait for its own children. */
Test(spawn, apart_from_an_ignored_sigchld)
{
    char *argv[] = {"grep", "SigIgn:", "/proc/self/status", NULL};
    signal(SIGCHLD, SIG_IGN);
    const char *text = said_apart(argv);
    unsigned long long ignored = 0;
    cr_assert_eq(sscanf(text, "SigIgn: %llx", &ignored), 1, "%s", text);
    cr_expect_eq(ignored & 1ULL << (SIGCHLD - 1), 0, "%s", text);
}
