/* SPDX-License-Identifier: Apache-2.0
 *
 * ports: those that training frameworks use, which pchrun therefore must not. Pure; any thread.
 */
#ifndef PCHRUN_CONFIG_PORTS_H
#define PCHRUN_CONFIG_PORTS_H

#include "base/err.h"

/* Is the port free of the uses that training frameworks make of it? */
MUST_CHECK bool ports_check(int port, struct err *err);

#endif
