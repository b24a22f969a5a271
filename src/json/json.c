/* SPDX-License-Identifier: Apache-2.0
 * See json.h.
 *
 * jansson reads the text and owns the values. It does not report their places, so a second walk
 * over the same, now valid, text finds them. All nodes lie in one block, in the order of the text;
 * the first is the root.
 */
#include "json/json.h"

#include "base/fd.h"
#include "base/str.h"
#include "json/syntax.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct json {
    json_t *value;   /* owned by the root */
    const char *key; /* inside the parent's value */
    unsigned line, column;
    struct json *first, *next;
};

/* The second walk: the place in the text, and the next free node. */
struct walk {
    const char *at, *end;
    struct syntax_place place;
    struct json *node;
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

static void step(struct walk *walk)
{
    syntax_pass(*walk->at, &walk->place);
    walk->at++;
}

static bool json_is_at(const struct walk *walk, const char *set)
{
    return walk->at < walk->end && strchr(set, *walk->at);
}

/* To the start of the next key or value. Also skips the ends of earlier containers. */
static void skip_between(struct walk *walk)
{
    while (json_is_at(walk, " \t\r\n,:]}"))
        step(walk);
}

static void skip_string(struct walk *walk)
{
    step(walk);
    while (walk->at < walk->end && *walk->at != '"') {
        if (*walk->at == '\\')
            step(walk);
        step(walk);
    }
    step(walk);
}

static void skip_scalar(struct walk *walk)
{
    if (json_is_at(walk, "\""))
        skip_string(walk);
    else
        while (walk->at < walk->end && !json_is_at(walk, " \t\r\n,:]}"))
            step(walk);
}

static struct json *place(struct walk *walk, json_t *value, const char *key)
{
    struct json *node = walk->node++;
    skip_between(walk);
    *node = (struct json){
        .value = value, .key = key, .line = walk->place.line, .column = walk->place.column};
    if (key) {
        skip_string(walk);
        skip_between(walk);
    }
    if (!json_is_object(value) && !json_is_array(value)) {
        skip_scalar(walk);
        return node;
    }
    step(walk); /* over the opening bracket */
    struct json **link = &node->first;
    size_t i;
    json_t *inner;
    json_object_foreach(value, key, inner)
    {
        *link = place(walk, inner, key);
        link = &(*link)->next;
    }
    json_array_foreach(value, i, inner)
    {
        *link = place(walk, inner, NULL);
        link = &(*link)->next;
    }
    return node;
}

/* Explains errors of jansson in a text with valid syntax. */
static void explain(const char *name, const char *data, const json_error_t *why, struct err *err)
{
    if (json_error_code(why) == json_error_duplicate_key)
        syntax_twice(name, data, (size_t)why->position, err);
    else if (json_error_code(why) == json_error_out_of_memory)
        err_set(err, ERR_SYSTEM, ENOMEM, "cannot read %.200s", name);
    else
        err_set(err, ERR_USAGE, 0, "%.200s:%d:%d: this cannot be read as JSON", name, why->line,
                why->column);
}

struct json *json_read(const char *name, const void *data, size_t len, struct err *err)
{
    if (!syntax_check(name, data, len, err))
        return NULL;
    json_error_t why;
    json_t *value = json_loadb(data, len, JSON_REJECT_DUPLICATES, &why);
    if (!value) {
        explain(name, data, &why, err);
        return NULL;
    }
    struct json *nodes = calloc(count_values(value), sizeof *nodes);
    if (!nodes) {
        json_decref(value);
        err_set(err, ERR_SYSTEM, ENOMEM, "cannot read %.200s", name);
        return NULL;
    }
    struct walk walk = {
        .at = data, .end = (const char *)data + len, .place = {1, 1}, .node = nodes};
    return place(&walk, value, NULL);
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

/* Returns the number of bytes read, at most `size`; -1 with errno set. */
static ssize_t json_read_all(int fd, char *data, size_t size)
{
    size_t len = 0;
    while (len < size) {
        ssize_t n = read(fd, data + len, size - len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        len += (size_t)n;
    }
    return (ssize_t)len;
}

struct json *json_read_file(const char *path, size_t max, struct err *err)
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
    ssize_t len = data ? json_read_all(fd, data, max + 1) : -1;
    if (len < 0)
        err_set(err, ERR_SYSTEM, errno, "cannot read %.200s", path);
    else if ((size_t)len > max)
        err_set(err, ERR_USAGE, 0, "cannot read %.200s: it has more than %zu bytes", path, max);
    else
        root = json_read(path, data, (size_t)len, err);
    free(data);
    return root;
}

void json_free(struct json *root)
{
    if (!root)
        return;
    json_decref(root->value);
    free(root);
}

enum json_kind json_kind(const struct json *value)
{
    static const enum json_kind kinds[] = {
        [JSON_OBJECT] = JSON_IS_OBJECT, [JSON_ARRAY] = JSON_IS_LIST, [JSON_STRING] = JSON_IS_TEXT,
        [JSON_INTEGER] = JSON_IS_INT,   [JSON_REAL] = JSON_IS_REAL,  [JSON_TRUE] = JSON_IS_BOOL,
        [JSON_FALSE] = JSON_IS_BOOL,    [JSON_NULL] = JSON_IS_NULL,
    };
    return kinds[json_typeof(value->value)];
}

const char *json_kind_name(const struct json *value)
{
    static const char *const names[] = {
        [JSON_IS_NULL] = "null",        [JSON_IS_BOOL] = "a boolean",
        [JSON_IS_INT] = "a number",     [JSON_IS_REAL] = "a number with a fraction or exponent",
        [JSON_IS_TEXT] = "a string",    [JSON_IS_LIST] = "a list",
        [JSON_IS_OBJECT] = "an object",
    };
    return names[json_kind(value)];
}

const struct json *json_first(const struct json *parent)
{
    return parent->first;
}

const struct json *json_next(const struct json *item)
{
    return item->next;
}

const struct json *json_find(const struct json *object, const char *key)
{
    for (const struct json *item = object->first; item; item = item->next)
        if (item->key && str_is(item->key, key))
            return item;
    return NULL;
}

const char *json_key(const struct json *member)
{
    return member->key;
}

unsigned json_line(const struct json *value)
{
    return value->line;
}

unsigned json_column(const struct json *value)
{
    return value->column;
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
