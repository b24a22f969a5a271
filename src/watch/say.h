/* SPDX-License-Identifier: Apache-2.0
 *
 * say: writes notices to standard output, as in pchrun-protocol(7).
 *
 * A line is composed only when it can be written, so that its seconds left are correct, and goes
 * out with one write. A slow reader delays only lines: of each event only the newest line waits.
 * Main thread.
 */
#pragma once

#include "watch/ledger.h"

/* One line for each live event, and as many for vanished ones. */
#define SAY_MAX (2 * LEDGER_LIVE_MAX)

/* Zeroed at first. */
struct say {
    struct ledger_news lines[SAY_MAX];
    unsigned count;
};

/* The line with its newline, at most SAY_LINE_MAX bytes (a pipe takes so many in one piece);
 * `now_ns` by the monotonic clock. Returns its length. */
#define SAY_LINE_MAX 2048
size_t say_format(const struct ledger_news *news, int64_t now_ns, char out[SAY_LINE_MAX]);

/* Queues a line. It replaces a waiting line of the same event. `ctx` is the struct say: a
 * ledger_fn. */
void say_put(void *ctx, const struct ledger_news *news);
/* Writes without blocking. False: the reader has closed it (EPIPE), or a write failed: *err. */
MUST_CHECK bool say_flush(struct say *say, struct err *err);
