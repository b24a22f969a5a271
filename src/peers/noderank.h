/* SPDX-License-Identifier: Apache-2.0
 *
 * noderank: finds this machine in the list of nodes, if no node rank is given.
 *
 * Main thread, before the loop runs.
 */
#pragma once

#include "config/config.h"

/* Sets `config->cluster.node_rank` if the user did not: the one entry of cluster.nodes ("host" or
 * "host:port") that is an address of this machine. Looks up names, several at a time, for some
 * seconds at most. False: no entry is local, or several are; the error lists them. */
MUST_CHECK bool noderank_settle(struct config *config, struct err *err);
