/* SPDX-License-Identifier: Apache-2.0
 * See trouble.h.
 */
#include "watch/trouble.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdio.h>

#define AGAIN_NS (60 * NS_PER_S)

static char last[480];

void trouble_say(struct trouble *trouble, const char *topic, const char *what,
                 const struct err *err)
{
    int64_t now = clock_now_ns();
    snprintf(last, sizeof last, "%.80s: %.380s", what, err->text);
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

const char *trouble_last(void)
{
    return last;
}

void trouble_over(struct trouble *trouble, const char *topic, const char *what)
{
    if (trouble->is_said)
        log_info(topic, "%s: it works again, after %u failures", what, trouble->times);
    trouble->times = 0;
    trouble->is_said = false;
}
