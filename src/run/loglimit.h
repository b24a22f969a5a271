/* SPDX-License-Identifier: Apache-2.0
 *
 * loglimit: limits the core's log lines. Processes and nodes may come and go again and again, but a
 * job of many ranks needs many lines. Owns nothing. Main thread.
 */
#ifndef PCHRUN_RUN_LOGLIMIT_H
#define PCHRUN_RUN_LOGLIMIT_H

#include "base/log.h"
#include "core/common/action.h"

enum { QUOTA_TOPICS = 3 };

/* Must be zeroed. */
struct loglimit {
    struct log_limit limits[QUOTA_TOPICS];
};

bool loglimit_allows(struct loglimit *loglimit, const struct action *action);
/* Logs how many lines were left out last. */
void loglimit_end(struct loglimit *loglimit);

#endif
