/* SPDX-License-Identifier: Apache-2.0
 *
 * trouble: what is said of something that fails again and again: the first time at once, then every
 * minute how often, and once when it works again; also if it comes and goes. Main thread.
 */
#ifndef PCHRUN_WATCH_TROUBLE_H
#define PCHRUN_WATCH_TROUBLE_H

#include "base/err.h"

#include <stdint.h>

struct trouble {
    unsigned times;  /* that it has failed since it worked last */
    bool is_said;    /* ... and that was said */
    int64_t said_ns; /* when last; 0: never */
};

/* `what` could not be done, because of err->text. `topic` as in log.h. */
void trouble_say(struct trouble *trouble, const char *topic, const char *what,
                 const struct err *err);
/* What was said to have failed last, with why, whether it was written or not; "": nothing. */
const char *trouble_last(void);
void trouble_over(struct trouble *trouble, const char *topic, const char *what);

#endif
