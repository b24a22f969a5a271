/* SPDX-License-Identifier: Apache-2.0
 *
 * pchsuper: the smallest supervisor, to be killed. It listens, prints `socket PATH`, welcomes every
 * process (`attached SLOT`, `gone SLOT`), holds all processes at the tentative gate of the step in
 * its first argument, if it has one, and prints `waiting SLOT`. It ends at the end of its standard
 * input.
 */
#include "base/err.h"
#include "procs/procs.h"
#include "wire/gate.h"

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>

static struct procs *procs;

static void on_news(void *ctx, const struct event *event)
{
    int slot = event->proc.slot;
    struct procmsg welcome = {.type = PROCMSG_WELCOME, .rank = slot, .world_size = 1};
    if (event->type == EV_PROC_ATTACHED) {
        procs_send(procs, slot, &welcome);
        printf("attached %d\n", slot);
    } else if (event->type == EV_PROC_MESSAGE && event->proc.msg->type == PROCMSG_WAITING) {
        printf("waiting %d\n", slot);
    } else if (event->type == EV_PROC_UNATTACHED) {
        printf("unattached %s\n", event->proc.why);
    } else if (event->type == EV_PROC_GONE) {
        printf("gone %d\n", slot);
    }
    fflush(stdout);
}

static void on_died(void *ctx, int pid, int status)
{
}

static void on_sweep(void *ctx, const struct scratch_sweep *what)
{
    scratch_sweep(what);
}

static void on_input(evutil_socket_t fd, short what, void *base)
{
    if (getchar() == EOF)
        event_base_loopbreak(base);
}

int main(int argc, char **argv)
{
    struct err err;
    struct procs_calls calls = {.news = on_news, .died = on_died, .sweep = on_sweep};
    struct config config = {.cluster = {.node_rank = 0}};
    struct event_base *base = event_base_new();
    procs = procs_new(base, &config, &calls, &err);
    if (!procs) {
        fprintf(stderr, "pchsuper: %s\n", err.text);
        return 1;
    }
    procs_clean(procs);
    if (argc > 1)
        procs_gate(procs, gate_make(strtoull(argv[1], NULL, 10), 1, false, false));
    printf("socket %s\n", procs_run_dir(procs)->addr.sun_path);
    fflush(stdout);
    struct event *input = event_new(base, 0, EV_READ | EV_PERSIST, on_input, base);
    event_add(input, NULL);
    event_base_dispatch(base);
    event_free(input);
    procs_free(procs);
    event_base_free(base);
    return 0;
}
