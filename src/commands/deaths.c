/* SPDX-License-Identifier: Apache-2.0
 * See deaths.h.
 */
#include "commands/deaths.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "procs/rundir.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* How long to wait for the file system of the user's error file. */
#define READ_WAIT_NS NS_PER_S

#define VARIABLE "TORCHELASTIC_ERROR_FILE"

/* An error file as it was read. */
struct finding {
    bool ok;
    struct errorfile file;
    struct err err; /* why not */
};

/* NULL: the user has set no error file, and each command gets its own. */
static const char *users_file(void)
{
    const char *file = getenv(VARIABLE);
    return file && *file ? file : NULL;
}

char *deaths_file(const struct deaths *deaths, int index, uint32_t generation, char *path,
                  size_t size)
{
    if (users_file())
        return NULL;
    snprintf(path, size, "%s/" RUNDIR_FILE_PREFIX "%d.%u", deaths->dir, index, generation);
    return path;
}

void deaths_watch(struct deaths *deaths, pid_t pid)
{
    if (deaths->oom.n == 0)
        oom_watch(&deaths->oom, 0);
    oom_watch(&deaths->oom, pid);
}

void deaths_begin(struct deaths *deaths)
{
    oom_settle(&deaths->oom);
    deaths->has_killed = false;
}

/* --- the kernel --- */

/* Only a SIGKILL that pchrun did not send can come from the kernel. Another rank may end first, by
 * our SIGTERM; that rank also gets a note about the memory. */
static void note_memory(struct deaths *deaths, struct deaths_inquest *q)
{
    struct death *death = &q->death;
    bool is_kill = WIFSIGNALED(q->status) && WTERMSIG(q->status) == SIGKILL;
    bool is_certain = is_kill && !deaths->has_killed;
    const char *group = NULL;
    enum oom_answer answer = oom_ask(&deaths->oom, q->pid, is_certain, &group);
    if (answer == OOM_YES)
        snprintf(death->note, sizeof death->note,
                 is_certain ? "out of memory: the kernel killed it, and counts the kill in control "
                              "group %.100s"
                            : "the kernel has killed a process of control group %.100s for memory",
                 group);
    else if (is_kill)
        snprintf(death->note, sizeof death->note, "SIGKILL, cause unknown%s",
                 answer == OOM_NO ? "; its control group was not out of memory" : "");
}

/* --- the error file --- */

static void deaths_take_finding(struct deaths_inquest *q, const char *path,
                                const struct finding *finding)
{
    const struct errorfile *file = &finding->file;
    if (!finding->ok && finding->err.code != ERR_NOT_FOUND)
        log_warn("process", "ignoring the error file %s (" VARIABLE "): %s", path,
                 finding->err.text);
    if (!finding->ok)
        return;
    str_copy(q->death.reason, sizeof q->death.reason, file->text);
    if (file->wall)
        q->death.reason_at = clock_now_ns() - (clock_real_ns() - file->wall);
}

static void read_own(struct deaths_inquest *q, const char *path)
{
    struct finding finding;
    finding.ok = errorfile_read(path, true, &q->span, &finding.file, &finding.err);
    deaths_take_finding(q, path, &finding);
    remove(path); /* also removes an empty folder; rundir removes a full one */
}

static void read_in_child(const void *arg, int out)
{
    const struct deaths_inquest *q = arg;
    struct finding finding = {0};
    finding.ok = errorfile_read(users_file(), false, &q->span, &finding.file, &finding.err);
    if (!fd_write_all(out, &finding, sizeof finding))
        _exit(1);
}

static void on_read_users(void *ctx, bool is_late)
{
    struct deaths_inquest *q = ctx;
    struct finding finding = {.ok = false};
    if (buf_len(&q->reader.text) == sizeof finding)
        memcpy(&finding, buf_bytes(&q->reader.text), sizeof finding);
    else
        err_set(&finding.err, ERR_SYSTEM, 0,
                is_late ? "its file system does not answer" : "it could not be read");
    deaths_take_finding(q, users_file(), &finding);
    q->fn(q->ctx, &q->death);
}

/* False: the read could not be started. */
static bool read_users(struct deaths *deaths, struct deaths_inquest *q, struct err *err)
{
    q->reader = (struct inquiry){.fn = read_in_child,
                                 .arg = q,
                                 .base = deaths->base,
                                 .wait_ns = READ_WAIT_NS,
                                 .max = sizeof(struct finding),
                                 .on_over = on_read_users,
                                 .ctx = q,
                                 .helper.reap = deaths->reap};
    return inquiry_start(&q->reader, err);
}

/* --- both --- */

void deaths_ask(struct deaths *deaths, struct deaths_inquest *q)
{
    char path[PATH_MAX];
    struct finding finding = {.ok = false};
    bool is_ours = deaths_file(deaths, q->index, q->generation, path, sizeof path);
    if (q->status == 0) {
        if (is_ours)
            unlink(path);
        q->fn(q->ctx, NULL);
        return;
    }
    q->death = (struct death){.reason_at = 0};
    q->span = (struct errorfile_span){q->started, clock_real_ns(), 0};
    note_memory(deaths, q);
    if (is_ours)
        read_own(q, path);
    else if (read_users(deaths, q, &finding.err))
        return;
    else
        deaths_take_finding(q, users_file(), &finding);
    q->fn(q->ctx, &q->death);
}

void deaths_close(struct deaths_inquest *inquest)
{
    inquiry_free(&inquest->reader);
}
