/* SPDX-License-Identifier: Apache-2.0
 *
 * ledger: which events of a source are live, and what is to be told of them: that one has come,
 * that its deadline or what it asks for has changed, that it has vanished.
 *
 * A source may have several topics (a path of a metadata service each). An answer replaces what was
 * known of its topic; no answer changes nothing. Two topics that name the same key speak of one
 * event. A deadline becomes a moment of the monotonic clock when it is seen first, and stays that
 * as long as the source says the same: the wall clock may step. What lies further ahead than `lead`
 * is told as a mere log, and as itself when it has come so near.
 *
 * Memory is of a fixed size. Reads no clock: the caller says what time it is. One thread.
 */
#ifndef PCHRUN_WATCH_LEDGER_H
#define PCHRUN_WATCH_LEDGER_H

#include "base/log.h"
#include "watch/event.h"

#define LEDGER_TOPICS_MAX 8
#define LEDGER_LIVE_MAX   64

/* An answer that says that a path does not exist may come from whoever stands in for a service that
 * is down; an event ends with the second in a row. */
#define LEDGER_ABSENT_WANTED 2

/* The deadline is told again from this change on; metadata services count in seconds. */
#define LEDGER_MATERIAL_NS (2 * NS_PER_S)

struct ledger_now {
    int64_t real_ns, mono_ns;
};

/* What is told; deadline_ns by the monotonic clock, EVENT_AT_UNKNOWN: not known. */
struct ledger_news {
    enum notice_type type;
    const char *id, *text;
    int64_t deadline_ns;
};
typedef void ledger_fn(void *ctx, const struct ledger_news *news);

struct ledger_rules {
    int64_t lead_ns;
    enum notice_type mild; /* what mild events ask for; NOTICE_CANCEL: as the source has it */
    bool keeps_earliest;   /* a deadline that moves away is not believed */
};

struct ledger_live {
    struct event event;
    unsigned topics; /* bits: those that tell of it */
    int64_t deadline_ns;
    int64_t told_ns;       /* what was told last of its deadline */
    enum notice_type told; /* and of its type */
};
struct ledger {
    struct ledger_rules rules;
    ledger_fn *tell;
    void *ctx;
    struct ledger_live live[LEDGER_LIVE_MAX];
    unsigned count;
    unsigned absences[LEDGER_TOPICS_MAX];
    struct log_limit limit; /* what did not fit is said so often */
};

void ledger_init(struct ledger *ledger, const struct ledger_rules *rules, ledger_fn *tell,
                 void *ctx);
/* A valid answer: these and no others. What is new is told first, what has vanished last. */
void ledger_update(struct ledger *ledger, unsigned topic, const struct events *events,
                   struct ledger_now now);
/* The answer was that there is no such thing. */
void ledger_absent(struct ledger *ledger, unsigned topic, struct ledger_now now);
/* Something may have come near enough. */
void ledger_tick(struct ledger *ledger, struct ledger_now now);
/* When ledger_tick() has something to do next, by the monotonic clock; CLOCK_NEVER: not at all. */
int64_t ledger_next(const struct ledger *ledger);

#endif
