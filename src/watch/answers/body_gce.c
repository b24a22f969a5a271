/* SPDX-License-Identifier: Apache-2.0
 * See body.h: what the metadata server of Google Compute Engine says.
 */
#include "base/clock.h"
#include "base/str.h"
#include "base/value.h"
#include "watch/answers/body.h"

#include <string.h>
#include <strings.h>

#define NONE_YET   "no notifications have been received yet"
#define STOP_MAX_S (INT64_C(366) * 24 * 3600)

static bool unknown_word(const char *what, const char *word, struct err *err)
{
    return err_set(err, ERR_PROTOCOL, 0, "\"%.80s\" is not a known value of %s", word, what);
}

/* Adds an event whose text is its id. */
static void add_plain(struct events *ret, enum notice_type type, const char *id, bool is_mild)
{
    struct event *event = events_add(ret, type, id);
    str_copy(event->text, sizeof event->text, id);
    event->is_mild = is_mild;
}

bool body_gce_maintenance(const char *data, size_t len, struct events *ret, struct err *err)
{
    char word[128];
    if (!bodytext_word(data, len, word, sizeof word))
        return unknown_word("maintenance-event", "(not printable)", err);
    if (str_is(word, "TERMINATE_ON_HOST_MAINTENANCE"))
        add_plain(ret, NOTICE_TERMINATE, word, false);
    else if (str_is(word, "MIGRATE_ON_HOST_MAINTENANCE"))
        add_plain(ret, NOTICE_LOG, word, true);
    else if (!str_is(word, "NONE"))
        return unknown_word("maintenance-event", word, err);
    return true;
}

bool body_gce_preempted(const char *data, size_t len, struct events *ret, struct err *err)
{
    char word[128];
    if (!bodytext_word(data, len, word, sizeof word))
        return unknown_word("preempted", "(not printable)", err);
    if (str_is(word, "TRUE"))
        add_plain(ret, NOTICE_TERMINATE, "preempted", false);
    else if (!str_is(word, "FALSE"))
        return unknown_word("preempted", word, err);
    return true;
}

/* Reads an object with a maintenance window that is not over yet. */
static bool read_window(const struct json *root, struct events *ret, struct err *err)
{
    const struct json *from = bodytext_find(root, "window_start_time");
    const char *start = from && json_text(from) ? json_text(from) : "";
    const char *status = bodytext_of(root, "maintenance_status", ret);
    const char *type = bodytext_of(root, "type", ret);
    if (!from || (json_text(from) && !*start))
        return err_set(err, ERR_PROTOCOL, 0,
                       "the answer announces maintenance without window_start_time");
    if (str_is(status, "COMPLETE"))
        return true;
    struct event *event = events_add(ret, NOTICE_TERMINATE, "upcoming-maintenance");
    if (*start)
        event_id(event->id, "upcoming-maintenance", start);
    str_addf(event->text, sizeof event->text, "%.20s maintenance from %.40s, %.16s",
             *type ? type : "host", *start ? start : "an unknown time",
             *status ? status : "PENDING");
    /* Once maintenance has begun, its time for this machine is unknown. */
    bodytext_set_time(ret, event, "window_start_time", str_is(status, "ONGOING") ? NULL : from);
    return true;
}

/* {} or the word NONE means no maintenance. Some answers wrap the object in a named member. */
bool body_gce_upcoming(const char *data, size_t len, struct events *ret, struct err *err)
{
    char word[16];
    if (bodytext_word(data, len, word, sizeof word) && str_is(word, "NONE"))
        return true;
    JSON_CLEANUP struct json *root = bodytext_json(data, len, JSON_IS_OBJECT, err);
    if (!root)
        return false;
    const struct json *error = json_find(root, "error");
    const struct json *named = bodytext_find(root, "upcoming-maintenance");
    const struct json *window = named ? named : root;
    if (error)
        return err_set(err, ERR_PROTOCOL, 0, "the answer is an error: %.120s",
                       json_text(error) ? json_text(error) : json_kind_name(error));
    if (json_kind(window) != JSON_IS_OBJECT)
        return err_set(err, ERR_PROTOCOL, 0, "the upcoming maintenance is %s, not an object",
                       json_kind_name(window));
    return !json_first(window) || read_window(window, ret, err);
}

bool body_gce_says_none(const char *data, size_t len)
{
    JSON_CLEANUP struct json *root = bodytext_json(data, len, JSON_IS_OBJECT, NULL);
    const char *error = root ? bodytext_of(root, "error", NULL) : "";
    return strncasecmp(error, NONE_YET, strlen(NONE_YET)) == 0;
}

/* ---- a requested stop ---- */

/* All other words count as "no stop": the server has several words for it. */
bool body_gce_stop(const char *data, size_t len, struct events *ret, struct err *err)
{
    char word[64];
    if (!bodytext_word(data, len, word, sizeof word))
        return unknown_word("stop-state", "(not printable)", err);
    if (!str_is_of(word, STR_UPPER "_"))
        return unknown_word("stop-state", word, err);
    if (str_is(word, "PENDING_STOP") || str_is(word, "STOPPING")) {
        struct event *event = events_add(ret, NOTICE_TERMINATE, "stop");
        str_addf(event->text, sizeof event->text, "the VM is being stopped: %.40s", word);
    }
    return true;
}

bool body_gce_stop_end(const char *since, const char *duration, int64_t *ret, struct err *err)
{
    int64_t since_ns, seconds, lasts_ns = 0;
    if (!date_parse(since, &since_ns))
        return err_set(err, ERR_PROTOCOL, 0, "request-timestamp is \"%.40s\", which is not a time",
                       since);
    if (str_to_i64(duration, 0, STOP_MAX_S, &seconds))
        lasts_ns = seconds * NS_PER_S;
    else if (!value_duration(duration, 0, STOP_MAX_S * NS_PER_S, &lasts_ns, err))
        return err_wrap(err, "max-duration");
    *ret = since_ns > INT64_MAX - lasts_ns ? INT64_MAX : since_ns + lasts_ns;
    return true;
}
