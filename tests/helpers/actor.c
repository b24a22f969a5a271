/* SPDX-License-Identifier: Apache-2.0
 *
 * actor: a training command that behaves as a test wants it to, told by its arguments.
 *
 *     actor VERB [ARGUMENT] VERB [ARGUMENT] …
 *
 * The verbs are done in order; see the table at the end. The actor appends its events to the file
 * named by ACTOR_LOG, as lines of JSON: {"pid": …, "what": …}. Each line is one write. So lines of
 * several processes do not mix, and the kill of a process loses no line. At the end of its
 * arguments an actor exits with 0. A mistake in the arguments ends it with 99.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static int log_fd = -1;
static sigset_t recorded;

static void fail(const char *what)
{
    dprintf(STDERR_FILENO, "actor: %s: %s\n", what, strerror(errno));
    _exit(99);
}

static void tell(const char *what, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void tell(const char *what, const char *fmt, ...)
{
    char more[512] = "", line[640];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(more, sizeof more, fmt, ap);
    va_end(ap);
    int n = snprintf(line, sizeof line, "{\"pid\":%d,\"ppid\":%d,\"what\":\"%s\"%s}\n", getpid(),
                     getppid(), what, more);
    if (log_fd >= 0 && write(log_fd, line, (size_t)n) != n)
        fail("ACTOR_LOG");
}

/* "TERM", "RTMIN+1", "15" or "all": those that a supervisor may hand on. SIGCONT follows others. */
static void signals_of(const char *name, sigset_t *ret)
{
    static const int not_all[] = {SIGKILL, SIGSTOP, SIGCONT, SIGTSTP, SIGTTIN, SIGTTOU, SIGSEGV,
                                  SIGBUS,  SIGFPE,  SIGILL,  SIGTRAP, SIGSYS,  SIGABRT};
    sigemptyset(ret);
    if (strcmp(name, "all") == 0) {
        sigfillset(ret);
        for (size_t i = 0; i < sizeof not_all / sizeof not_all[0]; i++)
            sigdelset(ret, not_all[i]);
        return;
    }
    int number = atoi(name);
    if (strncmp(name, "RTMIN+", 6) == 0)
        number = SIGRTMIN + atoi(name + 6);
    for (int i = 1; number == 0 && i < 32; i++)
        if (sigabbrev_np(i) && strcmp(sigabbrev_np(i), name) == 0)
            number = i;
    if (number == 0 || sigaddset(ret, number) < 0)
        fail(name);
}

static int signal_of(const char *name)
{
    sigset_t set;
    signals_of(name, &set);
    for (int i = 1; i < SIGRTMAX; i++)
        if (sigismember(&set, i))
            return i;
    fail(name);
    return 0;
}

static void set_disposition(const char *name, void (*handler)(int))
{
    if (signal(signal_of(name), handler) == SIG_ERR)
        fail(name);
}

static void tell_signal(const siginfo_t *info)
{
    tell("signal", ",\"name\":\"%s\",\"number\":%d,\"code\":%d,\"from\":%d",
         sigabbrev_np(info->si_signo) ? sigabbrev_np(info->si_signo) : "RT", info->si_signo,
         info->si_code, info->si_pid);
}

static int next_signal(void)
{
    siginfo_t info;
    int number;
    while ((number = sigwaitinfo(&recorded, &info)) < 0)
        if (errno != EINTR)
            fail("sigwaitinfo");
    tell_signal(&info);
    return number;
}

static char **run(char **verbs);

/* The verbs up to the "}" that belongs to this "{"; returns the words behind it. */
static char **block_end(char **verbs)
{
    if (!*verbs || strcmp(*verbs, "{") != 0)
        fail("{ missing");
    int depth = 0;
    for (char **at = verbs; *at; at++) {
        depth += strcmp(*at, "{") == 0;
        depth -= strcmp(*at, "}") == 0;
        if (depth == 0)
            return at + 1;
    }
    fail("} missing");
    return NULL;
}

static void run_block(char **verbs)
{
    run(verbs + 1);
    _exit(0);
}

static char **do_fork(char **args)
{
    char **rest = block_end(args);
    pid_t pid = fork();
    if (pid < 0)
        fail("fork");
    if (pid == 0)
        run_block(args);
    tell("forked", ",\"child\":%d", pid);
    return rest;
}

/* As daemons do it: fork, setsid, fork; the middle process leaves, and the last is an orphan. */
static char **do_daemon(char **args)
{
    char **rest = block_end(args);
    pid_t middle = fork();
    if (middle < 0)
        fail("fork");
    if (middle == 0) {
        setsid();
        pid_t pid = fork();
        if (pid == 0) {
            while (getppid() == middle)
                ;
            run_block(args);
        }
        _exit(pid < 0 ? 99 : 0);
    }
    if (waitpid(middle, NULL, 0) != middle)
        fail("waitpid");
    return rest;
}

static char **do_exit(char **args)
{
    _exit(atoi(args[0]));
}

static char **do_die(char **args)
{
    int number = signal_of(args[0]);
    sigset_t set;
    signals_of(args[0], &set);
    signal(number, SIG_DFL);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    kill(getpid(), number);
    fail("still alive");
    return NULL;
}

static char **do_ignore(char **args)
{
    set_disposition(args[0], SIG_IGN);
    return args + 1;
}

static char **do_default(char **args)
{
    set_disposition(args[0], SIG_DFL);
    return args + 1;
}

static char **do_record(char **args)
{
    sigset_t more;
    signals_of(args[0], &more);
    sigorset(&recorded, &recorded, &more);
    sigprocmask(SIG_BLOCK, &more, NULL);
    return args + 1;
}

static char **do_until(char **args)
{
    int last = signal_of(args[0]);
    while (next_signal() != last)
        ;
    return args + 1;
}

static char **do_wait(char **args)
{
    for (;;)
        next_signal();
    return args;
}

static char **do_pause(char **args)
{
    for (;;)
        pause();
    return args;
}

static char **do_say(char **args)
{
    tell(args[0], "%s", "");
    return args + 1;
}

static char **do_stop(char **args)
{
    raise(SIGSTOP);
    tell("continued", "%s", "");
    return args;
}

static char **do_setsid(char **args)
{
    if (setsid() < 0)
        fail("setsid");
    return args;
}

static char **do_setpgid(char **args)
{
    if (setpgid(0, 0) < 0)
        fail("setpgid");
    return args;
}

/* kill SIGNAL parent|self|group */
static char **do_kill(char **args)
{
    pid_t pid = strcmp(args[1], "parent") == 0 ? getppid() : getpid();
    if (strcmp(args[1], "group") == 0)
        pid = 0;
    if (kill(pid, signal_of(args[0])) < 0)
        fail("kill");
    return args + 2;
}

static char **do_close(char **args)
{
    close(atoi(args[0]));
    return args + 1;
}

/* A line from standard input. */
static char **do_read(char **args)
{
    char line[256];
    size_t n = 0;
    while (n < sizeof line - 1) {
        ssize_t got = read(STDIN_FILENO, line + n, 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0 || line[n] == '\n')
            break;
        n++;
    }
    line[n] = '\0';
    tell("line", ",\"text\":\"%s\"", line);
    return args;
}

static char **do_write(char **args)
{
    if (write(atoi(args[0]), args[1], strlen(args[1])) < 0)
        fail("write");
    return args + 2;
}

/* Waits until a file is there: the test's own go-ahead. */
static char **do_hold(char **args)
{
    while (access(args[0], F_OK) < 0)
        poll(NULL, 0, 2);
    return args + 1;
}

static char **do_spin(char **args)
{
    long ms = atol(args[0]);
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    long long end = now.tv_sec * 1000LL + now.tv_nsec / 1000000 + ms;
    do {
        poll(NULL, 0, 1);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec * 1000LL + now.tv_nsec / 1000000 < end);
    return args + 1;
}

static char **do_reap(char **args)
{
    while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
        ;
    return args;
}

/* env NAME=VALUE … -- COMMAND …: puts these variables, even duplicates, before the others. */
static char **do_env(char **args)
{
    size_t added = 0, old = 0;
    while (args[added] && strcmp(args[added], "--") != 0)
        added++;
    while (environ[old])
        old++;
    char **env = calloc(added + old + 1, sizeof *env);
    if (!env || !args[added])
        fail("env");
    memcpy(env, args, added * sizeof *env);
    memcpy(env + added, environ, old * sizeof *env);
    execve(args[added + 1], args + added + 1, env);
    fail(args[added + 1]);
    return NULL;
}

static char **do_exec(char **args)
{
    execv(args[0], args);
    fail(args[0]);
    return NULL;
}

static const struct verb {
    const char *name;
    int arguments;
    char **(*act)(char **args); /* returns what comes behind its arguments */
} verbs[] = {
    {"say", 1, do_say},       {"exit", 1, do_exit},       {"die", 1, do_die},
    {"ignore", 1, do_ignore}, {"default", 1, do_default}, {"record", 1, do_record},
    {"until", 1, do_until},   {"wait", 0, do_wait},       {"pause", 0, do_pause},
    {"stop", 0, do_stop},     {"setsid", 0, do_setsid},   {"setpgid", 0, do_setpgid},
    {"kill", 2, do_kill},     {"close", 1, do_close},     {"read", 0, do_read},
    {"write", 2, do_write},   {"hold", 1, do_hold},       {"spin", 1, do_spin},
    {"reap", 0, do_reap},     {"fork", 1, do_fork},       {"daemon", 1, do_daemon},
    {"env", 1, do_env},       {"exec", 1, do_exec},
};

static char **run_one(char **at)
{
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        if (strcmp(*at, verbs[i].name) != 0)
            continue;
        for (int n = 1; n <= verbs[i].arguments; n++)
            if (!at[n])
                fail(*at);
        return verbs[i].act(at + 1);
    }
    errno = EINVAL;
    fail(*at);
    return NULL;
}

static char **run(char **at)
{
    while (*at && strcmp(*at, "}") != 0)
        at = run_one(at);
    return at;
}

int main(int argc, char **argv)
{
    const char *path = getenv("ACTOR_LOG");
    sigemptyset(&recorded);
    if (path) {
        int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
        log_fd = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 20);
        if (log_fd < 0)
            fail(path);
        close(fd);
    }
    run(argv + 1);
    return 0;
}
