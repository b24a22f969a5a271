/* SPDX-License-Identifier: Apache-2.0
 * See backoff.h.
 */
#include "notices/backoff.h"

#include "base/clock.h"

int64_t backoff_ended(struct backoff *backoff, int64_t ran_ns)
{
    if (backoff->wait_ns == 0 || ran_ns >= BACKOFF_GOOD_NS)
        backoff->wait_ns = BACKOFF_MIN_NS;
    else
        backoff->wait_ns = clock_min(2 * backoff->wait_ns, BACKOFF_MAX_NS);
    return backoff->wait_ns;
}
