/* SPDX-License-Identifier: Apache-2.0
 *
 * ports: ports of training frameworks, which pchrun must not use. Pure; any thread.
 */
#ifndef PCHRUN_CONFIG_PORTS_H
#define PCHRUN_CONFIG_PORTS_H

#include "base/err.h"

MUST_CHECK bool ports_check(int port, struct err *err);

#endif
