/* SPDX-License-Identifier: Apache-2.0
 * See threads.h, and proc(5).
 */
#include "os/threads.h"

#include "base/fd.h"
#include "base/str.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STACK_MAX = 4096, LINE_INDENT = 6 };

/* Reads at most size - 1 bytes, without the last newline; "" on failure. */
static bool threads_read_file(pid_t pid, pid_t tid, const char *name, char *text, size_t size)
{
    char path[80];
    snprintf(path, sizeof path, "/proc/%d/task/%d/%s", (int)pid, (int)tid, name);
    ssize_t n = fd_read_text(path, text, size);
    if (n <= 0)
        return false;
    n -= text[n - 1] == '\n';
    text[n] = '\0';
    return n > 0;
}

/* "pid (comm) state …": the name may hold any byte, even parentheses. */
static void add_stat(pid_t pid, pid_t tid, char *text, size_t size)
{
    char stat[1024];
    unsigned long long user = 0, kernel = 0;
    char state = '?';
    if (!threads_read_file(pid, tid, "stat", stat, sizeof stat))
        return;
    char *open = strchr(stat, '('), *close = strrchr(stat, ')');
    if (!open || !close || close < open)
        return;
    *close = '\0';
    sscanf(close + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &state, &user,
           &kernel);
    double ticks = (double)sysconf(_SC_CLK_TCK);
    str_addf(text, size, " (%s): state %c, cpu %.2f s", str_printable(open + 1), state,
             (double)(user + kernel) / ticks);
}

static void add_file(pid_t pid, pid_t tid, const char *name, char *text, size_t size)
{
    char value[256];
    if (threads_read_file(pid, tid, name, value, sizeof value) && !str_is(value, "0"))
        str_addf(text, size, ", %s %s", name, str_printable(value));
}

static void add_stack(pid_t pid, pid_t tid, char *text, size_t size)
{
    char stack[STACK_MAX];
    if (!threads_read_file(pid, tid, "stack", stack, sizeof stack))
        return;
    char *rest = stack, *line;
    while ((line = strsep(&rest, "\n")))
        str_addf(text, size, "%*s%s\n", LINE_INDENT, "", str_printable(line));
}

static bool write_thread(int fd, pid_t pid, pid_t tid)
{
    char text[2 * STACK_MAX];
    snprintf(text, sizeof text, "  thread %d", (int)tid);
    add_stat(pid, tid, text, sizeof text);
    add_file(pid, tid, "wchan", text, sizeof text);
    add_file(pid, tid, "syscall", text, sizeof text);
    str_addf(text, sizeof text, "\n");
    add_stack(pid, tid, text, sizeof text);
    return fd_write_all(fd, text, strlen(text));
}

bool threads_write(int fd, pid_t pid, int max)
{
    char text[64];
    int n = 1;
    snprintf(text, sizeof text, "/proc/%d/task", (int)pid);
    DIR *dir = opendir(text);
    if (!dir)
        return dprintf(fd, "    it has ended\n") > 0;
    bool ok = write_thread(fd, pid, pid);
    for (struct dirent *entry; ok && (entry = readdir(dir));) {
        pid_t tid = atoi(entry->d_name);
        if (tid > 0 && tid != pid && ++n <= max)
            ok = write_thread(fd, pid, tid);
    }
    closedir(dir);
    return ok && (n <= max || dprintf(fd, "    and %d more threads\n", n - max) > 0);
}
