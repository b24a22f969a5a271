/* SPDX-License-Identifier: Apache-2.0
 *
 * params: turns the user's configuration into the core's parameters and into paths. Main thread, at
 * start.
 */
#ifndef PCHRUN_RUN_PARAMS_H
#define PCHRUN_RUN_PARAMS_H

#include "base/clock.h"
#include "config/config.h"
#include "core/params.h"
#include "run/history.h"

/* The longest time that a node's connection may stay closed. */
#define PARAMS_RECONNECT_NS (2 * NS_PER_S)

MUST_CHECK bool params_fill(struct core_params *params, const struct config *config,
                            struct err *err);
/* What earlier attempts left: the step to resume from, the counts, and the time of a save. */
void params_of_history(struct core_params *params, const struct history *history);
/* The user's state_dir, or <checkpoint.dir>/.pchrun; *ret NULL: the job has none. The caller frees
 * it. */
MUST_CHECK bool params_state_dir(const struct config *config, char **ret, struct err *err);
/* Expands the template of a path (config->report and similar); the node's rank must be known. *ret
 * NULL: there is none, or it needs a missing state_dir. The caller frees it. */
MUST_CHECK bool params_path(const struct config *config, const char *template,
                            const char *state_dir, char **ret, struct err *err);

#endif
