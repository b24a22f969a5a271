/* SPDX-License-Identifier: Apache-2.0
 *
 * paths: the paths that follow from the configuration. Owns nothing. Any thread.
 */
#ifndef PCHRUN_CONFIG_PATHS_H
#define PCHRUN_CONFIG_PATHS_H

#include "config/config.h"

/* The user's state_dir, or <checkpoint.dir>/.pchrun; *ret NULL: the job has none. The caller frees
 * it. */
MUST_CHECK bool paths_state_dir(const struct config *config, char **ret, struct err *err);
/* Expands the template of a path (config->report and similar); the node's rank must be known. *ret
 * NULL: there is none, or it needs a missing state_dir. The caller frees it. */
MUST_CHECK bool paths_expand(const struct config *config, const char *template,
                             const char *state_dir, char **ret, struct err *err);

#endif
