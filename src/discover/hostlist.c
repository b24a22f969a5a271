/* SPDX-License-Identifier: Apache-2.0
 * See hostlist.h.
 */
#include "discover/hostlist.h"

#include "base/str.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* No known site has more digits in a host number, or more brackets in a name. */
enum { DIGITS_MAX = 9, PARTS_MAX = 8 };

struct reading {
    const char *text;
    size_t max;
    struct err *err;
};

/* The hosts that one name with its brackets stands for. */
struct name {
    char first[HOSTLIST_NAME_MAX];
    size_t len; /* of the first */
    size_t n;
    int parts;
};

static bool is_bad(const struct reading *reading, const char *at, const char *why)
{
    return err_set(reading->err, ERR_USAGE, 0,
                   "'%.100s' is not a list of hosts: %s at character %zu", reading->text, why,
                   (size_t)(at - reading->text) + 1);
}

static bool has_more(const struct reading *reading)
{
    return err_set(reading->err, ERR_USAGE, 0, "'%.100s' has more than %zu hosts", reading->text,
                   reading->max);
}

/* Moves *at past a number. -1: no number, or too long. */
static int64_t read_number(const char **at)
{
    size_t len = strspn(*at, "0123456789");
    if (len == 0 || len > DIGITS_MAX)
        return -1;
    int64_t number = strtoll(*at, NULL, 10);
    *at += len;
    return number;
}

/* Adds `len` characters to the first host. */
static bool name_add(const struct reading *reading, struct name *name, const char *text, size_t len)
{
    if (len >= sizeof name->first - name->len)
        return is_bad(reading, text, "a name is too long");
    memcpy(name->first + name->len, text, len);
    name->len += len;
    return true;
}

/* Reads one number, or two with a dash between them. Moves *at past them, and adds the number of
 * hosts to *n. */
static bool hostlist_read_range(const struct reading *reading, const char **at, size_t *n)
{
    const char *begin = *at;
    int64_t first = read_number(at), last = first;
    if (first < 0)
        return is_bad(reading, begin, "a number of at most 9 digits is wanted");
    if (**at == '-') {
        (*at)++;
        last = read_number(at);
    }
    *n += (size_t)(last - first) + 1;
    return last >= first ||
           is_bad(reading, begin, "the range has no end, or ends before it begins");
}

/* Reads a part in brackets. Moves *at from the opening bracket to after the closing one. */
static bool read_part(const struct reading *reading, const char **at, struct name *name)
{
    const char *open = *at;
    size_t n = 0;
    if (!strchr(open, ']'))
        return is_bad(reading, open, "the bracket is not closed");
    if (name->parts++ == PARTS_MAX)
        return is_bad(reading, open, "too many brackets in one name");
    do {
        (*at)++;
        if (!hostlist_read_range(reading, at, &n))
            return false;
        if (**at != ',' && **at != ']')
            return is_bad(reading, *at, "',' or ']' is wanted");
    } while (**at == ',');
    (*at)++;
    name->n *= n;
    if (name->n > reading->max)
        return has_more(reading);
    return name_add(reading, name, open + 1, strspn(open + 1, "0123456789"));
}

/* Reads a name. Moves *at past it: to a comma, or to the end. */
static bool hostlist_read_name(const struct reading *reading, const char **at, struct name *name)
{
    for (;;) {
        size_t plain = strcspn(*at, "[],");
        char end = (*at)[plain];
        if (name->parts > 0 && plain > 0 && end != '[')
            return is_bad(reading, *at, "text behind the last bracket");
        if (!name_add(reading, name, *at, plain))
            return false;
        *at += plain;
        if (end == ']')
            return is_bad(reading, *at, "a bracket that was not opened");
        if (end != '[')
            return name->len > 0 || is_bad(reading, *at, "a name is missing");
        if (!read_part(reading, at, name))
            return false;
    }
}

bool hostlist_read(const char *text, size_t max, struct hostlist *ret, struct err *err)
{
    struct reading reading = {.text = text, .max = max, .err = err};
    const char *at = text, *strange = strpbrk(text, " \t\n()");
    *ret = (struct hostlist){.n = 0};
    if (strange)
        return is_bad(&reading, strange, "a character that no name has");
    for (;; at++) {
        struct name name = {.n = 1};
        if (!hostlist_read_name(&reading, &at, &name))
            return false;
        if (ret->n == 0)
            str_copy(ret->first, sizeof ret->first, name.first);
        ret->n += name.n;
        if (ret->n > max)
            return has_more(&reading);
        if (!*at)
            return true;
    }
}
