/* SPDX-License-Identifier: Apache-2.0
 *
 * tracker: the live events of a source, and the news about them: new, changed deadline or type,
 * vanished.
 *
 * A source may have several topics, for example paths of a metadata service. An answer replaces the
 * events of its topic; a failed request changes nothing. The same key in two topics is one event. A
 * new deadline is converted to the monotonic clock once, because the wall clock may step. An event
 * further ahead than `lead` is first reported as a log, later with its real type.
 *
 * The news wait in a queue until they are written. A slow reader delays only lines: of each event
 * only the newest news waits.
 *
 * Memory is of a fixed size. Reads no clock: the caller passes the time. One thread.
 */
#pragma once

#include "base/log.h"
#include "watch/answers/event.h"

#define TRACKER_TOPICS_MAX 8
#define TRACKER_LIVE_MAX   64
/* Room for news of each live event, and for as many vanished events. */
#define TRACKER_NEWS_MAX (2 * TRACKER_LIVE_MAX)

/* While a service is down, a proxy may answer that a path does not exist. So an event ends only
 * when two answers in a row say this. */
#define TRACKER_ABSENT_WANTED 2

/* A smaller change of a deadline is not reported; metadata services count in seconds. */
#define TRACKER_MATERIAL_NS (2 * NS_PER_S)

struct tracker_now {
    int64_t real_ns, mono_ns;
};

struct tracker_rules {
    int64_t lead_ns;
    enum notice_type mild; /* the type to report mild events with; NOTICE_CANCEL: the type that the
                            * source gives */
};

struct tracker_live {
    struct event event;
    unsigned topics; /* bits: the topics that name it */
    int64_t deadline_ns;
    int64_t told_ns;       /* the deadline in the last report */
    enum notice_type told; /* and the type */
};

/* Set rules first; else zeroed. */
struct tracker {
    struct tracker_rules rules;
    struct tracker_live live[TRACKER_LIVE_MAX];
    unsigned count;
    /* Not written yet, oldest first; at_ns is by the monotonic clock. */
    struct event news[TRACKER_NEWS_MAX];
    unsigned news_count;
    unsigned absences[TRACKER_TOPICS_MAX];
    struct log_limit limit; /* limits the log lines about events that did not fit */
};

/* A valid answer: exactly these events. New events are reported first, vanished events last. */
void tracker_update(struct tracker *tracker, unsigned topic, const struct events *events,
                    struct tracker_now now);
/* Call if the answer is that this topic does not exist. True: this is believed. */
bool tracker_absent(struct tracker *tracker, unsigned topic, struct tracker_now now);
/* Reports events that have come within `lead`. */
void tracker_tick(struct tracker *tracker, struct tracker_now now);
/* When to call tracker_tick() next, by the monotonic clock; CLOCK_NEVER: not needed. */
int64_t tracker_next(const struct tracker *tracker);
/* Removes one entry of the news. */
void tracker_drop(struct tracker *tracker, unsigned i);
