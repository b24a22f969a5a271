/* SPDX-License-Identifier: Apache-2.0
 *
 * quota: which of the core's log lines are written. What comes and goes can do so again and again;
 * but a job of many ranks has the right to many lines. Owns nothing. Main thread.
 */
#ifndef PCHRUN_RUN_QUOTA_H
#define PCHRUN_RUN_QUOTA_H

#include "base/log.h"
#include "core/action.h"

enum { QUOTA_TOPICS = 3 };

/* All zero at first. */
struct quota {
    struct log_limit limits[QUOTA_TOPICS];
};

bool quota_allows(struct quota *quota, const struct action *action);
/* Says how many lines were not written last. */
void quota_end(struct quota *quota);

#endif
