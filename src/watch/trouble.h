/* SPDX-License-Identifier: Apache-2.0
 *
 * trouble: logs repeated failures: the first at once, then their number every minute, and once the
 * recovery. Also for failures that come and go. Main thread.
 */
#ifndef PCHRUN_WATCH_TROUBLE_H
#define PCHRUN_WATCH_TROUBLE_H

#include "base/err.h"

#include <stdint.h>

struct trouble {
    unsigned times;  /* failures since the last success */
    bool is_said;    /* the log mentions them */
    int64_t said_ns; /* last time; 0: never */
};

/* `what` failed with err->text. `topic` as in log.h. */
void trouble_say(struct trouble *trouble, const char *topic, const char *what,
                 const struct err *err);
/* The last failure and its reason, logged or not; "": none. */
const char *trouble_last(void);
void trouble_over(struct trouble *trouble, const char *topic, const char *what);

#endif
