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
 * first time. `name` is the service's name of the time. */
static void add_spot(struct events *ret, const char *action, const char *name, const char *time)
{
    char prefix[24], key[EVENT_ID_MAX];
    snprintf(prefix, sizeof prefix, "spot-%.16s", action);
    struct event *event = events_add(ret, NOTICE_TERMINATE, event_id(key, "spot", action));
    event_id(event->id, prefix, time);
    snprintf(event->text, sizeof event->text, "spot instance: %.24s at %.40s", action,
             *time ? time : "an unknown time");
    events_set_time(ret, event, name, time);
}

bool body_aws_action(const char *data, size_t len, struct events *ret, struct err *err)
{
    JSON_CLEANUP struct json *root = bodytext_json(data, len, JSON_IS_OBJECT, err);
    if (!root)
        return false;
    const char *action = bodytext_of(root, "action");
    if (!*action)
        return err_set(err, ERR_PROTOCOL, 0, "the answer has no \"action\"");
    add_spot(ret, action, "time", bodytext_of(root, "time"));
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
    static const char name[] = "termination-time";
    char whole[96], iso[32];
    int64_t at_ns;
    snprintf(whole, sizeof whole, "%.80s%s", word, zone);
    if (*zone && date_parse(whole, &at_ns)) {
        clock_iso8601(at_ns, iso, sizeof iso);
        add_spot(ret, "terminate", name, iso);
        return true;
    }
    if (!date_parse(word, &at_ns) && !looks_like_time(word))
        return err_set(err, ERR_PROTOCOL, 0, "the answer is \"%.60s\", which is not a time", word);
    add_spot(ret, "terminate", name, word);
    return true;
}

static bool read_word(const char *data, size_t len, char word[80], struct err *err)
{
    return (bodytext_word(data, len, word, 80) && *word) ||
           err_set(err, ERR_PROTOCOL, 0, "the answer is not a time");
}

/* The older path. By its documentation, a value that is not a time means no notice. The log still
 * gets the answer: it might be a time in a new format. */
bool body_aws_termination(const char *data, size_t len, struct events *ret, struct err *err)
{
    char word[80];
    if (!read_word(data, len, word, err))
        return false;
    if (!read_time(word, "", ret, NULL))
        snprintf(ret->remark, sizeof ret->remark,
                 "spot/termination-time is \"%.60s\", which is not a time, so it is not a notice",
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
        return err_set(err, ERR_PROTOCOL, 0, "the answer is not a lifecycle state");
    if (str_is(word, "Terminated")) {
        struct event *event = events_add(ret, NOTICE_TERMINATE, "autoscaling-terminated");
        str_copy(event->text, sizeof event->text, "the auto-scaling group terminates the instance");
    }
    return true;
}
