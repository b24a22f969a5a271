/* SPDX-License-Identifier: Apache-2.0
 * See controlmsg.h.
 */
#include "status/controlmsg.h"

#include "base/clock.h"
#include "base/str.h"
#include "json/json.h"

/* A year: nothing that is computed from it overflows. */
#define LEFT_MAX_MS (INT64_C(366) * 24 * 3600 * 1000)

typedef bool member_fn(const struct json *value, struct control_request *ret, struct err *err);

static bool take_version(const struct json *value, struct control_request *ret, struct err *err)
{
    int64_t version;
    if (json_int(value, &version) && version == CONTROL_VERSION)
        return true;
    return err_set(err, ERR_PROTOCOL, 0,
                   "this pchrun (" PCHRUN_VERSION ") speaks version %d of the protocol; use the "
                   "pchctl that came with it",
                   CONTROL_VERSION);
}

static bool take_verb(const struct json *value, struct control_request *ret, struct err *err)
{
    const char *text = json_text(value);
    return (text && control_verb_of(text, &ret->verb)) ||
           err_set(err, ERR_PROTOCOL, 0, "\"do\" names no request that this pchrun knows");
}

static bool take_follow(const struct json *value, struct control_request *ret, struct err *err)
{
    return json_bool(value, &ret->follows) ||
           err_set(err, ERR_PROTOCOL, 0, "\"follow\" is not true or false");
}

static bool take_of_all(const struct json *value, struct control_request *ret, struct err *err)
{
    return json_bool(value, &ret->is_of_all) ||
           err_set(err, ERR_PROTOCOL, 0, "\"all\" is not true or false");
}

static bool take_left(const struct json *value, struct control_request *ret, struct err *err)
{
    int64_t ms;
    if (!json_int(value, &ms) || ms < 0 || ms > LEFT_MAX_MS)
        return err_set(err, ERR_PROTOCOL, 0,
                       "\"left_ms\" is not a number of milliseconds, of a year at most");
    ret->left_ns = ms * NS_PER_MS;
    return true;
}

static bool controlmsg_take_text(const struct json *value, struct control_request *ret,
                                 struct err *err)
{
    const char *text = json_text(value);
    if (!text || !str_copy(ret->text, sizeof ret->text, text))
        return err_set(err, ERR_PROTOCOL, 0, "\"text\" is not a text of at most %d bytes",
                       CONTROL_TEXT_MAX);
    str_printable(ret->text);
    return true;
}

/* The version comes first: its error must win over all others. */
static const struct {
    const char *key;
    member_fn *take;
    bool is_required;
} members[] = {
    {"version", take_version, true}, {"do", take_verb, true},
    {"follow", take_follow, false},  {"all", take_of_all, false},
    {"left_ms", take_left, false},   {"text", controlmsg_take_text, false},
};

static bool is_member(const char *key)
{
    for (size_t i = 0; i < ARRAY_LEN(members); i++)
        if (str_is(members[i].key, key))
            return true;
    return false;
}

static bool take_all(const struct json *root, struct control_request *ret, struct err *err)
{
    if (json_kind(root) != JSON_IS_OBJECT)
        return err_set(err, ERR_PROTOCOL, 0, "a request is an object, not %s",
                       json_kind_name(root));
    for (size_t i = 0; i < ARRAY_LEN(members); i++) {
        const struct json *value = json_find(root, members[i].key);
        if ((value || members[i].is_required) && !members[i].take(value, ret, err))
            return false;
    }
    for (const struct json *member = json_first(root); member; member = json_next(member))
        if (!is_member(json_key(member)))
            return err_set(err, ERR_PROTOCOL, 0, "a request has no \"%.40s\"", json_key(member));
    return true;
}

bool controlmsg_read(const char *line, size_t len, struct control_request *ret, struct err *err)
{
    *ret = (struct control_request){.left_ns = NOTICE_LEFT_UNKNOWN};
    struct json *root = json_read("request", line, len, err);
    bool ok = root && take_all(root, ret, err);
    json_free(root);
    return ok;
}
