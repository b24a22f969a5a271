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

void node_begin_generation(struct node *node)
{
    node->gen.leave_at = node->gen.end_deadline = CLOCK_NEVER;
    ranks_init(&node->gen.ranks, node->params->expected_procs);
    round_init(&node->gen.round, &node->gen.ranks, node->out);
}

void node_renew(struct node *node)
{
    memset(&node->gen, 0, sizeof node->gen);
    node_begin_generation(node);
    open_gate(node);
    node->generation = node->uplink.generation;
    node_enter(node, NODE_WAITING);
    node_tell_final(node); /* the chief has forgotten it with the old generation */
}
