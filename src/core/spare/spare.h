/* SPDX-License-Identifier: Apache-2.0
 *
 * spare: a supervisor that has not begun (cluster.spares). It trains nothing, holds no lock and
 * costs one connection to node 0, until node 0 calls it to the place of another node.
 *
 * Pure, in the words of the core: events in, actions out; no I/O, no clock, and it allocates only
 * in spare_new(). It takes EV_START, EV_TIMER, EV_SIGNAL, EV_NOTICE, EV_STOP_ASKED, EV_CHIEF_UP,
 * EV_PEER_DOWN and EV_PEER_MESSAGE, and ignores all other events. It emits ACT_CONNECT, ACT_SEND,
 * ACT_CLOSE, ACT_LOG and ACT_STATE, and at its end either ACT_TAKE or ACT_EXIT.
 *
 * After ACT_TAKE the shell frees it, and begins a core with node_rank `place` and a new
 * incarnation. If node 0 answers the HELLO of a core with PEERMSG_STANDBY, the shell closes the
 * connection, frees the core, and begins a new spare, with a new incarnation, too. The core must
 * not have started anything by then.
 *
 * It stands by for as long as node 0 answers. Every other wait has a deadline: for node 0 at first
 * join_timeout, for an answer heartbeat_timeout, for another connection reconnect.
 */
#pragma once

#include "core/common/action.h"
#include "core/common/event.h"
#include "core/common/params.h"

struct spare;

/* params->node_rank is its number: nnodes or more, or that of a node whose place another supervisor
 * has taken. NULL only when memory is short. The caller frees it with spare_free(). */
struct spare *spare_new(const struct core_params *params, core_act_fn *act, void *shell);
void spare_free(struct spare *spare);
void spare_handle(struct spare *spare, const struct event *event);
/* When it wants EV_TIMER next; CLOCK_NEVER: never. */
int64_t spare_wake_at(const struct spare *spare);

/* A snapshot for the status. */
struct spare_report {
    bool stands_by;       /* node 0 has admitted it */
    bool is_over;         /* it has ended: */
    enum outcome outcome; /* so */
    int exit_code;
    char why[PEERMSG_WHY_SIZE];
};
void spare_report(const struct spare *spare, struct spare_report *ret);
