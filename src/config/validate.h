/* SPDX-License-Identifier: Apache-2.0
 *
 * validate: what no single option can check by itself, and what follows from several. Main thread.
 */
#ifndef PCHRUN_CONFIG_VALIDATE_H
#define PCHRUN_CONFIG_VALIDATE_H

#include "config/config.h"

MUST_CHECK bool config_validate(struct config *config, struct err *err);

#endif
