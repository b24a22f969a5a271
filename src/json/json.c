/* SPDX-License-Identifier: Apache-2.0
 * See json.h.
 *
 * jansson reads the text and owns the values. All nodes lie in one block, in the order of the text;
 * the first is the root.
 */
#include "json/json.h"

#include "base/fd.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct json {
    json_t *value;   /* owned by the root */
    const char *key; /* owned by the parent's value */
    struct json *first, *next;
};

static size_t count_values(json_t *value)
{
    size_t n = 1, i;
    const char *key;
    json_t *inner;
    json_object_foreach(value, key, inner) n += count_values(inner);
    json_array_foreach(value, i, inner) n += count_values(inner);
    return n;
}

/* Takes the next free node for this value, and the following nodes for the values inside. */
static struct json *json_fill(struct json **next_free, json_t *value, const char *key)
{
    struct json *node = (*next_free)++, **link = &node->first;
    size_t i;
    json_t *inner;
    *node = (struct json){.value = value, .key = key};
    json_object_foreach(value, key, inner)
    {
        *link = json_fill(next_free, inner, key);
        link = &(*link)->next;
    }
    json_array_foreach(value, i, inner)
    {
        *link = json_fill(next_free, inner, NULL);
        link = &(*link)->next;
    }
    return node;
}

/* Advice for an error of jansson. */
static const char *json_advice(const char *data, size_t len, enum json_error_code code)
{
    static const char *const texts[] = {
        [json_error_stack_overflow] = "lists and objects are nested too deeply",
        [json_error_invalid_utf8] = "save it as UTF-8 text",
        [json_error_premature_end_of_input] =
            "it is empty or cut off: write at least {}, and close each quote and bracket",
        [json_error_end_of_input_expected] = "remove all that follows the last bracket",
        [json_error_null_character] = "a string cannot hold a NUL",
        [json_error_duplicate_key] = "write each key of an object once",
        [json_error_numeric_overflow] = "a number must fit into 64 bits",
    };
    if (len >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0)
        return "save it as UTF-8 without a byte order mark";
    if ((size_t)code < ARRAY_LEN(texts) && texts[code])
        return texts[code];
    return "write a comma between two values but none after the last, each string in \"double "
           "quotes\", and no comment";
}

static void json_explain(const char *name, const char *advice, json_error_t *why, struct err *err)
{
    enum json_error_code code = json_error_code(why);
    if (code == json_error_out_of_memory)
        err_set(err, ERR_SYSTEM, ENOMEM, "cannot read %.200s", name);
    else
        err_set(err, ERR_USAGE, 0, "%.150s:%d:%d: %s; %s", name, why->line,
                why->column > 0 ? why->column : 1, str_printable(why->text), advice);
}

/* `advice` for any error of the syntax; NULL: what the writer of the data can do about this one. */
static struct json *json_parse(const char *name, const void *data, size_t len, const char *advice,
                               struct err *err)
{
    json_error_t why;
    json_t *value = json_loadb(data, len, JSON_REJECT_DUPLICATES, &why);
    if (!value) {
        advice = advice ? advice : json_advice(data, len, json_error_code(&why));
        json_explain(name, advice, &why, err);
        return NULL;
    }
    struct json *nodes = calloc(count_values(value), sizeof *nodes), *next_free = nodes;
    if (!nodes) {
        json_decref(value);
        err_set(err, ERR_SYSTEM, ENOMEM, "cannot read %.200s", name);
        return NULL;
    }
    return json_fill(&next_free, value, NULL);
}

struct json *json_read(const char *name, const void *data, size_t len, struct err *err)
{
    return json_parse(name, data, len, NULL, err);
}

static bool check_file(int fd, const char *path, size_t max, struct err *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return err_set(err, ERR_USAGE, errno, "cannot look at %.200s", path);
    if (S_ISDIR(st.st_mode))
        return err_set(err, ERR_USAGE, EISDIR, "cannot read %.200s", path);
    if (!S_ISREG(st.st_mode))
        return err_set(err, ERR_USAGE, 0, "cannot read %.200s: it is not a regular file", path);
    if ((uintmax_t)st.st_size > max)
        return err_set(err, ERR_USAGE, 0, "cannot read %.200s: it has %jd bytes, the limit is %zu",
                       path, (intmax_t)st.st_size, max);
    return true;
}

static struct json *json_load(const char *path, size_t max, const char *advice, struct err *err)
{
    /* Non-blocking: a FIFO without a writer must not block us. */
    FD_CLEANUP int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0) {
        err_set(err, ERR_USAGE, errno, "cannot open %.200s", path);
        return NULL;
    }
    if (!check_file(fd, path, max, err))
        return NULL;
    char *data = malloc(max + 1); /* one byte more, to detect growth */
    struct json *root = NULL;
    ssize_t len = data ? fd_read_all(fd, data, max + 1) : -1;
    if (len < 0)
        err_set(err, ERR_SYSTEM, errno, "cannot read %.200s", path);
    else if ((size_t)len > max)
        err_set(err, ERR_USAGE, 0, "cannot read %.200s: it has more than %zu bytes", path, max);
    else
        root = json_parse(path, data, (size_t)len, advice, err);
    free(data);
    return root;
}

struct json *json_read_file(const char *path, size_t max, struct err *err)
{
    return json_load(path, max, NULL, err);
}

struct json *json_read_written(const char *path, size_t max, struct err *err)
{
    return json_load(path, max, JSON_DAMAGED, err);
}

void json_free(struct json *root)
{
    if (!root)
        return;
    json_decref(root->value);
    free(root);
}

bool json_make_printable(struct json *root, struct err *err)
{
    const char *text = json_string_value(root->value);
    char *copy = text ? strdup(text) : NULL;
    bool ok = !text || (copy && json_string_set_nocheck(root->value, str_printable(copy)) == 0);
    free(copy);
    for (struct json *item = root->first; ok && item; item = item->next)
        ok = json_make_printable(item, err);
    return ok || err_set(err, ERR_SYSTEM, ENOMEM, "cannot read a text");
}

static const struct {
    enum json_kind kind;
    const char *name;
} kinds[] = {
    [JSON_OBJECT] = {JSON_IS_OBJECT, "an object"},
    [JSON_ARRAY] = {JSON_IS_LIST, "a list"},
    [JSON_STRING] = {JSON_IS_TEXT, "a string"},
    [JSON_INTEGER] = {JSON_IS_INT, "a number"},
    [JSON_REAL] = {JSON_IS_REAL, "a number with a fraction or exponent"},
    [JSON_TRUE] = {JSON_IS_BOOL, "a boolean"},
    [JSON_FALSE] = {JSON_IS_BOOL, "a boolean"},
    [JSON_NULL] = {JSON_IS_NULL, "null"},
};

enum json_kind json_kind(const struct json *value)
{
    return kinds[json_typeof(value->value)].kind;
}

const char *json_kind_name(const struct json *value)
{
    return kinds[json_typeof(value->value)].name;
}

const struct json *json_first(const struct json *parent)
{
    return parent ? parent->first : NULL;
}

const struct json *json_next(const struct json *item)
{
    return item->next;
}

const struct json *json_find(const struct json *object, const char *key)
{
    for (const struct json *item = json_first(object); item; item = item->next)
        if (item->key && str_is(item->key, key))
            return item;
    return NULL;
}

const char *json_key(const struct json *member)
{
    return member->key;
}

const char *json_text(const struct json *value)
{
    return value ? json_string_value(value->value) : NULL;
}

bool json_int(const struct json *value, int64_t *ret)
{
    if (!value || !json_is_integer(value->value))
        return false;
    *ret = json_integer_value(value->value);
    return true;
}

bool json_number(const struct json *value, double *ret)
{
    if (!value || !json_is_number(value->value))
        return false;
    *ret = json_number_value(value->value);
    return true;
}

bool json_bool(const struct json *value, bool *ret)
{
    if (!value || !json_is_boolean(value->value))
        return false;
    *ret = json_is_true(value->value);
    return true;
}

bool json_unwanted(const struct json *value, const char *wanted, struct err *err)
{
    return err_set(err, ERR_USAGE, 0, "%s, not %s", wanted, json_kind_name(value));
}

const char *json_need_text(const struct json *value, struct err *err)
{
    const char *text = json_text(value);
    if (!text)
        json_unwanted(value, "a string is wanted", err);
    return text;
}

/* --- by path --- */

const struct json *json_at(const struct json *object, const char *path)
{
    char copy[64], *rest = copy;
    str_copy(copy, sizeof copy, path);
    while (rest)
        object = json_find(object, strsep(&rest, "."));
    return object;
}

const struct json *json_items_at(const struct json *object, const char *path)
{
    const struct json *list = json_at(object, path);
    return list && json_kind(list) == JSON_IS_LIST ? list->first : NULL;
}

const char *json_text_at(const struct json *object, const char *path)
{
    const char *found = json_text(json_at(object, path));
    return found ? found : "";
}

bool json_is_at(const struct json *object, const char *path, const char *text)
{
    return str_is(json_text_at(object, path), text);
}

int64_t json_int_at(const struct json *object, const char *path, int64_t missing)
{
    int64_t value;
    return json_int(json_at(object, path), &value) ? value : missing;
}

double json_real_at(const struct json *object, const char *path, double missing)
{
    double value;
    return json_number(json_at(object, path), &value) ? value : missing;
}

bool json_bool_at(const struct json *object, const char *path)
{
    bool value;
    return json_bool(json_at(object, path), &value) && value;
}
