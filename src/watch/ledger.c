/* SPDX-License-Identifier: Apache-2.0
 * See ledger.h.
 */
#include "watch/ledger.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"

void ledger_init(struct ledger *ledger, const struct ledger_rules *rules, ledger_fn *tell,
                 void *ctx)
{
    *ledger = (struct ledger){.rules = *rules, .tell = tell, .ctx = ctx};
}

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

static void ledger_tell(struct ledger *ledger, struct ledger_live *live, enum notice_type type)
{
    live->told = type;
    live->told_ns = live->deadline_ns;
    struct ledger_news news = {.type = type, .deadline_ns = live->deadline_ns};
    str_copy(news.id, sizeof news.id, live->event.id);
    str_copy(news.text, sizeof news.text, live->event.text);
    ledger->tell(ledger->ctx, &news);
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

static void ledger_add(struct ledger *ledger, unsigned topic, const struct event *event,
                       struct ledger_now now)
{
    if (ledger->count == LEDGER_LIVE_MAX) {
        if (log_limit_ok(&ledger->limit, "events", 1))
            log_warn("events", "%s is not told: there are %d already", event->id, LEDGER_LIVE_MAX);
        return;
    }
    struct ledger_live *live = &ledger->live[ledger->count++];
    *live = (struct ledger_live){.event = *event, .topics = 1U << topic, .told = NOTICE_CANCEL};
    live->deadline_ns = to_mono(event->at_ns, now);
    tell_changes(ledger, live, now);
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

static void ledger_take(struct ledger *ledger, unsigned topic, const struct event *given,
                        struct ledger_now now)
{
    struct event event = *given;
    if (event.is_mild && ledger->rules.mild != NOTICE_CANCEL)
        event.type = ledger->rules.mild;
    struct ledger_live *live = ledger_find(ledger, event.key);
    if (live)
        refresh(ledger, live, &event, now);
    else
        ledger_add(ledger, topic, &event, now);
}

/* Notes which live events the topic names. A partial answer removes none. */
static void mark(struct ledger *ledger, unsigned topic, const struct events *events)
{
    for (unsigned i = 0; i < ledger->count; i++) {
        struct ledger_live *live = &ledger->live[i];
        if (events_find(events, live->event.key))
            live->topics |= 1U << topic;
        else if (!events->is_partial)
            live->topics &= ~(1U << topic);
    }
}

static void ledger_sweep(struct ledger *ledger)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < ledger->count; i++) {
        if (ledger->live[i].topics == 0)
            ledger_tell(ledger, &ledger->live[i], NOTICE_CANCEL);
        else
            ledger->live[kept++] = ledger->live[i];
    }
    ledger->count = kept;
}

void ledger_update(struct ledger *ledger, unsigned topic, const struct events *events,
                   struct ledger_now now)
{
    ledger->absences[topic] = 0;
    for (unsigned i = 0; i < events->count; i++)
        ledger_take(ledger, topic, &events->list[i], now);
    mark(ledger, topic, events);
    ledger_sweep(ledger);
}

void ledger_absent(struct ledger *ledger, unsigned topic, struct ledger_now now)
{
    static const struct events none = {0};
    unsigned absences = ledger->absences[topic] + 1;
    if (absences >= LEDGER_ABSENT_WANTED)
        ledger_update(ledger, topic, &none, now);
    ledger->absences[topic] = absences < LEDGER_ABSENT_WANTED ? absences : 0;
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
