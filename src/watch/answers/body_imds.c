/* SPDX-License-Identifier: Apache-2.0
 * See body.h: what the instance metadata services of Amazon, Alibaba and Tencent say.
 */
#include "base/clock.h"
#include "base/str.h"
#include "watch/answers/body.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* ---- the end of a spot instance ---- */

/* "2018-08-18 12:05:33" */
#define TIME_LEN_MIN 10

/* A mock service may change the time with each answer, so the key has no time and the id keeps the
 * first time. `time` is as the service writes it. */
static struct event *add_spot(struct events *ret, const char *action, const char *time)
{
    char prefix[24], key[EVENT_ID_MAX];
    snprintf(prefix, sizeof prefix, "spot-%.16s", action);
    struct event *event = events_add(ret, NOTICE_TERMINATE, event_id(key, "spot", action));
    event_id(event->id, prefix, time);
    event->keeps_earliest = true;
    snprintf(event->text, sizeof event->text, "spot instance: %.24s at %.40s", action,
             *time ? time : "an unknown time");
    return event;
}

bool body_aws_action(const char *data, size_t len, struct events *ret, struct err *err)
{
    JSON_CLEANUP struct json *root = bodytext_json(data, len, JSON_IS_OBJECT, err);
    if (!root)
        return false;
    const char *action = bodytext_of(root, "action", ret);
    const struct json *time = bodytext_find(root, "time");
    /* With a remark the action is there, but of a wrong type: the instance still ends. */
    if (!*action && !ret->remark[0])
        return err_set(err, ERR_PROTOCOL, 0, "the answer has no \"action\"");
    struct event *event =
        add_spot(ret, *action ? action : "terminate", json_text(time) ? json_text(time) : "");
    bodytext_set_time(ret, event, "time", time);
    return true;
}

/* ---- termination-time: a time; without a notice the path is missing (404) ---- */

/* A time in an unknown format is still a notice. */
static bool looks_like_time(const char *word)
{
    return isdigit((unsigned char)*word) && strlen(word) >= TIME_LEN_MIN &&
           str_is_of(word, STR_DIGITS "-/:.+ TZ");
}

/* `zone` is the time zone that the cloud omits; "": none. */
static bool read_time(const char *word, const char *zone, struct events *ret, struct err *err)
{
    char whole[96], iso[32];
    int64_t at_ns;
    snprintf(whole, sizeof whole, "%.80s%s", word, zone);
    if (*zone && date_parse(whole, &at_ns)) {
        clock_iso8601(at_ns, iso, sizeof iso);
        add_spot(ret, "terminate", iso)->at_ns = at_ns;
        return true;
    }
    if (!date_parse(word, &at_ns) && !looks_like_time(word))
        return err_set(err, ERR_PROTOCOL, 0, "the answer is \"%.60s\", which is not a time", word);
    events_set_time(ret, add_spot(ret, "terminate", word), "termination-time", word);
    return true;
}

static bool read_word(const char *data, size_t len, char word[80], struct err *err)
{
    return (bodytext_word(data, len, word, 80) && *word) ||
           err_set(err, ERR_PROTOCOL, 0, "the answer is not a time");
}

/* The older path. The service's documentation says: a value that is not a time means no notice. The
 * log still gets the answer: it might be a time in a new format. */
bool body_aws_termination(const char *data, size_t len, struct events *ret, struct err *err)
{
    char word[80];
    if (!read_word(data, len, word, err))
        return false;
    if (!read_time(word, "", ret, NULL))
        events_remark(
            ret, "spot/termination-time is \"%.60s\", which is not a time, so it is not a notice",
            word);
    return true;
}

bool body_alibaba_termination(const char *data, size_t len, struct events *ret, struct err *err)
{
    char word[80];
    return read_word(data, len, word, err) && read_time(word, "", ret, err);
}

bool body_tencent_termination(const char *data, size_t len, struct events *ret, struct err *err)
{
    char word[80];
    return read_word(data, len, word, err) && read_time(word, "+08:00", ret, err);
}

/* ---- other events of Amazon EC2 ---- */

bool body_aws_rebalance(const char *data, size_t len, struct events *ret, struct err *err)
{
    JSON_CLEANUP struct json *root = bodytext_json(data, len, JSON_IS_OBJECT, err);
    if (!root)
        return false;
    const char *time = bodytext_of(root, "noticeTime", ret);
    if (!*time && !ret->remark[0])
        return err_set(err, ERR_PROTOCOL, 0, "the answer has no \"noticeTime\"");
    struct event *event = events_add(ret, NOTICE_CHECKPOINT, "rebalance");
    if (*time)
        event_id(event->id, "rebalance", time);
    str_copy(event->text, sizeof event->text,
             "rebalance recommendation: the spot instance is at risk");
    event->is_mild = true;
    return true;
}

/* The events that stop or reboot the instance. The instance survives all other events. */
static const char *const ending[] = {"instance-stop", "instance-retirement", "instance-reboot",
                                     "system-reboot", NULL};

/* An item that is not an object counts as an item without a code. Without a state an event is
 * active. */
static void add_scheduled(struct events *ret, const struct json *item)
{
    const char *code = bodytext_of(item, "Code", ret), *state = bodytext_of(item, "State", ret);
    const char *id = bodytext_of(item, "EventId", ret);
    const struct json *from = bodytext_find(item, "NotBefore");
    if (!*code) {
        events_remark(ret, "an event without a readable Code does not count");
        ret->is_partial = true;
        return;
    }
    if (*state && !str_is(state, "active"))
        return;
    char key[EVENT_ID_MAX], what[160];
    snprintf(what, sizeof what, "%.60s-%.80s", code, json_text(from) ? json_text(from) : "");
    event_id(key, "", *id ? id : what);
    bool is_mild = !str_is_one_of(code, ending);
    struct event *event = events_add(ret, is_mild ? NOTICE_CHECKPOINT : NOTICE_TERMINATE, key);
    if (!event)
        return;
    event->is_mild = is_mild;
    snprintf(event->text, sizeof event->text, "%.30s: %.60s", code,
             bodytext_of(item, "Description", ret));
    bodytext_set_time(ret, event, "NotBefore", from);
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
        return err_set(err, ERR_PROTOCOL, 0, "the answer is not a lifecycle state");
    if (str_is(word, "Terminated")) {
        struct event *event = events_add(ret, NOTICE_TERMINATE, "autoscaling-terminated");
        str_copy(event->text, sizeof event->text, "the auto-scaling group terminates the instance");
    }
    return true;
}
