/* SPDX-License-Identifier: Apache-2.0
 * See probe.h.
 */
#include "commands/probe.h"

#include "base/fd.h"
#include "base/str.h"
#include "config/text.h"
#include "core/common/verdict.h"
#include "os/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ARG_MAX_BYTES = 4096, READ_BYTES = 16384, TEXT_MAX = 256 * 1024 };

/* --- the arguments --- */

static char *probe_fill_in(const char *arg, const struct probe *probe)
{
    char text[ARG_MAX_BYTES] = "", pid[16], rank[16];
    snprintf(pid, sizeof pid, "%d", probe->pid);
    snprintf(rank, sizeof rank, "%d", probe->rank);
    (void)str_fill_in(text, sizeof text, arg,
                      (struct str_part[]){{"{pid}", pid}, {"{rank}", rank}, {NULL, NULL}});
    return strdup(text);
}

static bool make_args(struct probe *probe, struct err *err)
{
    size_t n = str_count(probe->args);
    probe->argv = calloc(n + 1, sizeof *probe->argv);
    bool ok = probe->argv != NULL;
    for (size_t i = 0; ok && i < n; i++) {
        probe->argv[i] = i ? probe_fill_in(probe->args[i], probe) : strdup(probe->args[i]);
        ok = probe->argv[i] != NULL;
    }
    return ok || err_set(err, ERR_SYSTEM, ENOMEM, "cannot start '%s'", probe->args[0]);
}

/* --- the output --- */

static void probe_keep(struct probe *probe, const char *data, size_t n)
{
    size_t room = probe->text.max - buf_len(&probe->text);
    size_t kept = n < room ? n : room;
    if (!buf_add(&probe->text, data, kept))
        kept = 0;
    probe->dropped += n - kept;
}

/* False: no more output for now, or the output has ended. */
static bool probe_take_some(struct probe *probe)
{
    char data[READ_BYTES];
    ssize_t n = probe->out >= 0 ? read(probe->out, data, sizeof data) : -1;
    if (n > 0)
        probe_keep(probe, data, (size_t)n);
    else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        watch_end(&probe->out_watch);
        fd_close(&probe->out);
    }
    return n > 0;
}

/* Reads all that is there. */
static void drain(struct probe *probe)
{
    while (probe->out >= 0 && probe_take_some(probe))
        ;
}

/* Reads only once: endless output must not delay other events. */
static void on_output(void *ctx)
{
    probe_take_some(ctx);
}

/* --- start and end --- */

static void close_all(struct probe *probe)
{
    watch_end(&probe->out_watch);
    fd_close(&probe->out);
    fd_close(&probe->report);
    command_clear(&probe->argv);
}

/* The program has ended but is not reaped yet, so its pid still names its group. */
static void probe_on_change(void *ctx, enum reap_what what, int status)
{
    struct probe *probe = ctx;
    struct err err;
    if (what != REAP_EXITED)
        return;
    proc_kill_group(probe->watch.pid, SIGKILL);
    drain(probe);
    if (spawn_result(probe->report, probe->argv[0], &err) == SPAWN_FAILED)
        str_copy(probe->how, sizeof probe->how, err.text);
    else if (!probe->how[0])
        verdict_text_of_status(status, probe->how, sizeof probe->how);
    close_all(probe);
    probe->on_end(probe->ctx);
}

/* Returns the end that the program writes to; -1: *err. */
static int probe_open_pipe(struct probe *probe, struct event_base *base, struct err *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        err_set(err, ERR_SYSTEM, errno, "no pipe to it");
        return -1;
    }
    FD_CLEANUP int writer = ends[1];
    probe->out = ends[0];
    watch_init(&probe->out_watch, base, on_output, probe);
    bool ok = fd_set_nonblock(probe->out, err) && watch_fd(&probe->out_watch, probe->out, err);
    return ok ? fd_take(&writer) : -1;
}

static bool probe_spawn(struct probe *probe, struct event_base *base, struct err *err)
{
    FD_CLEANUP int writer = probe_open_pipe(probe, base, err);
    struct spawn_request request = {.argv = probe->argv,
                                    .env = environ,
                                    .streams = {SPAWN_NULL, writer, writer},
                                    .tty = -1,
                                    .is_apart = true};
    probe->watch = (struct reap_watch){.kind = REAP_SOURCE, .fn = probe_on_change, .ctx = probe};
    probe->watch.pid = writer < 0 ? 0 : spawn_start(&request, &probe->report, err);
    if (probe->watch.pid)
        reap_watch(probe->reap, &probe->watch);
    return probe->watch.pid;
}

bool probe_start(struct probe *probe, struct event_base *base, struct err *err)
{
    probe->is_used = true;
    probe->report = probe->out = -1;
    buf_init(&probe->text, TEXT_MAX);
    if (make_args(probe, err) && probe_spawn(probe, base, err))
        return true;
    str_fit(probe->how, sizeof probe->how, err->text);
    close_all(probe);
    return false;
}

bool probe_runs(const struct probe *probe)
{
    return probe->watch.pid;
}

void probe_kill(struct probe *probe)
{
    if (!probe_runs(probe))
        return;
    str_copy(probe->how, sizeof probe->how, "killed, its time was over");
    proc_kill_group(probe->watch.pid, SIGKILL);
}

void probe_free(struct probe *probe)
{
    if (probe_runs(probe)) {
        proc_kill_group(probe->watch.pid, SIGKILL);
        reap_forget(probe->reap, &probe->watch);
        close_all(probe);
    }
    buf_free(&probe->text);
    probe->is_used = false;
}
