/* SPDX-License-Identifier: Apache-2.0
 * See trouble.h.
 */
#include "watch/trouble.h"

#include "base/clock.h"
#include "base/log.h"

#define AGAIN_NS (60 * NS_PER_S)

void trouble_say(struct trouble *trouble, const char *topic, const char *what,
                 const struct err *err)
{
    int64_t now = clock_now_ns();
    trouble->times++;
    if (trouble->said_ns > 0 && now - trouble->said_ns < AGAIN_NS)
        return;
    trouble->said_ns = now;
    trouble->is_said = true;
    if (trouble->times == 1)
        log_warn(topic, "%s: %s; trying on", what, err->text);
    else
        log_warn(topic, "%s: %s; this has failed %u times by now", what, err->text, trouble->times);
}

void trouble_over(struct trouble *trouble, const char *topic, const char *what)
{
    if (trouble->is_said)
        log_info(topic, "%s: it works again, after %u failures", what, trouble->times);
    trouble->times = 0;
    trouble->is_said = false;
}
