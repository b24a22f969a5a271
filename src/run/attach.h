/* SPDX-License-Identifier: Apache-2.0
 *
 * attach: attached training processes, between link/procs and the core: what they say becomes
 * events, the core's actions upon them go out; and what they saved where is noted in the record on
 * the way. Owns the socket and the pages: attach_free(). Main thread.
 */
#ifndef PCHRUN_RUN_ATTACH_H
#define PCHRUN_RUN_ATTACH_H

#include "config/config.h"
#include "os/helper.h"
#include "run/loop.h"
#include "run/record.h"

struct procs;
struct logs;

struct attach {
    struct procs *procs;
    struct loop *loop;
    struct record *record;
    const struct logs *logs; /* that know when the commands printed something */
    struct helpers sweepers;
    void (*on_death)(void *ctx, int pid, int status); /* as of wait(2), which tells it later */
    void *ctx;
    bool has_warned;   /* that there is no record */
    bool has_attached; /* somebody has */
    struct {           /* of a rank that cannot resume; told to the core when it listens again */
        struct watch clock;
        int slot;
        struct procmsg msg;
    } lost;
};

/* Makes the socket. Before the commands are started, which are told its path. */
MUST_CHECK bool attach_open(struct attach *attach, const struct config *config, struct loop *loop,
                            struct reap *reap, struct err *err);
void attach_free(struct attach *attach);
/* For PCH_SOCKET. */
const char *attach_socket(const struct attach *attach);
/* The directory that it is in. */
const char *attach_run_dir(const struct attach *attach);
/* Before commands are started again: makes it anew if somebody has removed it, or they would train
 * without us. */
MUST_CHECK bool attach_mend(struct attach *attach, struct err *err);
/* Steps and phases of the attached processes, as they are now. */
void attach_look(const struct attach *attach, uint64_t steps[CORE_SLOTS_MAX],
                 uint8_t phases[CORE_SLOTS_MAX]);
/* Some time after the commands were started: removes what dead supervisors left. */
void attach_clean(struct attach *attach);

/* Hands the core what the processes have said by now. */
void attach_hear(struct attach *attach);

void attach_gate(struct attach *attach, const struct action *action);
void attach_read_steps(struct attach *attach);
void attach_send(struct attach *attach, const struct action *action);
void attach_close(struct attach *attach, const struct action *action);
void attach_notice(struct attach *attach, const struct action *action);
void attach_committed(struct attach *attach);

#endif
