/* SPDX-License-Identifier: Apache-2.0
 *
 * quota: limits the core's log lines. Processes and nodes may come and go again and again, but a
 * job of many ranks needs many lines. Owns nothing. Main thread.
 */
#ifndef PCHRUN_RUN_QUOTA_H
#define PCHRUN_RUN_QUOTA_H

#include "base/log.h"
#include "core/common/action.h"

enum { QUOTA_TOPICS = 3 };

/* Must be zeroed. */
struct quota {
    struct log_limit limits[QUOTA_TOPICS];
};

bool quota_allows(struct quota *quota, const struct action *action);
/* Logs how many lines were left out last. */
void quota_end(struct quota *quota);

#endif
