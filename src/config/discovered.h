/* SPDX-License-Identifier: Apache-2.0
 *
 * discovered: what the option cluster.discovery adds to the configuration: of the nodes, what
 * nobody has set (discover/discover.h). Main thread.
 */
#ifndef PCHRUN_CONFIG_DISCOVERED_H
#define PCHRUN_CONFIG_DISCOVERED_H

#include "config/config.h"
#include "json/writer.h"

/* After flags, environment and file. Looks at nothing where cluster.discovery is none, or the nodes
 * and this node's rank are given. Where nobody has asked for it, neither where the nodes are given,
 * nor inside of another pchrun; and what is no certain sign of several nodes becomes a warning
 * (config->found). */
MUST_CHECK bool discovered_apply(struct config *config, char **env, struct err *err);

/* The member "$cluster": what was found and by which variables; and what would be found, where
 * nobody has asked for it. */
void discovered_show(const struct config *config, char **env, struct writer *w);

#endif
