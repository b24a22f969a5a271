/* SPDX-License-Identifier: Apache-2.0
 *
 * meet: where the commands of all nodes find each other: MASTER_ADDR and MASTER_PORT.
 *
 * The address is that of node 0, as the configuration has it. Its port is one that the kernel says
 * is free there; it is told to all nodes with the start of each generation, so that two jobs on one
 * machine, and two generations of one, do not meet by accident. What the user has set is left
 * alone. Owns nothing. Main thread.
 */
#ifndef PCHRUN_RUN_MEET_H
#define PCHRUN_RUN_MEET_H

#include "config/config.h"

#include <stddef.h>
#include <stdint.h>

/* On node 0: the user's MASTER_PORT, or a port that is free on all addresses now. 0: neither is to
 * be had, the user's is none, or nobody asks for it, since there is no -n. Nothing holds it, so
 * that any program can bind it; the kernel gives such ports to nobody who does not ask for one in
 * the same way. */
uint16_t meet_pick(const struct config *config);

/* The values for the commands; NULL: it is the user's own variable that they get, or there is no
 * port. `address` is room for the result. */
const char *meet_address(const struct config *config, uint16_t port, char *address, size_t size);
uint16_t meet_port(uint16_t port);

#endif
