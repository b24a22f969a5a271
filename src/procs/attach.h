/* SPDX-License-Identifier: Apache-2.0
 *
 * attach: connects the attached training processes (procs/procs) with the core. Their messages
 * become events; the core's actions become messages. Notes in the record what each rank has saved,
 * and where. Owns the socket and the pages: attach_free(). Main thread.
 */
#ifndef PCHRUN_PROCS_ATTACH_H
#define PCHRUN_PROCS_ATTACH_H

#include "config/config.h"
#include "loop/loop.h"
#include "record/record.h"

struct procs;
struct logs;

struct attach {
    struct procs *procs;
    struct loop *loop;
    struct record *record;
    const struct logs *logs; /* know when the commands printed last */
    struct reap *reap;
    void (*on_death)(void *ctx, int pid, int status); /* status as of wait(2), but earlier */
    void *ctx;
    bool has_warned;   /* of the missing record */
    bool has_attached; /* some process has attached */
    struct {           /* a rank that cannot resume; the core hears of it in an event of its own */
        struct watch clock;
        int slot;
        struct procmsg msg;
    } lost;
};

/* Makes the socket. Call before the commands are started: their environment has its path. */
MUST_CHECK bool attach_open(struct attach *attach, const struct config *config, struct loop *loop,
                            struct reap *reap, struct err *err);
void attach_free(struct attach *attach);
/* For PCH_SOCKET. */
const char *attach_socket(const struct attach *attach);
/* The directory of the socket. */
const char *attach_run_dir(const struct attach *attach);
/* Call before the commands are started again. Makes the socket anew if it was removed: else the
 * commands would train without pchrun. */
MUST_CHECK bool attach_mend(struct attach *attach, struct err *err);
/* The current steps and phases of the attached processes. */
void attach_look(const struct attach *attach, uint64_t steps[CORE_SLOTS_MAX],
                 uint8_t phases[CORE_SLOTS_MAX]);
/* Removes what dead supervisors left. Call some time after the commands were started. */
void attach_clean(struct attach *attach);

/* Hands the core every message that the processes have sent so far. */
void attach_hear(struct attach *attach);

void attach_gate(struct attach *attach, const struct action *action);
void attach_read_steps(struct attach *attach);
void attach_send(struct attach *attach, const struct action *action);
void attach_close(struct attach *attach, const struct action *action);
void attach_notice(struct attach *attach, const struct action *action);
void attach_committed(struct attach *attach);

#endif
