/* SPDX-License-Identifier: Apache-2.0
 *
 * discovered: the option cluster.discovery: fills in settings of the nodes that the user has not
 * set (discover/discover.h). Main thread.
 */
#ifndef PCHRUN_CONFIG_DISCOVERED_H
#define PCHRUN_CONFIG_DISCOVERED_H

#include "config/config.h"
#include "json/writer.h"

/* Call after flags, environment and file. Does nothing if cluster.discovery is none, or if the
 * nodes and this node's rank are given. If the user did not ask for discovery, it also does nothing
 * if the nodes are given, or below another pchrun. Then an uncertain sign of several nodes only
 * becomes a warning (config->found). */
MUST_CHECK bool discovered_apply(struct config *config, char **env, struct err *err);

/* The member "$cluster": the result and its variables; without discovery, the result that it would
 * have. */
void discovered_show(const struct config *config, char **env, struct writer *w);

#endif
