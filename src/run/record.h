/* SPDX-License-Identifier: Apache-2.0
 *
 * record: the core's actions upon the records of saves in the state directory. Main thread.
 */
#ifndef PCHRUN_RUN_RECORD_H
#define PCHRUN_RUN_RECORD_H

#include "run/loop.h"

/* ACT_PREPARE and ACT_COMMIT: answered with EV_PREPARED and EV_COMMITTED. Without a state directory
 * there is no record to be kept, and so nothing that could fail. */
void record_prepare(struct loop *loop, const char *state_dir, uint64_t step);
void record_commit(struct loop *loop, const char *state_dir, uint64_t step);

#endif
