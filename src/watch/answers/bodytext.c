/* SPDX-License-Identifier: Apache-2.0
 * See body.h.
 */
#include "watch/answers/body.h"

#include "base/str.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static bool is_around(char c)
{
    return isspace((unsigned char)c) || c == '"';
}

bool bodytext_word(const char *data, size_t len, char *word, size_t size)
{
    while (len > 0 && is_around(data[0]))
        data++, len--;
    while (len > 0 && is_around(data[len - 1]))
        len--;
    if (len >= size)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (!isprint((unsigned char)data[i]))
            return false;
        word[i] = data[i];
    }
    word[len] = '\0';
    return true;
}

struct json *bodytext_json(const char *data, size_t len, enum json_kind kind, struct err *err)
{
    struct json *root = json_read("the answer", data, len, err);
    if (!root || json_kind(root) == kind)
        return root;
    err_set(err, ERR_PROTOCOL, 0, "the answer is %s, not %s", json_kind_name(root),
            kind == JSON_IS_LIST ? "a list" : "an object");
    json_free(root);
    return NULL;
}

static bool bodytext_is_same_name(const char *a, const char *b)
{
    for (;; a++, b++) {
        a += strspn(a, "-_ ");
        b += strspn(b, "-_ ");
        if (tolower((unsigned char)*a) != tolower((unsigned char)*b))
            return false;
        if (!*a)
            return true;
    }
}

const struct json *bodytext_find(const struct json *object, const char *name)
{
    for (const struct json *item = json_first(object); item; item = json_next(item))
        if (json_key(item) && bodytext_is_same_name(json_key(item), name))
            return item;
    return NULL;
}

/* ---- values of a wrong type ---- */

bool bodytext_is_set(const struct json *value)
{
    return value && json_kind(value) != JSON_IS_NULL;
}

void bodytext_unwanted(struct events *ret, const char *name, const struct json *value,
                       const char *wanted)
{
    if (ret)
        events_remark(ret, "%.60s is %s, not %s", name, json_kind_name(value), wanted);
}

const char *bodytext_text(const struct json *value, const char *name, struct events *ret)
{
    const char *text = json_text(value);
    if (value && !text)
        bodytext_unwanted(ret, name, value, "a string");
    return text ? text : "";
}

static const char *text_if_set(const struct json *value, const char *name, struct events *ret)
{
    return bodytext_is_set(value) ? bodytext_text(value, name, ret) : "";
}

const char *bodytext_of(const struct json *object, const char *name, struct events *ret)
{
    return text_if_set(bodytext_find(object, name), name, ret);
}

const char *bodytext_at(const struct json *object, const char *path, struct events *ret)
{
    return text_if_set(json_at(object, path), path, ret);
}

const struct json *bodytext_items(const struct json *object, const char *path, struct events *ret)
{
    const struct json *list = json_at(object, path);
    if (bodytext_is_set(list) && json_kind(list) != JSON_IS_LIST) {
        bodytext_unwanted(ret, path, list, "a list");
        ret->is_partial = true;
    }
    return json_items_at(object, path);
}

void bodytext_set_time(struct events *ret, struct event *event, const char *name,
                       const struct json *value)
{
    const char *date = json_text(value);
    char what[80];
    if (date || !value) {
        events_set_time(ret, event, name, date ? date : "");
        return;
    }
    snprintf(what, sizeof what, "%s, not a time in a string", json_kind_name(value));
    events_lack_time(ret, event, name, what);
}
