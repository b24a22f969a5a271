/* SPDX-License-Identifier: Apache-2.0
 *
 * pchclient: a training process that a test leads. It reads one command per line from standard
 * input, does it through libpch, and prints one line: the command's name and its result. At the end
 * of the input it exits with 0, so a driver that dies leaves nothing behind. An unknown command
 * exits with 2.
 *
 *   open [rank=N] [local_rank=N] [world=N] [local_world=N] [first=N] [stride=N] [last=N]
 *        [bare|counts|unsized] [needs_rank] [needs_any]
 *   step N · saved N [PATH] · durable N [PATH] · failed N WHY
 *   aside COMMAND             does the command in a thread that ends then
 *   pause MS                  does nothing for so many milliseconds
 *   load 1 · load 0            waits for data from now on; no longer
 *   phase N · notice · error CODE TEXT (`|` begins a line) · scratch · done · close
 *   train FROM TO MS [PATH [SAVE]]   a loop of steps that each take MS milliseconds, and saves SAVE
 *   spree TO MS EVERY PATH    trains to that step, saves every EVERY steps by itself; says done
 *   storm N                   every call N times, from four threads, beside N steps and saves
 *   reopen N                  closes and opens, N times, while a thread wants scratch
 *   forkopen [OPTIONS]        a fork that opens the job, trains one step and closes
 *   cloneopen                 the same, not by fork(2)
 *   fork                      what a fork finds; it lives until `reap`
 *   reap                      ends the fork
 *   forkexit CODE             a fork that ends by exit; prints its exit code
 *   forkterm parent|other     a fork that is sent SIGTERM, by its parent or by a third process
 *   raise                     SIGTERM to itself
 *   havoc thread|fork         a thread or a fork now writes nonsense into its page, at full speed
 *   scribble                  writes over all that it can reach of the shared memory
 *   swell MIB                 takes MIB MiB of memory, and touches all of it
 *   exec                      is cat from now on
 *   closefds                  closes every descriptor but the standard streams
 *   exit CODE, _exit CODE
 *
 * Built three times: against libpch.so, against libpch.a without any shared library, and with
 * libpch.so opened at run time (PCHCLIENT_DLOPEN, its path).
 */
#include "pch.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef PCHCLIENT_DLOPEN
#include <dlfcn.h>
#define API(f)                                                                                     \
    f(open) f(supervised) f(resume_step) f(resume_path) f(scratch_dir) f(step) f(saved) f(durable) \
        f(save_failed) f(phase) f(wait_begin) f(wait_end) f(load_begin) f(load_end) f(notice)      \
            f(error) f(done) f(close)
#define MEMBER(name) __typeof__(&pch_##name) name;
#define LOAD(name)   load(library, "pch_" #name, &pch.name, sizeof pch.name);
static struct {
    API(MEMBER)
} pch;
static void load(void *library, const char *name, void *ret, size_t size)
{
    void *symbol = dlsym(library, name);
    if (!symbol) {
        fprintf(stderr, "%s\n", dlerror());
        exit(2);
    }
    memcpy(ret, &symbol, size);
}
static void load_library(void)
{
    void *library = dlopen(PCHCLIENT_DLOPEN, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(2);
    }
    API(LOAD)
    /* libpch stays, since it leaves handlers behind. */
    dlclose(library);
}
#define P(name) pch.name
#else
static void load_library(void)
{
}
#define P(name) pch_##name
#endif

static pch_t *job;
static pid_t fork_pid = -1;
static int fork_pipe[2] = {-1, -1};

static const char *action_name(enum pch_action action)
{
    static const char *const names[] = {"continue", "save", "exit"};
    return names[action];
}

static void do_open(char *words)
{
    struct pch_options o = PCH_OPTIONS_INIT;
    for (char *word = strtok(words, " "); word; word = strtok(NULL, " ")) {
        unsigned long long n = 0;
        char name[32] = "";
        if (sscanf(word, "%31[a-z_]=%llu", name, &n) < 1)
            exit(2);
        if (!strcmp(name, "rank"))
            o.rank = (int)n;
        else if (!strcmp(name, "local_rank"))
            o.local_rank = (int)n;
        else if (!strcmp(name, "world"))
            o.world_size = (int)n;
        else if (!strcmp(name, "local_world"))
            o.local_world_size = (int)n;
        else if (!strcmp(name, "first"))
            o.first_step = n;
        else if (!strcmp(name, "stride"))
            o.stride = n;
        else if (!strcmp(name, "last"))
            o.last_step = n;
        else if (!strcmp(name, "bare"))
            o.flags |= PCH_NO_SHIELD;
        else if (!strcmp(name, "counts"))
            o.flags |= PCH_NO_SAVE;
        else if (!strcmp(name, "needs_rank"))
            o.flags |= PCH_NEEDS_RANK0;
        else if (!strcmp(name, "needs_any"))
            o.flags |= PCH_NEEDS_ANY;
        else if (!strcmp(name, "unsized"))
            o.size = 0;
        else
            exit(2);
    }
    pch_t *first = job;
    job = P(open)(&o);
    const char *path = P(resume_path)(job);
    printf("open supervised=%d same=%d resume=%llu path=%s\n", P(supervised)(job),
           first == NULL || first == job, (unsigned long long)P(resume_step)(job),
           path ? path : "-");
}

static void *storm_thread(void *arg)
{
    unsigned long long n = *(unsigned long long *)arg;
    char text[300];
    for (unsigned long long i = 1; i <= n; i++) {
        P(phase)(job, PCH_EVAL);
        P(wait_begin)(job);
        P(wait_end)(job);
        P(load_begin)(job);
        P(load_end)(job);
        P(notice)(job, text, sizeof text);
        P(durable)(job, i, "at:///durable");
        P(save_failed)(job, i, "failed");
        P(error)(job, (int)i, "error");
        if (!P(scratch_dir)(job) || !P(supervised)(job))
            exit(2);
    }
    return NULL;
}

static void do_storm(unsigned long long n)
{
    pthread_t threads[4];
    int bad = 0;
    for (int i = 0; i < 4; i++)
        if (pthread_create(&threads[i], NULL, storm_thread, &n) != 0)
            exit(2);
    for (unsigned long long i = 1; i <= n; i++) {
        bad += P(step)(job, i) != PCH_CONTINUE;
        bad += P(saved)(job, i, "at:///saved") != PCH_CONTINUE;
    }
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    printf("storm %llu bad=%d\n", n, bad);
}

static void *scratch_thread(void *arg)
{
    P(scratch_dir)(job);
    return arg;
}

static void do_reopen(unsigned long long n)
{
    for (unsigned long long i = 0; i < n; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, scratch_thread, NULL) != 0)
            exit(2);
        P(close)(job);
        P(open)(NULL);
        pthread_join(thread, NULL);
    }
    printf("reopen %llu supervised=%d\n", n, P(supervised)(job));
}

static void pause_ms(unsigned long long ms)
{
    nanosleep(&(struct timespec){(time_t)(ms / 1000), (long)(ms % 1000) * 1000000}, NULL);
}

static void do_train(char *words)
{
    unsigned long long step, to, ms, save_ms = 0;
    char path[4096] = "";
    if (sscanf(words, "%llu %llu %llu %4095s %llu", &step, &to, &ms, path, &save_ms) < 3)
        exit(2);
    enum pch_action action = PCH_CONTINUE;
    while (step < to && action != PCH_EXIT) {
        pause_ms(ms);
        action = P(step)(job, ++step);
        if (action == PCH_SAVE) {
            printf("train saves %llu\n", step);
            fflush(stdout);
            pause_ms(save_ms);
            action = P(saved)(job, step, path[0] ? path : NULL);
        }
    }
    printf("train %llu %s\n", step, action_name(action));
}

static void do_spree(const char *words)
{
    unsigned long long to, ms, every, step = P(resume_step)(job);
    char path[4096] = "";
    if (sscanf(words, "%llu %llu %llu %4095s", &to, &ms, &every, path) < 4)
        exit(2);
    enum pch_action action = PCH_CONTINUE;
    while (step < to && action != PCH_EXIT) {
        pause_ms(ms);
        action = P(step)(job, ++step);
        if (action == PCH_SAVE || (action == PCH_CONTINUE && step % every == 0))
            action = P(saved)(job, step, path);
    }
    if (action != PCH_EXIT)
        P(done)(job);
    printf("spree %llu %s\n", step, action_name(action));
}

static int term_is_default(void)
{
    struct sigaction now;
    return sigaction(SIGTERM, NULL, &now) == 0 && now.sa_handler == SIG_DFL;
}

static int count_sockets(void)
{
    int n = 0;
    char name[64], link[256];
    for (int fd = 3; fd < 256; fd++) {
        snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
        ssize_t len = readlink(name, link, sizeof link - 1);
        if (len > 0) {
            link[len] = '\0';
            n += strncmp(link, "socket:", 7) == 0;
        }
    }
    return n;
}

/* The pages of the shared memory that this process has mapped. */
static int find_pages(const char *name, unsigned char **ret)
{
    char line[512];
    int n = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) {
        unsigned long start;
        if (strstr(line, name) && sscanf(line, "%lx", &start) == 1) {
            *ret = (unsigned char *)start;
            n++;
        }
    }
    if (maps)
        fclose(maps);
    return n;
}

static void do_fork(void)
{
    unsigned char *page;
    if (pipe(fork_pipe) != 0)
        exit(2);
    fflush(stdout);
    fork_pid = fork();
    if (fork_pid == 0) {
        char c;
        close(fork_pipe[1]);
        int supervised = P(supervised)(job);
        const char *step = action_name(P(step)(job, 999999));
        const char *saved = action_name(P(saved)(job, 999999, NULL));
        P(done)(job);
        const char *scratch = P(scratch_dir)(job);
        P(close)(job);
        printf("fork supervised=%d step=%s saved=%s term=%s scratch=%s sockets=%d pages=%d\n",
               supervised, step, saved, term_is_default() ? "default" : "ours",
               scratch ? scratch : "-", count_sockets(), find_pages("pch-", &page));
        fflush(stdout);
        if (read(fork_pipe[0], &c, 1) < 0)
            _exit(1);
        _exit(0);
    }
    close(fork_pipe[0]);
}

static void do_forkexit(int code)
{
    int status = -1;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        exit(code);
    waitpid(pid, &status, 0);
    printf("forkexit %d\n", WEXITSTATUS(status));
}

/* The fork ends at the end of its input. SIGTERM is sent earlier, so the fork gets it first. */
static void do_forkterm(const char *by)
{
    int gate[2], status = -1;
    if (pipe(gate) != 0)
        exit(2);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        char c;
        close(gate[1]);
        _exit(read(gate[0], &c, 1) != 0);
    }
    pid_t sender = strcmp(by, "other") ? getpid() : fork();
    if (sender == 0)
        _exit(kill(pid, SIGTERM));
    if (sender == getpid())
        kill(pid, SIGTERM);
    else
        waitpid(sender, NULL, 0);
    close(gate[0]);
    close(gate[1]);
    waitpid(pid, &status, 0);
    printf("forkterm %s\n", WIFSIGNALED(status) ? "dies" : "lives");
}

static void open_and_step(char *words)
{
    do_open(words);
    printf("forked step 1 %s\n", action_name(P(step)(job, 1)));
    P(close)(job);
    fflush(stdout);
    _exit(0);
}

static void do_forkopen(char *words)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        open_and_step(words);
    waitpid(pid, NULL, 0);
    printf("forkopen\n");
}

static void do_cloneopen(void)
{
    char words[] = "";
    fflush(stdout);
    pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid == 0) {
        P(open)(NULL);
        open_and_step(words);
    }
    waitpid(pid, NULL, 0);
    printf("cloneopen\n");
}

static void do_clone(void)
{
    int status = -1;
    pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid == 0) {
        if (P(supervised)(job) || P(step)(job, 999999) != PCH_CONTINUE)
            _exit(3);
        kill(getpid(), SIGTERM);
        _exit(4);
    }
    waitpid(pid, &status, 0);
    printf("clone exit=%d signal=%d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1,
           WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

static int stranger = -1;

static void do_closefds(void)
{
    int pair[2];
    for (int fd = 3; fd < 256; fd++)
        close(fd);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) != 0)
        exit(2);
    stranger = dup2(pair[1], 200);
    for (int fd = 3; fd < 100; fd++)
        dup2(pair[0], fd);
    printf("closefds\n");
}

static void do_strangers(void)
{
    char data[64];
    printf("strangers %d\n", recv(stranger, data, sizeof data, MSG_DONTWAIT) >= 0);
}

static void do_reap(void)
{
    int status = -1;
    close(fork_pipe[1]);
    waitpid(fork_pid, &status, 0);
    printf("reap %d\n", status);
}

/* The supervisor's page must not be writable, nor become writable by this mapping or a new one. */
static void do_scribble(void)
{
    unsigned char *own = NULL, *theirs = NULL;
    int n = find_pages("pch-process", &own), m = find_pages("pch-supervisor", &theirs);
    int rc = m == 1 ? mprotect(theirs, 4096, PROT_READ | PROT_WRITE) : 0;
    int why = errno;
    if (n == 1)
        memset(own, 0xff, 4096);
    printf("scribble own=%d supervisor=%d mprotect=%s\n", n, m,
           rc == 0 ? "allowed" : strerror(why));
}

static void *scribble_for_ever(void *page)
{
    uint64_t x = 88172645463325252u;
    for (;;) {
        /* Sometimes near the truth, mostly far from it. */
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        uint64_t nonsense[2] = {x & 1 ? x % 1000 : x, x};
        memcpy((void *)page, nonsense, sizeof nonsense);
        memcpy((unsigned char *)page + 64, nonsense, sizeof nonsense);
        for (int at = 128; at <= 192; at += 64) { /* and wakes the supervisor */
            memcpy((unsigned char *)page + at, nonsense, 4);
            syscall(SYS_futex, (unsigned char *)page + at, 1, 1, NULL, NULL, 0);
        }
    }
    return NULL;
}

static void do_havoc(const char *who)
{
    unsigned char *own = NULL;
    pthread_t thread;
    int n = find_pages("pch-process", &own);
    if (n != 1 || (!strcmp(who, "thread") && pthread_create(&thread, NULL, scribble_for_ever, own)))
        exit(2);
    if (!strcmp(who, "fork")) {
        if (madvise(own, 4096, MADV_DOFORK) != 0) /* libpch keeps forks from having it */
            exit(2);
        if (fork() == 0)
            scribble_for_ever(own);
    }
    printf("havoc\n");
}

static void do_swell(const char *rest)
{
    static char *volatile memory; /* reachable to the end of the process, so no leak */
    size_t size = strtoul(rest, NULL, 10) << 20;
    memory = malloc(size);
    if (!memory)
        exit(2);
    memset(memory, 1, size);
    printf("swell %s %d\n", rest, memory[size - 1]);
}

static void do_exec(void)
{
    printf("exec\n");
    fflush(stdout);
    execlp("cat", "cat", NULL);
    exit(2);
}

static void do_notice(void)
{
    char text[300];
    size_t n = P(notice)(job, text, sizeof text);
    printf("notice %zu %s\n", n, text);
}

static void do_scratch(void)
{
    const char *path = P(scratch_dir)(job);
    printf("scratch %s\n", path ? path : "-");
}

/* SIGTERM, or the one with this number. */
static void do_raise(const char *number)
{
    kill(getpid(), *number ? atoi(number) : SIGTERM);
    printf("raise survived\n");
}

/* Commands that take a step and a text. */
static int do_save_command(const char *name, const char *rest)
{
    unsigned long long step = 0;
    char text[8192] = "";
    sscanf(rest, "%llu %8191[^\n]", &step, text);
    const char *path = text[0] ? text : NULL;
    if (!strcmp(name, "step")) {
        printf("step %llu %s\n", step, action_name(P(step)(job, step)));
    } else if (!strcmp(name, "saved")) {
        printf("saved %llu %s\n", step, action_name(P(saved)(job, step, path)));
    } else if (!strcmp(name, "durable")) {
        P(durable)(job, step, path);
        printf("durable %llu\n", step);
    } else if (!strcmp(name, "failed")) {
        P(save_failed)(job, step, text);
        printf("failed %llu\n", step);
    } else if (!strcmp(name, "error")) {
        for (char *c = text; (c = strchr(c, '|'));)
            *c = '\n';
        P(error)(job, (int)step, text);
        printf("error %llu\n", step);
    } else if (!strcmp(name, "phase")) {
        P(phase)(job, (enum pch_phase)step);
        printf("phase %llu\n", step);
    } else if (!strcmp(name, "load")) {
        step ? P(load_begin)(job) : P(load_end)(job);
        printf("load %llu\n", step);
    } else if (!strcmp(name, "pause")) {
        pause_ms(step);
    } else if (!strcmp(name, "storm")) {
        do_storm(step);
    } else if (!strcmp(name, "reopen")) {
        do_reopen(step);
    } else if (!strcmp(name, "forkexit")) {
        do_forkexit((int)step);
    } else if (!strcmp(name, "_exit")) {
        _exit((int)step);
    } else if (!strcmp(name, "exit")) {
        fflush(stdout);
        exit((int)step);
    } else {
        return 0;
    }
    return 1;
}

static void *do_line(void *line);

static void do_aside(char *line)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, do_line, line) != 0 || pthread_join(thread, NULL) != 0)
        exit(2);
}

static void do_command(const char *name, char *rest)
{
    if (!strcmp(name, "open")) {
        do_open(rest);
    } else if (!strcmp(name, "aside")) {
        do_aside(rest);
    } else if (!strcmp(name, "swell")) {
        do_swell(rest);
    } else if (!strcmp(name, "exec")) {
        do_exec();
    } else if (!strcmp(name, "train")) {
        do_train(rest);
    } else if (!strcmp(name, "spree")) {
        do_spree(rest);
    } else if (!strcmp(name, "havoc")) {
        do_havoc(rest);
    } else if (!strcmp(name, "notice")) {
        do_notice();
    } else if (!strcmp(name, "scratch")) {
        do_scratch();
    } else if (!strcmp(name, "fork")) {
        do_fork();
    } else if (!strcmp(name, "forkterm")) {
        do_forkterm(rest);
    } else if (!strcmp(name, "reap")) {
        do_reap();
    } else if (!strcmp(name, "raise")) {
        do_raise(rest);
    } else if (!strcmp(name, "scribble")) {
        do_scribble();
    } else if (!strcmp(name, "done")) {
        P(done)(job);
        printf("done\n");
    } else if (!strcmp(name, "close")) {
        P(close)(job);
        printf("close supervised=%d step=%s term=%s\n", P(supervised)(job),
               action_name(P(step)(job, 1)), term_is_default() ? "default" : "ours");
    } else if (!strcmp(name, "closefds")) {
        do_closefds();
    } else if (!strcmp(name, "strangers")) {
        do_strangers();
    } else if (!strcmp(name, "forkopen")) {
        do_forkopen(rest);
    } else if (!strcmp(name, "cloneopen")) {
        do_cloneopen();
    } else if (!strcmp(name, "clone")) {
        do_clone();
    } else if (!do_save_command(name, rest)) {
        fprintf(stderr, "pchclient: unknown command %s\n", name);
        exit(2);
    }
}

static void *do_line(void *line)
{
    char *name = line, *rest = name + strcspn(name, " \n");
    if (*rest)
        *rest++ = '\0';
    rest[strcspn(rest, "\n")] = '\0';
    do_command(name, rest);
    return NULL;
}

int main(void)
{
    char *line = NULL;
    size_t size = 0;
    load_library();
    while (getline(&line, &size, stdin) > 0) {
        do_line(line);
        fflush(stdout);
    }
    free(line);
    return 0;
}
