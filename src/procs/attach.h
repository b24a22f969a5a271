/* SPDX-License-Identifier: Apache-2.0
 *
 * attach: connects the attached training processes (procs/procs) with the core. Their messages
 * become events; the core's actions become messages. Notes in the record what each rank has saved,
 * and where. Owns the socket and the pages: attach_free(). Main thread.
 */
#pragma once

#include "config/config.h"
#include "loop/loop.h"
#include "procs/logsteps.h"
#include "procs/procs.h"
#include "procs/steprate.h"
#include "record/record.h"

struct attach {
    struct procs *procs; /* other rooms use it, too */
    struct loop *loop;
    struct record *record;
    struct logs *logs; /* know what the commands printed, and when */
    struct reap *reap;
    void (*on_attach)(void *ctx, int pid);
    deathwatch_fn *on_death;
    void *ctx;
    bool has_attached; /* some process has attached */
    bool has_rank;     /* a process has attached that takes part in saves */
    struct steprate steprate;
    struct logsteps printed; /* the steps that commands print */
};

/* Makes the socket. Call before the commands are started: their environment has its path. */
MUST_CHECK bool attach_open(struct attach *attach, const struct config *config, struct loop *loop,
                            struct reap *reap, struct err *err);
void attach_free(struct attach *attach);

/* The step, phase and time of each slot, as procs_look(). */
void attach_look(const struct attach *attach, uint64_t steps[CORE_SLOTS_MAX],
                 uint8_t phases[CORE_SLOTS_MAX], struct page_own own[CORE_SLOTS_MAX]);
/* ACT_READ_STEPS. */
void attach_read_steps(struct attach *attach);
/* ACT_PROC_SEND. A WELCOME gets the path to resume from. */
void attach_send(struct attach *attach, const struct action *action);
