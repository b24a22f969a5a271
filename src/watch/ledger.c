/* SPDX-License-Identifier: Apache-2.0
 * See ledger.h.
 */
#include "watch/ledger.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"

#include <string.h>

/* Both times are after 1970, so the difference fits; the sum may overflow. */
static int64_t to_mono(int64_t at_ns, struct ledger_now now)
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
    return a - b >= LEDGER_MATERIAL_NS || b - a >= LEDGER_MATERIAL_NS;
}

/* When to report the event with its real type. */
static int64_t near_at(const struct ledger *ledger, const struct ledger_live *live)
{
    if (live->event.type == NOTICE_LOG || live->deadline_ns == EVENT_AT_UNKNOWN)
        return EVENT_AT_UNKNOWN;
    return live->deadline_ns - ledger->rules.lead_ns;
}

void ledger_drop(struct ledger *ledger, unsigned i)
{
    ledger->news_count--;
    memmove(&ledger->news[i], &ledger->news[i + 1],
            (ledger->news_count - i) * sizeof ledger->news[0]);
}

/* Adds news in place of older news of the same event. */
static void ledger_tell(struct ledger *ledger, struct ledger_live *live, enum notice_type type)
{
    live->told = type;
    live->told_ns = live->deadline_ns;
    for (unsigned i = 0; i < ledger->news_count; i++)
        if (str_is(ledger->news[i].id, live->event.id)) {
            ledger_drop(ledger, i);
            break;
        }
    if (ledger->news_count == LEDGER_NEWS_MAX)
        ledger_drop(ledger, 0);
    struct event *news = &ledger->news[ledger->news_count++];
    *news = live->event;
    news->type = type;
    news->at_ns = live->deadline_ns;
}

/* Reports the changes of a live event. */
static void tell_changes(struct ledger *ledger, struct ledger_live *live, struct ledger_now now)
{
    enum notice_type type = near_at(ledger, live) > now.mono_ns ? NOTICE_LOG : live->event.type;
    if (type != live->told || is_material(live->deadline_ns, live->told_ns))
        ledger_tell(ledger, live, type);
}

static struct ledger_live *ledger_find(struct ledger *ledger, const char *key)
{
    for (unsigned i = 0; i < ledger->count; i++)
        if (str_is(ledger->live[i].event.key, key))
            return &ledger->live[i];
    return NULL;
}

/* Returns a live event without a deadline, which no topic names yet. NULL: it does not fit. */
static struct ledger_live *ledger_add(struct ledger *ledger, const struct event *event)
{
    if (ledger->count == LEDGER_LIVE_MAX) {
        if (log_limit_ok(&ledger->limit, "events", 1))
            log_warn("events", "event %s is not reported: there are %d events already", event->id,
                     LEDGER_LIVE_MAX);
        return NULL;
    }
    struct ledger_live *live = &ledger->live[ledger->count++];
    *live = (struct ledger_live){
        .event = *event, .deadline_ns = EVENT_AT_UNKNOWN, .told = NOTICE_CANCEL};
    live->event.at_ns = EVENT_AT_UNKNOWN;
    return live;
}

/* Updates a live event, but keeps the reported id. */
static void refresh(struct ledger *ledger, struct ledger_live *live, const struct event *event,
                    struct ledger_now now)
{
    bool has_moved = event->at_ns != live->event.at_ns;
    int64_t deadline = has_moved ? to_mono(event->at_ns, now) : live->deadline_ns;
    bool is_believed = !ledger->rules.keeps_earliest || live->deadline_ns == EVENT_AT_UNKNOWN ||
                       (deadline != EVENT_AT_UNKNOWN && deadline < live->deadline_ns);
    live->event.type = event->type;
    str_copy(live->event.text, sizeof live->event.text, event->text);
    if (has_moved && is_believed) {
        live->event.at_ns = event->at_ns;
        live->deadline_ns = deadline;
    }
    tell_changes(ledger, live, now);
}

static void ledger_take(struct ledger *ledger, const struct event *given, struct ledger_now now)
{
    struct event event = *given;
    if (event.is_mild && ledger->rules.mild != NOTICE_CANCEL)
        event.type = ledger->rules.mild;
    struct ledger_live *live = ledger_find(ledger, event.key);
    if (!live)
        live = ledger_add(ledger, &event);
    if (live)
        refresh(ledger, live, &event, now);
}

/* Notes which live events the topic names; an event that no topic names has vanished. A partial
 * answer removes no event. */
static void ledger_sweep(struct ledger *ledger, unsigned topic, const struct events *events)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < ledger->count; i++) {
        struct ledger_live *live = &ledger->live[i];
        if (events_find(events, live->event.key))
            live->topics |= 1U << topic;
        else if (!events->is_partial)
            live->topics &= ~(1U << topic);
        if (live->topics == 0)
            ledger_tell(ledger, live, NOTICE_CANCEL);
        else
            ledger->live[kept++] = *live;
    }
    ledger->count = kept;
}

void ledger_update(struct ledger *ledger, unsigned topic, const struct events *events,
                   struct ledger_now now)
{
    ledger->absences[topic] = 0;
    for (unsigned i = 0; i < events->count; i++)
        ledger_take(ledger, &events->list[i], now);
    ledger_sweep(ledger, topic, events);
}

bool ledger_absent(struct ledger *ledger, unsigned topic, struct ledger_now now)
{
    static const struct events none = {0};
    unsigned absences = ledger->absences[topic] + 1;
    bool is_believed = absences >= LEDGER_ABSENT_WANTED;
    if (is_believed)
        ledger_update(ledger, topic, &none, now);
    ledger->absences[topic] = is_believed ? LEDGER_ABSENT_WANTED : absences;
    return is_believed;
}

void ledger_tick(struct ledger *ledger, struct ledger_now now)
{
    for (unsigned i = 0; i < ledger->count; i++)
        tell_changes(ledger, &ledger->live[i], now);
}

int64_t ledger_next(const struct ledger *ledger)
{
    int64_t next = CLOCK_NEVER;
    for (unsigned i = 0; i < ledger->count; i++)
        if (ledger->live[i].told != ledger->live[i].event.type)
            next = clock_min(next, near_at(ledger, &ledger->live[i]));
    return next;
}
