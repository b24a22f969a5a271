/* SPDX-License-Identifier: Apache-2.0
 * See world.h.
 */
#include "world.h"

#include "base/fd.h"
#include "base/str.h"

#include <event2/event.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { DEADLINE_S = UNIT_DEADLINE_MS / 1000 };

struct client {
    struct world *world;
    pid_t pid;
    int in, out, errors;
    char said[16384], errors_said[4096], line[4096];
    size_t nsaid;
    bool is_out_closed;
    struct event *on_out;
};

static void record(struct world *world, const struct event *event)
{
    cr_assert_lt(world->ncalls, (int)ARRAY_LEN(world->calls));
    struct call *call = &world->calls[world->ncalls++];
    *call = (struct call){
        .kind = (enum call_kind)event->type, .slot = event->proc.slot, .pid = event->proc.pid};
    if (event->proc.msg)
        call->msg = *event->proc.msg;
}

static void on_message(struct world *world, const struct event *event)
{
    int slot = event->proc.slot;
    const struct procmsg *msg = event->proc.msg;
    struct procmsg yes = {.type = PROCMSG_ANSWER, .step = msg->step, .action = PROC_CONTINUE};
    if (!world->is_storm) {
        record(world, event);
        if (msg->type == PROCMSG_CLOSE)
            procs_close(world->procs, slot);
        return;
    }
    world->counts[msg->type]++;
    if (msg->type == PROCMSG_SAVED && msg->wants_answer)
        procs_send(world->procs, slot, &yes);
}

static void on_news(void *ctx, const struct event *event)
{
    struct world *world = ctx;
    if (event->type == EV_PROC_UNATTACHED)
        world->nunattached++;
    else if (event->type == EV_PROC_MESSAGE)
        on_message(world, event);
    else
        record(world, event);
    if (event->type == EV_PROC_ATTACHED && !world->is_silent)
        procs_send(world->procs, event->proc.slot, &world->welcome);
}

/* The death is reported at any time before the process is gone. */
static void on_died(void *ctx, int pid, int status)
{
    struct world *world = ctx;
    world->ndied++;
    world->died_pid = pid;
    world->died_status = status;
}

static void on_sweep(void *ctx, const struct scratch_sweep *what)
{
    scratch_sweep(what);
}

void world_init(struct world *world)
{
    struct err err;
    *world = (struct world){.welcome = {.type = PROCMSG_WELCOME, .world_size = 1}};
    struct procs_calls calls = {
        .news = on_news, .sweep = on_sweep, .ctx = world, .died = on_died, .died_ctx = world};
    str_copy(world->dir, sizeof world->dir, "/tmp/pchtest.XXXXXX");
    cr_assert(mkdtemp(world->dir));
    struct config config = {.run_dir = world->dir, .cluster = {.node_rank = 3}};
    world->base = event_base_new();
    world->procs = procs_new(world->base, &config, &calls, &err);
    cr_assert(world->procs, "%s", err.text);
}

void world_free(struct world *world)
{
    for (size_t i = 0; i < ARRAY_LEN(world->clients); i++) {
        struct client *client = world->clients[i];
        cr_expect_null(client, "process %d is left", client ? client->pid : 0);
        if (client) {
            kill(client->pid, SIGKILL);
            client_end(client);
        }
    }
    procs_free(world->procs);
    event_base_free(world->base);
    /* Fails if procs left anything in it. */
    cr_expect_eq(rmdir(world->dir), 0, "%s is not empty", world->dir);
}

static void on_deadline(evutil_socket_t fd, short what, void *arg)
{
    *(bool *)arg = true;
}

void world_wait(struct world *world, bool (*is_true)(void *arg), void *arg, const char *what)
{
    bool is_late = false;
    struct event *deadline = evtimer_new(world->base, on_deadline, &is_late);
    evtimer_add(deadline, (&(struct timeval){.tv_sec = DEADLINE_S}));
    while (!is_true(arg) && !is_late)
        event_base_loop(world->base, EVLOOP_ONCE);
    event_free(deadline);
    cr_assert(!is_late, "waited %d s for %s", DEADLINE_S, what);
}

static bool has_call(void *arg)
{
    struct world *world = arg;
    return world->next < world->ncalls;
}

const struct call *world_expect(struct world *world, enum call_kind kind, unsigned type)
{
    const char *name = kind == CALL_ATTACHED ? "ATTACHED"
                       : kind == CALL_GONE   ? "GONE"
                                             : procmsg_name(type);
    world_wait(world, has_call, world, name);
    const struct call *call = &world->calls[world->next++];
    cr_assert_eq(call->kind, kind, "kind %d (%s) came instead of %s", call->kind,
                 procmsg_name(call->msg.type), name);
    if (kind == CALL_MESSAGE)
        cr_assert_eq(call->msg.type, type, "%s came instead of %s", procmsg_name(call->msg.type),
                     name);
    return call;
}

bool world_is_quiet(const struct world *world)
{
    return world->next == world->ncalls;
}

/* Clients */

static void on_output(evutil_socket_t fd, short what, void *arg)
{
    struct client *client = arg;
    size_t left = sizeof client->said - client->nsaid - 1;
    ssize_t n = read(fd, client->said + client->nsaid, left);
    cr_assert_gt(left, 0);
    if (n > 0) {
        client->nsaid += (size_t)n;
        client->said[client->nsaid] = '\0';
    } else {
        client->is_out_closed = true;
        event_del(client->on_out);
    }
}

static struct client **place_of(struct world *world, const struct client *client)
{
    size_t i = 0;
    while (i < ARRAY_LEN(world->clients) && world->clients[i] != client)
        i++;
    cr_assert_lt(i, ARRAY_LEN(world->clients));
    return &world->clients[i];
}

static void add_env(char ***env, const char *text)
{
    *(*env)++ = (char *)(uintptr_t)text;
}

struct client *client_start(struct world *world, const char *const *argv, const char *const *env)
{
    static const char *const usual[] = {PCHCLIENT, NULL};
    char socket[256] = "PCH_SOCKET=", *all[64], **next = all;
    struct client *client = calloc(1, sizeof *client);
    int in[2], out[2], errors[2];
    cr_assert(client && pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0 &&
              pipe2(errors, O_CLOEXEC) == 0);
    str_addf(socket, sizeof socket, "%s", procs_run_dir(world->procs)->addr.sun_path);
    add_env(&next, socket);
    add_env(&next, "PATH=/usr/bin:/bin");
    while (env && *env)
        add_env(&next, *env++);
    *next = NULL;
    argv = argv ? argv : usual;
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, in[0], 0);
    posix_spawn_file_actions_adddup2(&files, out[1], 1);
    posix_spawn_file_actions_adddup2(&files, errors[1], 2);
    int rc = posix_spawn(&client->pid, argv[0], &files, NULL, (char **)(uintptr_t)argv, all);
    cr_assert_eq(rc, 0, "cannot start %s: %s", argv[0], strerror(rc));
    posix_spawn_file_actions_destroy(&files);
    close(in[0]);
    close(out[1]);
    close(errors[1]);
    client->world = world;
    client->in = in[1];
    client->out = out[0];
    client->errors = errors[0];
    cr_assert_eq(fcntl(client->errors, F_SETFL, O_NONBLOCK), 0);
    client->on_out = event_new(world->base, client->out, EV_READ | EV_PERSIST, on_output, client);
    event_add(client->on_out, NULL);
    *place_of(world, NULL) = client;
    return client;
}

int client_pid(const struct client *client)
{
    return client->pid;
}

void client_say(struct client *client, const char *fmt, ...)
{
    char line[8192];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(line, sizeof line - 1, fmt, ap);
    va_end(ap);
    line[n++] = '\n';
    cr_assert(fd_write_all(client->in, line, (size_t)n));
}

static bool has_line(void *arg)
{
    struct client *client = arg;
    return strchr(client->said, '\n') || client->is_out_closed;
}

const char *client_line(struct client *client)
{
    world_wait(client->world, has_line, client, "a line of a client");
    char *end = strchr(client->said, '\n');
    cr_assert(end, "the client ended without a message: %s", client_stderr(client));
    *end = '\0';
    str_copy(client->line, sizeof client->line, client->said);
    client->nsaid -= (size_t)(end + 1 - client->said);
    memmove(client->said, end + 1, client->nsaid + 1);
    return client->line;
}

void client_expect(struct client *client, const char *fmt, ...)
{
    char wanted[4096];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(wanted, sizeof wanted, fmt, ap);
    va_end(ap);
    cr_assert_str_eq(client_line(client), wanted);
}

void client_ask(struct client *client, const char *command, const char *answer)
{
    client_say(client, "%s", command);
    client_expect(client, "%s", answer);
}

void client_step(struct client *client, int step, const char *then)
{
    client_say(client, "step %d", step);
    client_expect(client, "step %d %s", step, then);
}

void client_reach(struct client *client, int step)
{
    client_say(client, "step %d", step);
    world_expect(client->world, CALL_MESSAGE, PROCMSG_SERVING);
    client_expect(client, "step %d save", step);
}

const struct call *client_open(struct client *client, const char *command)
{
    client_ask(client, command, "open supervised=1 same=1 resume=0 path=-");
    return world_expect(client->world, CALL_ATTACHED, 0);
}

const char *client_stderr(struct client *client)
{
    size_t used = strlen(client->errors_said);
    ssize_t n =
        read(client->errors, client->errors_said + used, sizeof client->errors_said - used - 1);
    if (n > 0)
        client->errors_said[used + (size_t)n] = '\0';
    return client->errors_said;
}

static bool is_ended(void *arg)
{
    return ((struct client *)arg)->is_out_closed;
}

int client_end(struct client *client)
{
    int status = -1;
    close(client->in);
    world_wait(client->world, is_ended, client, "the end of a client");
    cr_assert_eq(waitpid(client->pid, &status, 0), client->pid);
    event_free(client->on_out);
    close(client->out);
    close(client->errors);
    *place_of(client->world, client) = NULL;
    free(client);
    return status;
}

struct client *client_attached(struct world *world)
{
    struct client *client = client_start(world, NULL, NULL);
    client_open(client, "open rank=0 world=1");
    return client;
}

void client_end_well(struct client *client)
{
    struct world *world = client->world;
    cr_expect_str_eq(client_stderr(client), "");
    cr_expect_eq(client_end(client), 0);
    world_expect(world, CALL_MESSAGE, PROCMSG_CLOSE);
    cr_expect(world_is_quiet(world));
}
