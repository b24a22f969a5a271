/* SPDX-License-Identifier: Apache-2.0
 * See body.h: what the instance metadata service of Amazon EC2 says, except for the end of a spot
 * instance (body_spot.c).
 */
#include "base/str.h"
#include "watch/answers/body.h"
#include "watch/answers/bodytext.h"

#include <stdio.h>

bool body_aws_rebalance(const char *data, size_t len, struct events *ret, struct err *err)
{
    JSON_CLEANUP struct json *root = bodytext_json(data, len, JSON_IS_OBJECT, err);
    if (!root)
        return false;
    const char *time = bodytext_of(root, "noticeTime");
    if (!*time)
        return err_set(err, ERR_PROTOCOL, 0, "the answer has no \"noticeTime\"");
    struct event *event = events_add(ret, NOTICE_CHECKPOINT, "rebalance");
    event_id(event->id, "rebalance", time);
    str_copy(event->text, sizeof event->text,
             "rebalance recommendation: the spot instance is at risk");
    event->is_mild = true;
    return true;
}

/* The events that stop or reboot the instance. The instance survives all other events. */
static const char *const ending[] = {"instance-stop", "instance-retirement", "instance-reboot",
                                     "system-reboot", NULL};

/* An item that is not an object counts as an item without a code. */
static void add_scheduled(struct events *ret, const struct json *item)
{
    const char *code = bodytext_of(item, "Code"), *state = bodytext_of(item, "State");
    const char *id = bodytext_of(item, "EventId"), *from = bodytext_of(item, "NotBefore");
    if (!*code || !*state) {
        ret->is_partial = true;
        return;
    }
    if (!str_is(state, "active"))
        return;
    char key[EVENT_ID_MAX], what[160];
    snprintf(what, sizeof what, "%.60s-%.80s", code, from);
    event_id(key, "", *id ? id : what);
    bool is_mild = !bodytext_is_one_of(code, ending);
    struct event *event = events_add(ret, is_mild ? NOTICE_CHECKPOINT : NOTICE_TERMINATE, key);
    if (!event)
        return;
    event->is_mild = is_mild;
    snprintf(event->text, sizeof event->text, "%.30s: %.60s", code,
             bodytext_of(item, "Description"));
    events_set_time(ret, event, "NotBefore", from);
}

bool body_aws_scheduled(const char *data, size_t len, struct events *ret, struct err *err)
{
    JSON_CLEANUP struct json *root = bodytext_json(data, len, JSON_IS_LIST, err);
    if (!root)
        return false;
    for (const struct json *item = json_first(root); item; item = json_next(item))
        add_scheduled(ret, item);
    return true;
}

bool body_aws_lifecycle(const char *data, size_t len, struct events *ret, struct err *err)
{
    char word[40];
    if (!bodytext_word(data, len, word, sizeof word) || !str_is_of(word, STR_LETTERS ":"))
        return err_set(err, ERR_PROTOCOL, 0, "the answer is not the state of a lifecycle");
    if (str_is(word, "Terminated")) {
        struct event *event = events_add(ret, NOTICE_TERMINATE, "autoscaling-terminated");
        str_copy(event->text, sizeof event->text, "the auto-scaling group takes the instance away");
    }
    return true;
}
