/* SPDX-License-Identifier: Apache-2.0
 * See logsteps.h.
 */
#include "procs/logsteps.h"

#include "base/clock.h"
#include "base/log.h"

#include <inttypes.h>

#define TOPIC "steps"

/* The wait for a command's last lines, which may still be in the pipe. */
#define LAST_LINES_NS (100 * NS_PER_MS)

static void logsteps_post(const struct logsteps *steps, int index, enum event_type type,
                          const struct procmsg *msg)
{
    loop_post(steps->loop, &(struct event){.type = type,
                                           .proc = {.slot = steps->commands[index].slot,
                                                    .pid = steps->commands[index].pid,
                                                    .msg = msg}});
}

/* The steps are read after this, so that the first line moves the command out of its start phase.
 */
static bool begin_to_count(struct logsteps *steps, int index, uint64_t step)
{
    const struct core_params *params = steps->logs->params;
    bool has_rank = steps->logs->config->procs.count_is_set;
    int slot = procs_reserve(steps->procs);
    if (slot < 0)
        return false;
    steps->commands[index].slot = slot;
    steps->commands[index].is_counting = true;
    log_line(steps->has_begun ? LOG_DEBUG : LOG_INFO, TOPIC,
             "process %d has printed its first step, %" PRIu64 " (watchdog.log)",
             steps->commands[index].pid, step);
    steps->has_begun = true;
    struct procmsg msg = {.type = PROCMSG_ATTACH,
                          .flags = PROCMSG_FLAG_COUNTS,
                          .rank = has_rank ? params->node_rank * params->children + index
                                           : PROCMSG_UNKNOWN,
                          .world_size = PROCMSG_UNKNOWN,
                          .local_rank = has_rank ? index : PROCMSG_UNKNOWN,
                          .local_world_size = PROCMSG_UNKNOWN};
    logsteps_post(steps, index, EV_PROC_ATTACHED, &msg);
    return true;
}

/* The core answers with ACT_PROC_CLOSE, which frees the slot. */
static void stop_counting(struct logsteps *steps, int index)
{
    if (!steps->commands[index].is_counting)
        return;
    struct procmsg msg = {.type = PROCMSG_CLOSE, .step = logs_found(steps->logs, index, 0).step};
    steps->commands[index].is_counting = false;
    logsteps_post(steps, index, EV_PROC_MESSAGE, &msg);
}

static bool look_at_command(struct logsteps *steps, int index, int64_t wait_ns)
{
    struct logs_found found = logs_found(steps->logs, index, wait_ns);
    bool begins = found.has_step && !steps->has_yielded && !steps->commands[index].is_counting;
    if (found.failure && !steps->commands[index].has_failed) {
        steps->commands[index].has_failed = true;
        loop_post(steps->loop, &(struct event){.type = EV_CHILD_BAD,
                                               .child = {.index = index, .line = found.failure}});
    }
    return begins && begin_to_count(steps, index, found.step);
}

bool logsteps_look(struct logsteps *steps)
{
    bool has_begun = false;
    for (int i = 0; i < steps->logs->params->children; i++)
        if (steps->commands[i].pid)
            has_begun |= look_at_command(steps, i, 0);
    return has_begun;
}

void logsteps_begin(struct logsteps *steps)
{
    for (int i = 0; i < steps->logs->params->children; i++) {
        if (steps->commands[i].is_counting)
            procs_close(steps->procs, steps->commands[i].slot);
        steps->commands[i].pid = 0;
        steps->commands[i].is_counting = steps->commands[i].has_failed = false;
    }
    steps->has_yielded = steps->has_begun = false;
}

void logsteps_started(struct logsteps *steps, int index, int pid)
{
    steps->commands[index].pid = pid;
}

void logsteps_ended(struct logsteps *steps, int index)
{
    if (!steps->commands[index].pid)
        return;
    look_at_command(steps, index, LAST_LINES_NS);
    stop_counting(steps, index);
    steps->commands[index].pid = 0;
}

void logsteps_yield(struct logsteps *steps, int pid)
{
    if (!steps->has_told && steps->logs->config->watchdog.log)
        log_notice(TOPIC,
                   "process %d has attached, so its steps count, and not those that commands print "
                   "(watchdog.log)",
                   pid);
    steps->has_told = steps->has_yielded = true;
    for (int i = 0; i < steps->logs->params->children; i++)
        stop_counting(steps, i);
}

void logsteps_read(const struct logsteps *steps, uint64_t by_slot[CORE_SLOTS_MAX],
                   uint8_t phases[CORE_SLOTS_MAX])
{
    for (int i = 0; i < steps->logs->params->children; i++) {
        if (!steps->commands[i].is_counting)
            continue;
        by_slot[steps->commands[i].slot] = logs_found(steps->logs, i, 0).step;
        phases[steps->commands[i].slot] = PAGE_TRAIN;
    }
}
