/* SPDX-License-Identifier: Apache-2.0
 *
 * params: from the user's configuration to what the core is told, and to the paths that follow from
 * it. Main thread, at start.
 */
#ifndef PCHRUN_RUN_PARAMS_H
#define PCHRUN_RUN_PARAMS_H

#include "base/clock.h"
#include "config/config.h"
#include "core/params.h"

/* How long a closed connection may stay closed. */
#define PARAMS_RECONNECT_NS (2 * NS_PER_S)

MUST_CHECK bool params_fill(struct core_params *params, const struct config *config,
                            struct err *err);
/* state_dir, or <checkpoint.dir>/.pchrun; *ret NULL: the job has none. The caller frees it. */
MUST_CHECK bool params_state_dir(const struct config *config, char **ret, struct err *err);
/* The path that a template (of config->report and its like) stands for, when the node's rank is
 * known; *ret NULL: none is wanted, or it would be in a state_dir that there is not. The caller
 * frees it. */
MUST_CHECK bool params_path(const struct config *config, const char *template,
                            const char *state_dir, char **ret, struct err *err);

#endif
