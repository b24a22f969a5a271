/* SPDX-License-Identifier: Apache-2.0
 * See event.h.
 */
#include "watch/answers/event.h"

#include "base/clock.h"
#include "base/str.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

const struct event *events_find(const struct events *events, const char *key)
{
    for (unsigned i = 0; i < events->count; i++)
        if (str_is(events->list[i].key, key))
            return &events->list[i];
    return NULL;
}

struct event *events_add(struct events *events, enum notice_type type, const char *key)
{
    if (events_find(events, key))
        return NULL;
    if (events->count == EVENTS_MAX) {
        events->is_partial = true;
        return NULL;
    }
    struct event *event = &events->list[events->count++];
    *event = (struct event){.type = type, .at_ns = EVENT_AT_UNKNOWN};
    str_copy(event->key, sizeof event->key, key);
    str_copy(event->id, sizeof event->id, key);
    return event;
}

void events_remark(struct events *events, const char *fmt, ...)
{
    char text[EVENTS_REMARK_MAX];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    str_addf(events->remark, sizeof events->remark, "%s%s", events->remark[0] ? "; " : "",
             str_printable(text));
}

void events_lack_time(struct events *events, struct event *event, const char *name,
                      const char *what)
{
    event->at_ns = EVENT_AT_UNKNOWN;
    events_remark(events,
                  "%.24s is %s: the notice%s%.60s has no deadline, so the configured grace counts",
                  name, what, event->id[0] ? " " : "", event->id);
}

void events_set_time(struct events *events, struct event *event, const char *name, const char *date)
{
    char what[100];
    if (date_parse(date, &event->at_ns))
        return;
    event->at_ns = EVENT_AT_UNKNOWN;
    snprintf(what, sizeof what, "\"%.60s\", which is not a time", date);
    if (*date)
        events_lack_time(events, event, name, what);
}

char *event_id(char id[EVENT_ID_MAX], const char *name, const char *what)
{
    const char *dash = *name ? "-" : "";
    int n = snprintf(id, EVENT_ID_MAX, "%s%s%s", name, dash, what);
    bool is_plain = !*what || str_is_of(what, STR_LETTERS STR_DIGITS "-_.:+");
    if (n >= EVENT_ID_MAX || !is_plain)
        snprintf(id, EVENT_ID_MAX, "%.46s%s%016" PRIx64, name, dash, str_hash(what));
    return id;
}

void events_bind(struct events *events, const char *machine)
{
    for (unsigned i = 0; i < events->count; i++) {
        char what[2 * EVENT_ID_MAX + 1];
        struct event *event = &events->list[i];
        snprintf(what, sizeof what, "%s %s", machine, event->id);
        event_id(event->id, event->key, what);
    }
}
