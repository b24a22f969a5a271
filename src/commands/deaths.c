/* SPDX-License-Identifier: Apache-2.0
 * See deaths.h.
 */
#include "commands/deaths.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "commands/errorfile.h"
#include "os/helper.h"
#include "os/proc.h"
#include "procs/rundir.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The longest wait for the file system of the user's file. */
#define READ_WAIT_NS NS_PER_S

#define VARIABLE "TORCHELASTIC_ERROR_FILE"

/* The reader's answer: less than PIPE_BUF, so that one read() gets all of it. */
struct answer {
    bool ok;
    struct errorfile file;
    char why[256];
};
_Static_assert(sizeof(struct answer) <= PIPE_BUF, "an answer is written at once");

struct deaths_inquest {
    struct death death;
    struct errorfile_span span;
    const char *file; /* the user's */
    deaths_fn *fn;
    void *ctx;
    int answer;
    pid_t reader;
    struct watch answered, clock;
};

void deaths_init(struct deaths *deaths, const char *socket, struct reap *reap,
                 struct event_base *base)
{
    const char *user = getenv(VARIABLE), *slash = socket ? strrchr(socket, '/') : NULL;
    deaths->base = base;
    deaths->user_file = user && *user ? user : NULL;
    deaths->reap = reap;
    size_t len = slash ? (size_t)(slash - socket) : 0;
    if (len < sizeof deaths->dir && len > 0)
        memcpy(deaths->dir, socket, len);
}

char *deaths_file(const struct deaths *deaths, int index, uint32_t generation, char *path,
                  size_t size)
{
    if (deaths->user_file || !deaths->dir[0])
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

void deaths_killed(struct deaths *deaths)
{
    deaths->has_killed = true;
}

/* --- the kernel --- */

/* Only a SIGKILL that pchrun did not send can be the kernel's. Other ranks may end first, of our
 * SIGTERM; they, too, get a note about the memory. */
static void note_memory(struct deaths *deaths, const struct deaths_case *what, struct death *death)
{
    bool is_kill = WIFSIGNALED(what->status) && WTERMSIG(what->status) == SIGKILL;
    bool is_certain = is_kill && !deaths->has_killed;
    const char *group = NULL;
    enum oom_answer answer = oom_ask(&deaths->oom, what->pid, is_certain, &group);
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

static void complain(const char *path, const char *why)
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
        complain(path, err.text);
    remove(path); /* it may be a folder; rundir removes a full one */
}

static void be_reader(const char *path, const struct errorfile_span *span, int out)
{
    struct answer answer = {0};
    struct err err;
    helper_detach(out);
    answer.ok = errorfile_read(path, false, span, &answer.file, &err);
    if (!answer.ok && err.code != ERR_NOT_FOUND)
        str_copy(answer.why, sizeof answer.why, err.text);
    _exit(write(out, &answer, sizeof answer) != sizeof answer);
}

static void end_reading(struct deaths_inquest *q)
{
    watch_end(&q->answered);
    watch_end(&q->clock);
    fd_close(&q->answer);
}

/* False: the reader has not answered yet, so it still lives. */
static bool take_answer(struct deaths_inquest *q)
{
    struct answer answer;
    ssize_t n = read(q->answer, &answer, sizeof answer);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return false;
    if (n != (ssize_t)sizeof answer)
        complain(q->file, "it could not be read");
    else if (answer.ok)
        take_file(q, &answer.file);
    else if (answer.why[0])
        complain(q->file, answer.why);
    return true;
}

static void close_case(struct deaths_inquest *q)
{
    end_reading(q);
    q->fn(q->ctx, &q->death);
}

static void on_answer(void *ctx)
{
    struct deaths_inquest *q = ctx;
    if (take_answer(q))
        close_case(q);
}

static void on_clock(void *ctx)
{
    struct deaths_inquest *q = ctx;
    if (!take_answer(q)) {
        complain(q->file, "its file system does not answer");
        proc_kill(q->reader, SIGKILL);
    }
    close_case(q);
}

/* False: the read could not be started. */
static bool read_users(struct deaths *deaths, struct deaths_inquest *q, struct err *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return err_set(err, ERR_SYSTEM, errno, "cannot make a pipe");
    q->file = deaths->user_file;
    q->answer = ends[0];
    q->answered = (struct watch){.fn = on_answer, .ctx = q};
    q->clock = (struct watch){.fn = on_clock, .ctx = q};
    q->reader = fork();
    if (q->reader == 0)
        be_reader(q->file, &q->span, ends[1]);
    close(ends[1]);
    if (q->reader < 0)
        return err_set(err, ERR_SYSTEM, errno, "cannot start a helper");
    reap_keep(deaths->reap, q->reader);
    if (!watch_fd(&q->answered, deaths->base, q->answer, err) ||
        !watch_clock(&q->clock, deaths->base, err))
        return false;
    watch_at(&q->clock, clock_now_ns() + READ_WAIT_NS);
    return true;
}

/* --- both --- */

struct deaths_inquest *deaths_ask(struct deaths *deaths, const struct deaths_case *what,
                                  deaths_fn *fn, void *ctx)
{
    char path[PATH_MAX];
    struct err err;
    bool is_bad = !WIFEXITED(what->status) || WEXITSTATUS(what->status) != 0;
    struct deaths_inquest *q = is_bad ? calloc(1, sizeof *q) : NULL;
    if (!q) {
        if (deaths_file(deaths, what->index, what->generation, path, sizeof path))
            unlink(path);
        fn(ctx, NULL);
        return NULL;
    }
    *q = (struct deaths_inquest){
        .fn = fn, .ctx = ctx, .answer = -1, .span = {what->started, clock_real_ns(), 0}};
    note_memory(deaths, what, &q->death);
    if (deaths->user_file && read_users(deaths, q, &err))
        return q;
    if (deaths->user_file)
        complain(deaths->user_file, err.text);
    else if (deaths_file(deaths, what->index, what->generation, path, sizeof path))
        read_own(q, path);
    end_reading(q);
    fn(ctx, &q->death);
    return q;
}

void deaths_close(struct deaths_inquest *inquest)
{
    if (inquest)
        end_reading(inquest);
    free(inquest);
}
