/* SPDX-License-Identifier: Apache-2.0
 * See body.h: what Azure's scheduled events say.
 */
#include "base/str.h"
#include "watch/answers/body.h"

#include <stdio.h>
#include <strings.h>

/* A longer freeze may disturb the job; a live migration takes about 5 s. */
#define FREEZE_SHORT_S 10

static const char *const ending[] = {"Reboot", "Redeploy", "Preempt", "Terminate", NULL};

/* True if the event is for this machine: the document has events of all machines of a set. A list
 * or an item of a wrong type may name this machine. */
static bool azure_event_is_ours(const struct json *item, const char *name, struct events *ret)
{
    const struct json *one = bodytext_items(item, "Resources", ret);
    bool is_ours = !*name || !one;
    for (; one && !is_ours; one = json_next(one))
        is_ours = strcasecmp(bodytext_text(one, "an item of Resources", ret), name) == 0 ||
                  !json_text(one);
    return is_ours;
}

/* A freeze, or an event of an unknown type, is mild unless it takes long. */
static void set_mild(struct events *ret, struct event *event, const struct json *item)
{
    const struct json *length = json_find(item, "DurationInSeconds");
    double seconds = 0;
    if (length && !json_number(length, &seconds))
        bodytext_unwanted(ret, "DurationInSeconds", length, "a number");
    event->is_mild = seconds <= FREEZE_SHORT_S;
    if (event->is_mild)
        return;
    event->type = NOTICE_CHECKPOINT;
    str_addf(event->text, sizeof event->text, ", %.0f s", seconds);
}

/* An item that is not an object counts as an item without a type. An event without an id gets one
 * from its type and time. */
static void add_event(struct events *ret, const struct json *item, const char *name)
{
    const char *type = bodytext_of(item, "EventType", ret), *id = bodytext_of(item, "EventId", ret);
    const char *status = bodytext_of(item, "EventStatus", ret);
    const struct json *from = bodytext_find(item, "NotBefore");
    if (!*type) {
        events_remark(ret, "an event without a readable EventType does not count");
        ret->is_partial = true;
        return;
    }
    bool is_over = str_is(status, "Completed") || str_is(status, "Canceled");
    if (is_over || !azure_event_is_ours(item, name, ret))
        return;
    char key[EVENT_ID_MAX], what[160];
    snprintf(what, sizeof what, "%.60s-%.80s", type, json_text(from) ? json_text(from) : "");
    enum notice_type reaction = str_is_one_of(type, ending) ? NOTICE_TERMINATE : NOTICE_LOG;
    struct event *event = events_add(ret, reaction, event_id(key, "", *id ? id : what));
    if (!event)
        return;
    snprintf(event->text, sizeof event->text, "%.16s, %.12s: %.50s", type,
             *status ? status : "no status", bodytext_of(item, "Description", ret));
    if (event->type == NOTICE_LOG)
        set_mild(ret, event, item);
    /* NotBefore is empty once the event has started. */
    bodytext_set_time(ret, event, "NotBefore", from);
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
