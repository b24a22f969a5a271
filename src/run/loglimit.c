/* SPDX-License-Identifier: Apache-2.0
 * See loglimit.h.
 */
#include "run/loglimit.h"

#include "base/str.h"

enum { LINES_MAX = 3 * CORE_SLOTS_MAX /* lines of each topic within some seconds */ };

static const char *const topics[QUOTA_TOPICS] = {"attach", "join", "peers"};

bool loglimit_allows(struct loglimit *loglimit, const struct action *action)
{
    bool is_limited = action->log.level == LOG_INFO || action->log.level == LOG_WARN;
    for (size_t i = 0; is_limited && i < QUOTA_TOPICS; i++)
        if (str_is(action->log.topic, topics[i]))
            return log_limit_ok(&loglimit->limits[i], topics[i], LINES_MAX);
    return true;
}

void loglimit_end(struct loglimit *loglimit)
{
    for (int i = 0; i < QUOTA_TOPICS; i++)
        log_limit_end(&loglimit->limits[i], topics[i]);
}
