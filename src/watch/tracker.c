/* SPDX-License-Identifier: Apache-2.0
 * See tracker.h.
 */
#include "watch/tracker.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"

#include <string.h>

/* Both times are after 1970, so the difference fits; the sum may overflow. */
static int64_t to_mono(int64_t at_ns, struct tracker_now now)
{
    if (at_ns == EVENT_AT_UNKNOWN)
        return EVENT_AT_UNKNOWN;
    int64_t left = at_ns - now.real_ns;
    return left > 0 && now.mono_ns > INT64_MAX - left ? INT64_MAX : now.mono_ns + left;
}

static bool is_material(int64_t a, int64_t b)
{
    if (a == EVENT_AT_UNKNOWN || b == EVENT_AT_UNKNOWN)
        return a != b;
    return a - b >= TRACKER_MATERIAL_NS || b - a >= TRACKER_MATERIAL_NS;
}

/* When to report the event with its real type. */
static int64_t near_at(const struct tracker *tracker, const struct tracker_live *live)
{
    if (live->event.type == NOTICE_LOG || live->deadline_ns == EVENT_AT_UNKNOWN)
        return EVENT_AT_UNKNOWN;
    return live->deadline_ns - tracker->rules.lead_ns;
}

void tracker_drop(struct tracker *tracker, unsigned i)
{
    tracker->news_count--;
    memmove(&tracker->news[i], &tracker->news[i + 1],
            (tracker->news_count - i) * sizeof tracker->news[0]);
}

/* Adds news in place of older news of the same event. */
static void tracker_tell(struct tracker *tracker, struct tracker_live *live, enum notice_type type)
{
    live->told = type;
    live->told_ns = live->deadline_ns;
    for (unsigned i = 0; i < tracker->news_count; i++)
        if (str_is(tracker->news[i].id, live->event.id)) {
            tracker_drop(tracker, i);
            break;
        }
    if (tracker->news_count == TRACKER_NEWS_MAX)
        tracker_drop(tracker, 0);
    struct event *news = &tracker->news[tracker->news_count++];
    *news = live->event;
    news->type = type;
    news->at_ns = live->deadline_ns;
}

/* Reports the changes of a live event. */
static void tell_changes(struct tracker *tracker, struct tracker_live *live, struct tracker_now now)
{
    enum notice_type type = near_at(tracker, live) > now.mono_ns ? NOTICE_LOG : live->event.type;
    if (type != live->told || is_material(live->deadline_ns, live->told_ns))
        tracker_tell(tracker, live, type);
}

static struct tracker_live *tracker_find(struct tracker *tracker, const char *key)
{
    for (unsigned i = 0; i < tracker->count; i++)
        if (str_is(tracker->live[i].event.key, key))
            return &tracker->live[i];
    return NULL;
}

/* Returns a live event without a deadline, which no topic names yet. NULL: it does not fit. */
static struct tracker_live *tracker_add(struct tracker *tracker, const struct event *event)
{
    if (tracker->count == TRACKER_LIVE_MAX) {
        if (log_limit_ok(&tracker->limit, "events", 1))
            log_warn("events", "event %s is not reported: there are %d events already", event->id,
                     TRACKER_LIVE_MAX);
        return NULL;
    }
    struct tracker_live *live = &tracker->live[tracker->count++];
    *live = (struct tracker_live){
        .event = *event, .deadline_ns = EVENT_AT_UNKNOWN, .told = NOTICE_CANCEL};
    live->event.at_ns = EVENT_AT_UNKNOWN;
    return live;
}

/* Updates a live event, but keeps the reported id. */
static void refresh(struct tracker *tracker, struct tracker_live *live, const struct event *event,
                    struct tracker_now now)
{
    bool has_moved = event->at_ns != live->event.at_ns;
    int64_t deadline = has_moved ? to_mono(event->at_ns, now) : live->deadline_ns;
    bool is_believed = !event->keeps_earliest || live->deadline_ns == EVENT_AT_UNKNOWN ||
                       (deadline != EVENT_AT_UNKNOWN && deadline < live->deadline_ns);
    live->event.type = event->type;
    str_copy(live->event.text, sizeof live->event.text, event->text);
    if (has_moved && is_believed) {
        live->event.at_ns = event->at_ns;
        live->deadline_ns = deadline;
    }
    tell_changes(tracker, live, now);
}

static void tracker_take(struct tracker *tracker, const struct event *given, struct tracker_now now)
{
    struct event event = *given;
    if (event.is_mild && tracker->rules.mild != NOTICE_CANCEL)
        event.type = tracker->rules.mild;
    struct tracker_live *live = tracker_find(tracker, event.key);
    if (!live)
        live = tracker_add(tracker, &event);
    if (live)
        refresh(tracker, live, &event, now);
}

/* Notes which live events the topic names; an event that no topic names has vanished. A partial
 * answer removes no event. */
static void tracker_sweep(struct tracker *tracker, unsigned topic, const struct events *events)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < tracker->count; i++) {
        struct tracker_live *live = &tracker->live[i];
        if (events_find(events, live->event.key))
            live->topics |= 1U << topic;
        else if (!events->is_partial)
            live->topics &= ~(1U << topic);
        if (live->topics == 0)
            tracker_tell(tracker, live, NOTICE_CANCEL);
        else
            tracker->live[kept++] = *live;
    }
    tracker->count = kept;
}

void tracker_update(struct tracker *tracker, unsigned topic, const struct events *events,
                    struct tracker_now now)
{
    tracker->absences[topic] = 0;
    for (unsigned i = 0; i < events->count; i++)
        tracker_take(tracker, &events->list[i], now);
    tracker_sweep(tracker, topic, events);
}

bool tracker_absent(struct tracker *tracker, unsigned topic, struct tracker_now now)
{
    static const struct events none = {0};
    unsigned absences = tracker->absences[topic] + 1;
    bool is_believed = absences >= TRACKER_ABSENT_WANTED;
    if (is_believed)
        tracker_update(tracker, topic, &none, now);
    tracker->absences[topic] = is_believed ? TRACKER_ABSENT_WANTED : absences;
    return is_believed;
}

void tracker_tick(struct tracker *tracker, struct tracker_now now)
{
    for (unsigned i = 0; i < tracker->count; i++)
        tell_changes(tracker, &tracker->live[i], now);
}

int64_t tracker_next(const struct tracker *tracker)
{
    int64_t next = CLOCK_NEVER;
    for (unsigned i = 0; i < tracker->count; i++)
        if (tracker->live[i].told != tracker->live[i].event.type)
            next = clock_min(next, near_at(tracker, &tracker->live[i]));
    return next;
}
