/* SPDX-License-Identifier: Apache-2.0
 *
 * params: from the user's configuration to what the core is told, and to the paths that follow from
 * it. Main thread, at start.
 */
#ifndef PCHRUN_RUN_PARAMS_H
#define PCHRUN_RUN_PARAMS_H

#include "config/config.h"
#include "core/params.h"

MUST_CHECK bool params_fill(struct core_params *params, const struct config *config,
                            struct err *err);
/* state_dir, or <checkpoint.dir>/.pchrun; *ret NULL: the job has none. The caller frees it. */
MUST_CHECK bool params_state_dir(const struct config *config, char **ret, struct err *err);
/* The report's path; *ret NULL: none is wanted, or it would be in a state_dir that there is not.
 * The caller frees it. */
MUST_CHECK bool params_report_path(const struct config *config, const char *state_dir,
                                   int node_rank, char **ret, struct err *err);

#endif
