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

/* The reader's answer. */
struct answer {
    bool ok;
    struct errorfile file;
    char why[256];
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
                 is_certain ? "out of memory: the kernel killed it, and counts that in control "
                              "group %.100s"
                            : "the kernel has killed a process of control group %.100s for memory",
                 group);
    else if (is_kill)
        snprintf(death->note, sizeof death->note, "SIGKILL, cause unknown%s",
                 answer == OOM_NO ? "; its control group was not out of memory" : "");
}

/* --- the error file --- */

static void take_file(struct deaths_inquest *q, const struct errorfile *file)
{
    str_copy(q->death.reason, sizeof q->death.reason, file->text);
    if (file->wall)
        q->death.reason_at = clock_now_ns() - (clock_real_ns() - file->wall);
}

static void deaths_complain(const char *path, const char *why)
{
    log_warn("process", "ignoring the error file %s (" VARIABLE "): %s", path, why);
}

static void read_own(struct deaths_inquest *q, const char *path)
{
    struct errorfile file;
    struct err err;
    if (errorfile_read(path, true, &q->span, &file, &err))
        take_file(q, &file);
    else if (err.code != ERR_NOT_FOUND)
        deaths_complain(path, err.text);
    remove(path); /* also removes an empty folder; rundir removes a full one */
}

static void read_in_child(const void *arg, int out)
{
    const struct deaths_inquest *q = arg;
    struct answer answer = {0};
    struct err err;
    answer.ok = errorfile_read(q->file, false, &q->span, &answer.file, &err);
    if (!answer.ok && err.code != ERR_NOT_FOUND)
        str_copy(answer.why, sizeof answer.why, err.text);
    if (!fd_write_all(out, &answer, sizeof answer))
        _exit(1);
}

static void on_read_users(void *ctx, bool is_late)
{
    struct deaths_inquest *q = ctx;
    struct answer answer = {0};
    bool is_whole = buf_len(&q->reader.text) == sizeof answer;
    if (is_whole)
        memcpy(&answer, buf_bytes(&q->reader.text), sizeof answer);
    if (answer.ok)
        take_file(q, &answer.file);
    else if (is_late)
        deaths_complain(q->file, "its file system does not answer");
    else if (!is_whole || answer.why[0])
        deaths_complain(q->file, is_whole ? answer.why : "it could not be read");
    q->fn(q->ctx, &q->death);
}

/* False: the read could not be started. */
static bool read_users(struct deaths *deaths, struct deaths_inquest *q, struct err *err)
{
    q->file = users_file();
    q->reader = (struct inquiry){.fn = read_in_child,
                                 .arg = q,
                                 .base = deaths->base,
                                 .wait_ns = READ_WAIT_NS,
                                 .max = sizeof(struct answer),
                                 .on_over = on_read_users,
                                 .ctx = q,
                                 .helper.reap = deaths->reap};
    return inquiry_start(&q->reader, err);
}

/* --- both --- */

void deaths_ask(struct deaths *deaths, struct deaths_inquest *q)
{
    char path[PATH_MAX];
    struct err err;
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
    else if (read_users(deaths, q, &err))
        return;
    else
        deaths_complain(q->file, err.text);
    q->fn(q->ctx, &q->death);
}

void deaths_close(struct deaths_inquest *inquest)
{
    inquiry_free(&inquest->reader);
}
