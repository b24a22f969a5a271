/* SPDX-License-Identifier: Apache-2.0
 *
 * out: how the parts of the core emit actions. Messages between node 0 and its chief do not leave
 * the core: they wait in a short queue that core_handle() empties.
 */
#pragma once

#include "base/err.h"
#include "base/log.h"
#include "core/common/action.h"
#include "core/common/event.h"

enum { OUT_QUEUE = 8 };

struct out {
    const struct core_params *params;
    core_act_fn *act;
    void *shell;
    int64_t now, wall;               /* the times of the present event */
    struct peermsg queue[OUT_QUEUE]; /* CONN_SELF, oldest first */
    int nqueue;
    int broken; /* the promise that was first found broken; 0: none */
};

/* Asserts promise `number` of DESIGN.md. False: pchrun has broken it, and the caller must not go
 * on. The log names the promise, and every test ends; in a run the job fails, without another
 * commit.
 */
#define PROMISE(number, out, holds) out_promise(out, number, holds, #holds)
bool out_promise(struct out *out, int number, bool holds, const char *what);

void out_act(struct out *out, const struct action *action);
void out_simple(struct out *out, enum action_type type);
void out_log(struct out *out, enum log_level level, const char *topic, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
void out_send(struct out *out, int conn, const struct peermsg *msg);
/* Sends a HELLO, and fills in what is the same in each of this supervisor's. */
void out_hello(struct out *out, int conn, struct peermsg *msg);
/* Takes the oldest message of the queue; false if there is none. */
bool out_next(struct out *out, struct peermsg *ret);
void out_proc(struct out *out, int slot, const struct procmsg *msg);
/* Lets the process go. */
void out_close_proc(struct out *out, int slot);
void out_signal(struct out *out, int number, enum signal_target target);
uint16_t out_port(struct out *out);
