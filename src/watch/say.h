/* SPDX-License-Identifier: Apache-2.0
 *
 * say: the lines of notices on standard output, as pchrun-protocol(7) has them.
 *
 * A line is made when it can be written, so that its seconds are those that are left then, and goes
 * out with one write. Who does not read holds up nothing but lines: of one event only the newest is
 * kept. Main thread.
 */
#ifndef PCHRUN_WATCH_SAY_H
#define PCHRUN_WATCH_SAY_H

#include "watch/ledger.h"

/* Each live event may have one, and so may as many that have vanished. */
#define SAY_MAX (2 * LEDGER_LIVE_MAX)

struct say_line {
    enum notice_type type;
    char id[EVENT_ID_MAX];
    char text[96];
    int64_t deadline_ns;
};
struct say {
    struct say_line lines[SAY_MAX];
    unsigned count;
    int fd;
};

/* The line with its newline, at most SAY_LINE_MAX bytes (what a pipe takes whole); `now_ns` by the
 * monotonic clock. Returns its length. */
#define SAY_LINE_MAX 2048
size_t say_format(const struct say_line *line, int64_t now_ns, char out[SAY_LINE_MAX]);

void say_init(struct say *say, int fd);
/* Puts it behind those that wait, in the place of an older one of the same event. `ctx` is the
 * struct say: a ledger_fn. */
void say_put(void *ctx, const struct ledger_news *news);
/* Writes what can be written without waiting. False with *err: nobody will ever read it (EPIPE), or
 * it cannot be written. */
MUST_CHECK bool say_flush(struct say *say, struct err *err);

#endif
