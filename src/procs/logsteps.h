/* SPDX-License-Identifier: Apache-2.0
 *
 * logsteps: the steps that commands print (watchdog.log), for programs that do not attach.
 *
 * For the core such a command is a process that only counts its steps (PROCMSG_FLAG_COUNTS), from
 * its first line with a step to its end. It has a slot, but no connection. If any process attaches,
 * the lines of this node count no more in this generation. Tells the core of lines that are
 * failures, too (watchdog.log_failure). Cannot fail: without a free slot the command is not
 * watched. Main thread.
 */
#pragma once

#include "logs/logs.h"
#include "loop/loop.h"
#include "procs/procs.h"

struct logsteps {
    struct logs *logs;
    struct loop *loop;
    struct procs *procs;
    struct {
        int pid; /* 0: it does not run */
        bool is_counting, has_failed;
        int slot; /* while it counts */
    } commands[CORE_CHILDREN_MAX];
    bool has_begun;   /* in this generation a command has printed a step */
    bool has_yielded; /* in this generation a process has attached */
    bool has_told;
};

/* The commands of a generation are being started; then each of them. */
void logsteps_begin(struct logsteps *steps);
void logsteps_started(struct logsteps *steps, int index, int pid);
/* Call before EV_CHILD_EXITED. */
void logsteps_ended(struct logsteps *steps, int index);
/* The lines may say something new. True: a command has begun to count. */
bool logsteps_look(struct logsteps *steps);
/* A process attaches. Call before EV_PROC_ATTACHED. */
void logsteps_yield(struct logsteps *steps, int pid);
/* Adds the commands' steps to those that procs_look() has read. */
void logsteps_read(const struct logsteps *steps, uint64_t by_slot[CORE_SLOTS_MAX],
                   uint8_t phases[CORE_SLOTS_MAX]);
