/* SPDX-License-Identifier: Apache-2.0
 * See body.h: what Azure's scheduled events say.
 */
#include "base/str.h"
#include "watch/answers/body.h"

#include <inttypes.h>
#include <stdio.h>
#include <strings.h>

/* A longer freeze may disturb the job; a live migration takes about 5 s. */
#define FREEZE_SHORT_S 10

static const char *const ending[] = {"Reboot", "Redeploy", "Preempt", "Terminate", NULL};

/* True if the event is for this machine: the document has events of all machines of a set. */
static bool azure_event_is_ours(const struct json *item, const char *name)
{
    const struct json *one = json_items_at(item, "Resources");
    if (!*name || !one)
        return true;
    for (; one; one = json_next(one))
        if (json_text(one) && strcasecmp(json_text(one), name) == 0)
            return true;
    return false;
}

/* A freeze, or an event of an unknown type, is mild unless it takes long. */
static void set_mild(struct event *event, const struct json *item)
{
    int64_t seconds = 0;
    if (json_int(json_find(item, "DurationInSeconds"), &seconds) && seconds > FREEZE_SHORT_S) {
        event->type = NOTICE_CHECKPOINT;
        str_addf(event->text, sizeof event->text, ", %" PRId64 " s", seconds);
    } else {
        event->is_mild = true;
    }
}

/* An item that is not an object counts as an item without a type. */
static void add_event(struct events *ret, const struct json *item, const char *name)
{
    const char *type = bodytext_of(item, "EventType"), *id = bodytext_of(item, "EventId");
    const char *status = bodytext_of(item, "EventStatus");
    if (!*type || !*id) {
        ret->is_partial = true;
        return;
    }
    bool is_over = str_is(status, "Completed") || str_is(status, "Canceled");
    if (is_over || !azure_event_is_ours(item, name))
        return;
    char key[EVENT_ID_MAX];
    enum notice_type reaction = bodytext_is_one_of(type, ending) ? NOTICE_TERMINATE : NOTICE_LOG;
    struct event *event = events_add(ret, reaction, event_id(key, "", id));
    if (!event)
        return;
    snprintf(event->text, sizeof event->text, "%.16s, %.12s: %.50s", type,
             *status ? status : "no status", bodytext_of(item, "Description"));
    if (event->type == NOTICE_LOG)
        set_mild(event, item);
    /* NotBefore is empty once the event has started. */
    events_set_time(ret, event, "NotBefore", bodytext_of(item, "NotBefore"));
}

bool body_azure(const char *data, size_t len, const char *name, struct events *ret, struct err *err)
{
    JSON_CLEANUP struct json *root = bodytext_json(data, len, JSON_IS_OBJECT, err);
    if (!root)
        return false;
    const struct json *list = json_find(root, "Events");
    if (!list || json_kind(list) != JSON_IS_LIST)
        return err_set(err, ERR_PROTOCOL, 0, "the answer has no list \"Events\"");
    for (const struct json *item = json_first(list); item; item = json_next(item))
        add_event(ret, item, name);
    return true;
}
