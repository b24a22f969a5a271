/* SPDX-License-Identifier: Apache-2.0
 * See event.h.
 */
#include "watch/answers/event.h"

#include "base/clock.h"
#include "base/str.h"

#include <inttypes.h>
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

void events_set_time(struct events *events, struct event *event, const char *name, const char *date)
{
    if (date_parse(date, &event->at_ns))
        return;
    event->at_ns = EVENT_AT_UNKNOWN;
    if (!*date)
        return;
    snprintf(events->remark, sizeof events->remark,
             "%.24s is \"%.60s\", which is not a time: the notice %.60s has no deadline, so the "
             "configured grace counts",
             name, date, event->id);
    str_printable(events->remark);
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
