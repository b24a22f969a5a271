/* SPDX-License-Identifier: Apache-2.0
 * See body.h.
 */
#include "watch/answers/body.h"

#include "base/str.h"

#include <ctype.h>
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

bool bodytext_is_one_of(const char *word, const char *const *list)
{
    for (; *list; list++)
        if (str_is(word, *list))
            return true;
    return false;
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

const char *bodytext_of(const struct json *object, const char *name)
{
    const char *text = json_text(bodytext_find(object, name));
    return text ? text : "";
}
