/* SPDX-License-Identifier: Apache-2.0
 *
 * validate: checks and settings that need several options. Main thread.
 */
#ifndef PCHRUN_CONFIG_VALIDATE_H
#define PCHRUN_CONFIG_VALIDATE_H

#include "config/config.h"

MUST_CHECK bool config_validate(struct config *config, struct err *err);

#endif
