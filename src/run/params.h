/* SPDX-License-Identifier: Apache-2.0
 *
 * params: turns the user's configuration into the core's parameters. Main thread, at start.
 */
#pragma once

#include "config/config.h"
#include "core/common/params.h"
#include "record/history.h"

MUST_CHECK bool params_fill(struct core_params *params, const struct config *config,
                            struct err *err);
/* `state_dir`: the state directory, NULL: none. */
void params_of_dir(struct core_params *params, const struct config *config, const char *state_dir);
/* Takes from the history the step to resume from, the attempts' counts and the time of a save. */
void params_of_history(struct core_params *params, const struct history *history);
