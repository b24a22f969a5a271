/* SPDX-License-Identifier: Apache-2.0
 * See quota.h.
 */
#include "run/quota.h"

#include "base/str.h"

enum { LINES_MAX = 3 * CORE_SLOTS_MAX /* lines of each topic within some seconds */ };

static const char *const topics[QUOTA_TOPICS] = {"attach", "join", "peers"};

bool quota_allows(struct quota *quota, const struct action *action)
{
    bool is_limited = action->log.level == LOG_INFO || action->log.level == LOG_WARN;
    for (size_t i = 0; is_limited && i < QUOTA_TOPICS; i++)
        if (str_is(action->log.topic, topics[i]))
            return log_limit_ok(&quota->limits[i], topics[i], LINES_MAX);
    return true;
}

void quota_end(struct quota *quota)
{
    for (int i = 0; i < QUOTA_TOPICS; i++)
        log_limit_end(&quota->limits[i], topics[i]);
}
