/* SPDX-License-Identifier: Apache-2.0
 * A node between two generations. See node_parts.h.
 *
 * When the chief restarts the job, the node stays in NODE_LEAVING after the end of its processes.
 * The first order of the next generation finds it in that state.
 */
#include "core/node/node_parts.h"

#include "base/clock.h"

#include <string.h>

/* A new process begins with an open gate. */
static void open_gate(struct node *node)
{
    out_act(node->out,
            &(struct action){.type = ACT_GATE, .gate = gate_make(GATE_OPEN, 0, false, false)});
}

void node_renew(struct node *node)
{
    memset(node->children, 0, sizeof node->children);
    node->nstarting = node->nrunning = node->nended = 0;
    node->has_signalled_tree = node->has_killed = node->has_given_up = false;
    node->to_forward = 0;
    node->settle_at = 0;
    node->end_wants_steps = node->fault_wants_steps = false;
    node->notice_wants_steps = false;
    memset(&node->ranks, 0, sizeof node->ranks);
    ranks_init(&node->ranks, node->params->expected_procs);
    round_init(&node->round, &node->ranks, node->out);
    open_gate(node);
    node->has_roster = false;
    node->fault = node->doubt = (struct node_fault){0};
    node->cause = (struct peer_cause){0};
    node->is_ordered = false;
    node->outcome = OUTCOME_UNKNOWN;
    node->exit_code = 0;
    node->why[0] = '\0';
    node->end_deadline = node->leave_at = CLOCK_NEVER;
    node->restarts = false;
    node->generation = node->uplink.generation;
    node_enter(node, NODE_WAITING);
    node_tell_final(node); /* the chief has forgotten it with the old generation */
}
