/* SPDX-License-Identifier: Apache-2.0
 * See sweep.h.
 */
#include "commands/sweep.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"

#include <string.h>

/* How often it checks whether the processes have ended. */
#define LOOK_NS (2 * NS_PER_MS)
/* A process that hangs in the kernel may block the reader of its environment for ever. */
#define SEARCH_WAIT_NS (5 * NS_PER_S)

static void tell_swept(const struct sweep *sweep, const struct cgroup_left *groups, int64_t took_ns)
{
    char names[256];
    int took_ms = (int)(took_ns / NS_PER_MS);
    if (groups->groups || sweep->left.n)
        log_warn("start",
                 "killed the processes that a dead pchrun had left behind: %s; after %d ms these "
                 "have not ended: %s%s%s; they may hold memory and ports; the commands start all "
                 "the same",
                 sweep->found.text, took_ms, groups->text,
                 groups->text[0] && sweep->left.n ? ", " : "",
                 leftover_describe(&sweep->left, names, sizeof names));
    else if (sweep->found.text[0])
        log_warn("start",
                 "killed the processes that a dead pchrun had left behind: %s; they ended in %d ms",
                 sweep->found.text, took_ms);
}

/* Adds the processes that the search has killed to those of the groups. */
static void note_found(struct sweep *sweep, const struct cgroup_left *groups)
{
    char names[256];
    sweep->from = clock_now_ns();
    sweep->found = *groups;
    leftover_describe(&sweep->left, names, sizeof names);
    str_addf(sweep->found.text, sizeof sweep->found.text, "%s%s",
             groups->text[0] && names[0] ? ", " : "", names);
}

static void sweep_look(void *ctx)
{
    struct sweep *sweep = ctx;
    struct cgroup_left groups;
    cgroup_sweep(sweep->cgroup, &groups);
    if (!sweep->from)
        note_found(sweep, &groups);
    leftover_settle(&sweep->left);
    int64_t now = clock_now_ns(), took = now - sweep->from;
    if ((groups.groups || sweep->left.n) && took < sweep->kill_wait_ns) {
        watch_at(&sweep->look, now + LOOK_NS);
        return;
    }
    tell_swept(sweep, &groups, took);
    sweep->on_swept(sweep->ctx);
}

static void on_searched(void *ctx, bool is_late)
{
    struct sweep *sweep = ctx;
    if (buf_len(&sweep->search.text) == sizeof sweep->left)
        memcpy(&sweep->left, buf_bytes(&sweep->search.text), sizeof sweep->left);
    else
        log_warn("start",
                 "cannot tell whether a dead pchrun has left processes: the search in /proc %s; if "
                 "memory or a device is in use, look for them with ps",
                 is_late ? "took too long, so a process there may hang" : "has failed");
    sweep_look(sweep);
}

void sweep_begin(struct sweep *sweep)
{
    struct err err;
    watch_init(&sweep->look, sweep->base, sweep_look, sweep);
    sweep->search.fn = leftover_kill;
    sweep->search.arg = sweep->marks;
    sweep->search.base = sweep->base;
    sweep->search.wait_ns = SEARCH_WAIT_NS;
    sweep->search.max = sizeof sweep->left;
    sweep->search.on_over = on_searched;
    sweep->search.ctx = sweep;
    if (sweep->marks->ours[0] && inquiry_start(&sweep->search, &err))
        return;
    if (sweep->marks->ours[0])
        log_debug("start", "no search for processes of a dead pchrun: %s", err.text);
    sweep_look(sweep);
}

void sweep_free(struct sweep *sweep)
{
    watch_end(&sweep->look);
    inquiry_free(&sweep->search);
}
