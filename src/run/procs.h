/* SPDX-License-Identifier: Apache-2.0
 *
 * procs: the core's actions upon attached training processes. Main thread.
 */
#ifndef PCHRUN_RUN_PROCS_H
#define PCHRUN_RUN_PROCS_H

#include "run/loop.h"

/* ACT_READ_STEPS: answered with EV_STEPS. */
void procs_read_steps(struct loop *loop);

#endif
