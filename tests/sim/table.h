/* SPDX-License-Identifier: Apache-2.0
 *
 * table: what an agreement, a death and the join cost in jobs of 8 to 10,000 nodes, in the chief.
 */
#pragma once

#include <stdint.h>

/* Prints it: for each size up to `most` nodes, in virtual time, how long all nodes take to join;
 * from a notice to the last node that knows the decision; from a process's death to the last node
 * that stops its own. Then of the chief in that agreement: events handled, messages and bytes sent,
 * real time of the processor; the same for one heartbeat while nothing happens; its memory, and
 * that of all nodes together. Returns an exit code. */
int table_show(uint64_t most);
