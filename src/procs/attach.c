/* SPDX-License-Identifier: Apache-2.0
 * See attach.h.
 */
#include "procs/attach.h"

#include "base/log.h"
#include "base/str.h"
#include "os/helper.h"

/* --- from the processes --- */

/* The record must know the save before the core does: the core may ask for the record at once. */
static void note_save(struct attach *attach, int slot, const struct procmsg *msg)
{
    struct core_rank_report ranks[CORE_SLOTS_MAX];
    int n = core_ranks(attach->loop->core, ranks, CORE_SLOTS_MAX);
    for (int i = 0; i < n; i++)
        if (ranks[i].slot == slot && !ranks[i].is_counting)
            record_saved(attach->record, ranks[i].rank, msg->step, msg->path);
}

static void on_news(void *ctx, const struct event *event)
{
    struct attach *attach = ctx;
    const struct procmsg *msg = event->proc.msg;
    if (event->type == EV_PROC_ATTACHED) {
        attach->has_attached = true;
        if (attach->on_attach)
            attach->on_attach(attach->ctx, event->proc.pid);
        logsteps_yield(&attach->printed, event->proc.pid);
        attach->has_rank = attach->has_rank || !(msg->flags & PROCMSG_FLAG_COUNTS);
    }
    if (event->type == EV_PROC_MESSAGE && msg->type == PROCMSG_SAVED)
        note_save(attach, event->proc.slot, msg);
    loop_post(attach->loop, event);
}

static void attach_sweep(const void *what)
{
    scratch_sweep(what);
}

/* A child removes the directories, because the file system may hang. */
static void on_sweep(void *ctx, const struct scratch_sweep *what)
{
    struct attach *attach = ctx;
    struct err err;
    if (!helper_start(attach->reap, attach_sweep, what, &err))
        log_warn("scratch", "cannot remove the scratch directories in '%s': %s", what->dir,
                 err.text);
}

static void on_found(void *ctx)
{
    struct attach *attach = ctx;
    if (logsteps_look(&attach->printed))
        attach_read_steps(attach);
}

/* --- start and end --- */

bool attach_open(struct attach *attach, const struct config *config, struct loop *loop,
                 struct reap *reap, struct err *err)
{
    struct procs_calls calls = {.news = on_news,
                                .sweep = on_sweep,
                                .ctx = attach,
                                .died = attach->on_death,
                                .died_ctx = attach->ctx};
    attach->loop = loop;
    attach->reap = reap;
    attach->procs = procs_new(loop->base, config, &calls, err);
    attach->printed = (struct logsteps){.logs = attach->logs, .loop = loop, .procs = attach->procs};
    attach->logs->on_found = on_found;
    attach->logs->ctx = attach;
    return attach->procs != NULL;
}

void attach_free(struct attach *attach)
{
    procs_free(attach->procs); /* may start a last sweep */
    attach->procs = NULL;
}

/* --- to the processes --- */

void attach_look(const struct attach *attach, uint64_t steps[CORE_SLOTS_MAX],
                 uint8_t phases[CORE_SLOTS_MAX], struct page_own own[CORE_SLOTS_MAX])
{
    procs_look(attach->procs, steps, phases, own);
    logsteps_read(&attach->printed, steps, phases);
}

void attach_read_steps(struct attach *attach)
{
    static uint64_t steps[CORE_SLOTS_MAX]; /* static, because the queued event points to it */
    static uint8_t phases[CORE_SLOTS_MAX];
    static struct page_own own[CORE_SLOTS_MAX];
    attach_look(attach, steps, phases, own);
    loop_post(attach->loop, &(struct event){.type = EV_STEPS,
                                            .steps = {.by_slot = steps,
                                                      .phase_by_slot = phases,
                                                      .own_by_slot = own,
                                                      .output_at = logs_last_at(attach->logs)}});
}

/* Adds the path, which only the record knows. Checks the rank here, because a launcher's ranks are
 * known only when they attach. A rank without its checkpoint gets no WELCOME and cannot train. */
static void attach_send_welcome(struct attach *attach, int slot, const struct procmsg *msg)
{
    static struct procmsg copy;
    struct err err;
    copy = *msg;
    attach->record->world = msg->world_size;
    if (msg->step == attach->record->resume_step &&
        !record_check_rank(attach->record, msg->rank, &err)) {
        loop_post(attach->loop,
                  &(struct event){.type = EV_PROC_LOST, .proc = {.slot = slot, .why = err.text}});
        return;
    }
    const char *path = record_path(attach->record, msg->rank, msg->step);
    if (!str_copy(copy.path, sizeof copy.path, path))
        copy.path[0] = '\0';
    procs_send(attach->procs, slot, &copy);
}

void attach_send(struct attach *attach, const struct action *action)
{
    if (action->proc.msg->type == PROCMSG_WELCOME)
        attach_send_welcome(attach, action->proc.slot, action->proc.msg);
    else
        procs_send(attach->procs, action->proc.slot, action->proc.msg);
}
