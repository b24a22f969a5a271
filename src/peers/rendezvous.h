/* SPDX-License-Identifier: Apache-2.0
 *
 * rendezvous: where the commands of all nodes find each other: MASTER_ADDR and MASTER_PORT.
 *
 * The address is that of node 0 in the configuration. Node 0 picks a free port for each generation,
 * and tells it to all nodes at the start. So two jobs on one machine, or two generations of a job,
 * do not meet by accident. The user's own variables are kept. Main thread.
 */
#pragma once

#include "config/config.h"

#include <stddef.h>
#include <stdint.h>

/* The ports that node 0 has picked, as bits. Zeroed at first. */
struct rendezvous {
    uint8_t picked[(UINT16_MAX + 1) / 8];
};

/* On node 0: the user's MASTER_PORT, or a port that is now free on all addresses. 0: none is free,
 * the user's value is no port, or there is no -n. Nothing holds the port, so that the commands can
 * bind it; the kernel gives it only to programs that also ask for any free port. An earlier port
 * comes again only if hardly any other is free. */
uint16_t rendezvous_pick(struct rendezvous *rendezvous, const struct config *config);

/* The values for the commands. NULL or 0: they get the user's own variable, or there is no port.
 * `address` is room for the result. */
const char *rendezvous_address(const struct config *config, uint16_t port, char *address,
                               size_t size);
uint16_t rendezvous_port(uint16_t port);
