/* SPDX-License-Identifier: Apache-2.0
 * See probe.h.
 */
#include "loop/probe.h"

#include "base/fd.h"
#include "base/sigtext.h"
#include "base/str.h"
#include "os/proc.h"
#include "os/spawn.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

/* LAST_READS: for all that a pipe holds, at its largest. */
enum { READ_BYTES = 16384, LAST_READS = 1048576 / READ_BYTES };

static void probe_keep(struct probe *probe, const char *data, size_t n)
{
    size_t room = probe->text.max - buf_len(&probe->text);
    if (probe->keeps_last && n > room) {
        buf_drop(&probe->text, n - room);
        probe->dropped += n - room;
        room = n;
    }
    size_t kept = n < room ? n : room;
    if (!buf_add(&probe->text, data, kept))
        kept = 0;
    probe->dropped += n - kept;
}

/* False: no more output for now, or the output has ended. */
static bool probe_take_some(struct probe *probe)
{
    char data[READ_BYTES];
    ssize_t n = read(probe->out, data, sizeof data);
    if (n > 0)
        probe_keep(probe, data, (size_t)n);
    else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        watch_end(&probe->out_watch);
        fd_close(&probe->out);
    }
    return n > 0;
}

/* Reads only once: endless output must not delay other events. */
static void probe_on_output(void *ctx)
{
    probe_take_some(ctx);
}

static void probe_close(struct probe *probe)
{
    watch_end(&probe->out_watch);
    fd_close(&probe->out);
    fd_close(&probe->report);
}

/* The last output of the program is in the pipe. A process that has left the group may hold the
 * pipe, too, and print without end. */
static void probe_take_last(struct probe *probe)
{
    for (int i = 0; i < LAST_READS && probe->out >= 0 && probe_take_some(probe); i++)
        ;
}

/* The program has ended but is not reaped yet, so its pid still names its group. */
static void probe_on_change(void *ctx, enum reap_what what, int status)
{
    struct probe *probe = ctx;
    struct err err;
    if (what != REAP_EXITED)
        return;
    proc_kill_group(probe->watch.pid, SIGKILL);
    probe_take_last(probe);
    if (spawn_result(probe->report, probe->argv[0], &err) == SPAWN_FAILED) {
        str_copy(probe->how, sizeof probe->how, err.text);
    } else {
        probe->status = status;
        if (!probe->how[0])
            sigtext_of_status(status, probe->how, sizeof probe->how);
    }
    probe_close(probe);
    probe->on_over(probe->ctx);
}

/* Returns the end that the program writes to; -1: *err. */
static int probe_open_pipe(struct probe *probe, struct err *err)
{
    int ends[2];
    if (!fd_pipe(ends, 0, err))
        return -1;
    FD_CLEANUP int writer = ends[1];
    probe->out = ends[0];
    watch_init(&probe->out_watch, probe->base, probe_on_output, probe);
    return watch_fd(&probe->out_watch, probe->out, err) ? fd_take(&writer) : -1;
}

bool probe_start(struct probe *probe)
{
    struct err err;
    probe->report = probe->out = probe->status = -1;
    probe->how[0] = '\0';
    probe->dropped = 0;
    buf_free(&probe->text);
    buf_init(&probe->text, probe->max);
    bool is_apart = probe->max > 0;
    FD_CLEANUP int writer = is_apart ? probe_open_pipe(probe, &err) : -1;
    struct spawn_request request = {.argv = probe->argv,
                                    .env = probe->env ? probe->env : environ,
                                    .own_pid = probe->own_pid,
                                    .closed = probe->closed,
                                    .tty = -1,
                                    .is_apart = is_apart};
    if (is_apart) {
        request.streams[0] = SPAWN_NULL;
        request.streams[1] = writer;
        request.streams[2] = probe->with_errors ? writer : 0;
    }
    probe->watch = (struct reap_watch){
        .kind = is_apart ? REAP_SOURCE : REAP_CHILD, .fn = probe_on_change, .ctx = probe};
    probe->watch.pid = is_apart && writer < 0 ? 0 : spawn_start(&request, &probe->report, &err);
    if (probe->watch.pid) {
        reap_watch(probe->reap, &probe->watch);
        return true;
    }
    str_fit(probe->how, sizeof probe->how, err.text);
    probe_close(probe);
    return false;
}

bool probe_runs(const struct probe *probe)
{
    return probe->watch.pid;
}

void probe_kill(struct probe *probe, const char *why)
{
    if (!probe_runs(probe))
        return;
    snprintf(probe->how, sizeof probe->how, "killed, since %s", why);
    proc_kill_group(probe->watch.pid, SIGKILL);
}

void probe_free(struct probe *probe)
{
    if (probe_runs(probe)) {
        proc_kill_group(probe->watch.pid, SIGKILL);
        reap_forget(probe->reap, &probe->watch);
        probe_close(probe);
    }
    buf_free(&probe->text);
}
