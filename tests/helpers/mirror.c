/* SPDX-License-Identifier: Apache-2.0
 *
 * mirror: prints the state in which a process was started, as one JSON object.
 *
 *     mirror FILE      ("-": standard output)
 *
 * The tests start it with and without pchrun and compare. mirror looks before it opens anything, so
 * that it does not see itself. It renames the file into place, so the file is whole when it
 * appears. Fails with exit code 99 and a line on standard error.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

extern char **environ;

static char *text;
static size_t text_len;
static FILE *out;

static void fail(const char *what)
{
    fprintf(stderr, "mirror: %s: %s\n", what, strerror(errno));
    _exit(99);
}

/* Bytes above 0x7f come out as the code points of the same number. */
static void put_string(const char *s)
{
    fputc('"', out);
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\' || c < 0x20 || c > 0x7e)
            fprintf(out, "\\u%04x", c);
        else
            fputc(c, out);
    }
    fputc('"', out);
}

static void put_strings(const char *key, char *const *list)
{
    fprintf(out, ",\"%s\":[", key);
    for (size_t i = 0; list[i]; i++) {
        if (i > 0)
            fputc(',', out);
        put_string(list[i]);
    }
    fputc(']', out);
}

static void put_fd(int fd)
{
    char path[64], target[PATH_MAX];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(path, target, sizeof target - 1);
    target[n < 0 ? 0 : n] = '\0';
    fprintf(out, "\"%d\":{\"target\":", fd);
    put_string(target);
    fprintf(out, ",\"fl\":%d,\"fd\":%d,\"tty\":%d}", fcntl(fd, F_GETFL), fcntl(fd, F_GETFD),
            isatty(fd));
}

static void put_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    if (!dir)
        fail("/proc/self/fd");
    fprintf(out, ",\"fds\":{");
    bool is_first = true;
    for (struct dirent *entry; (entry = readdir(dir));) {
        int fd = atoi(entry->d_name);
        if (entry->d_name[0] == '.' || fd == dirfd(dir))
            continue;
        if (!is_first)
            fputc(',', out);
        is_first = false;
        put_fd(fd);
    }
    fputc('}', out);
    closedir(dir);
}

static void put_rlimits(void)
{
    fprintf(out, ",\"rlimits\":[");
    for (int i = 0; i < RLIM_NLIMITS; i++) {
        struct rlimit limit;
        if (getrlimit((__rlimit_resource_t)i, &limit) < 0)
            fail("getrlimit");
        fprintf(out, "%s[%lld,%lld]", i ? "," : "", (long long)limit.rlim_cur,
                (long long)limit.rlim_max);
    }
    fputc(']', out);
}

/* Lines of /proc/self/status that a launcher could change. */
static void put_status(void)
{
    static const char *const keys[] = {
        "Umask",  "SigPnd",  "ShdPnd",       "SigBlk",      "SigIgn",      "SigCgt",  "CapInh",
        "CapPrm", "CapEff",  "CapBnd",       "CapAmb",      "NoNewPrivs",  "Seccomp", "Groups",
        "Uid",    "Threads", "Cpus_allowed", "THP_enabled", "Mems_allowed"};
    FILE *file = fopen("/proc/self/status", "re");
    if (!file)
        fail("/proc/self/status");
    char line[8192];
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        char *colon = strchr(line, ':');
        for (size_t i = 0; colon && i < sizeof keys / sizeof keys[0]; i++) {
            size_t len = strlen(keys[i]);
            if ((size_t)(colon - line) != len || memcmp(line, keys[i], len) != 0)
                continue;
            fprintf(out, ",\"%s\":", keys[i]);
            put_string(colon + 1 + strspn(colon + 1, " \t"));
        }
    }
    fclose(file);
}

static void put_file(const char *key, const char *path)
{
    char line[256] = "";
    FILE *file = fopen(path, "re");
    if (file) {
        if (!fgets(line, sizeof line, file))
            line[0] = '\0';
        fclose(file);
    }
    line[strcspn(line, "\n")] = '\0';
    fprintf(out, ",\"%s\":", key);
    put_string(line);
}

/* tty_nr and tpgid are the 7th and 8th fields of stat, the 5th and 6th behind the name. */
static void put_terminal(void)
{
    char line[1024] = "";
    FILE *file = fopen("/proc/self/stat", "re");
    if (!file || !fgets(line, sizeof line, file))
        fail("/proc/self/stat");
    fclose(file);
    int tty = 0, foreground = 0;
    char *rest = strrchr(line, ')');
    if (!rest || sscanf(rest + 2, "%*c %*d %*d %*d %d %d", &tty, &foreground) != 2)
        fail("/proc/self/stat");
    fprintf(out, ",\"tty\":%d,\"foreground\":%d", tty, foreground);
}

static void put_process(void)
{
    int deathsig = -1, subreaper = -1;
    prctl(PR_GET_PDEATHSIG, &deathsig);
    prctl(PR_GET_CHILD_SUBREAPER, &subreaper);
    struct itimerval timer;
    getitimer(ITIMER_REAL, &timer);
    fprintf(out, "\"pid\":%d,\"ppid\":%d,\"pgid\":%d,\"sid\":%d,\"pdeathsig\":%d,\"subreaper\":%d",
            getpid(), getppid(), getpgrp(), getsid(0), deathsig, subreaper);
    fprintf(out, ",\"securebits\":%d,\"dumpable\":%d,\"timerslack\":%d,\"keepcaps\":%d",
            prctl(PR_GET_SECUREBITS), prctl(PR_GET_DUMPABLE), prctl(PR_GET_TIMERSLACK),
            prctl(PR_GET_KEEPCAPS));
    fprintf(out, ",\"nice\":%d,\"policy\":%d,\"alarm\":%ld", getpriority(PRIO_PROCESS, 0),
            sched_getscheduler(0), (long)timer.it_value.tv_sec);
}

static void look(char **argv)
{
    fputc('{', out);
    put_process();
    put_fds();
    put_terminal();
    put_status();
    put_rlimits();
    put_file("comm", "/proc/self/comm");
    put_file("oom_score_adj", "/proc/self/oom_score_adj");
    put_file("cgroup", "/proc/self/cgroup");
    char cwd[PATH_MAX];
    fprintf(out, ",\"cwd\":");
    put_string(getcwd(cwd, sizeof cwd) ? cwd : "");
    put_strings("argv", argv);
    put_strings("env", environ);
    fprintf(out, "}\n");
    if (fclose(out) != 0)
        fail("memory");
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: mirror FILE\n");
        return 99;
    }
    out = open_memstream(&text, &text_len);
    if (!out)
        fail("memory");
    look(argv);
    if (strcmp(argv[1], "-") == 0)
        return write(STDOUT_FILENO, text, text_len) == (ssize_t)text_len ? 0 : 99;
    char tmp[PATH_MAX];
    snprintf(tmp, sizeof tmp, "%s.%d", argv[1], getpid());
    int fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, text, text_len) != (ssize_t)text_len || rename(tmp, argv[1]) < 0)
        fail(argv[1]);
    return 0;
}
