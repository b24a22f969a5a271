/* SPDX-License-Identifier: Apache-2.0
 * See hostlist.h.
 */
#include "discover/hostlist.h"

#include "base/str.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* No known site has more digits in a host number, or more brackets in a name. */
enum { DIGITS_MAX = 9, PARTS_MAX = 8 };

struct walk {
    const char *text;
    size_t max, count;
    void (*fn)(void *ctx, const char *host);
    void *ctx;
    char name[HOSTLIST_NAME_MAX];
    struct err *err;
};

static bool is_bad(struct walk *walk, const char *at, const char *why)
{
    return err_set(walk->err, ERR_USAGE, 0, "'%.100s' is not a list of hosts: %s at character %zu",
                   walk->text, why, (size_t)(at - walk->text) + 1);
}

/* --- one number, or two of them with a dash between --- */

struct range {
    int64_t first, last;
    int width; /* pad with zeros to this number of digits */
};

static const char digits[] = "0123456789";

/* Moves *at behind a number. -1: no number, or too long. */
static int64_t read_number(const char **at)
{
    size_t len = strspn(*at, digits);
    if (len == 0 || len > DIGITS_MAX)
        return -1;
    int64_t number = strtoll(*at, NULL, 10);
    *at += len;
    return number;
}

static bool hostlist_read_range(struct walk *walk, const char **at, struct range *ret)
{
    const char *begin = *at;
    ret->first = read_number(at);
    if (ret->first < 0)
        return is_bad(walk, begin, "a number of at most 9 digits is wanted");
    ret->width = (int)(*at - begin);
    ret->last = ret->first;
    if (**at != '-')
        return true;
    (*at)++;
    ret->last = read_number(at);
    return (ret->last >= ret->first) ||
           is_bad(walk, begin, "the range has no end, or ends before it begins");
}

/* --- one name, with its parts in brackets --- */

static bool expand(struct walk *walk, const char *at, size_t len, int parts);

static bool hostlist_finish(struct walk *walk, const char *at, size_t len)
{
    if (len == 0)
        return is_bad(walk, at, "a name is missing");
    if (walk->count == walk->max)
        return err_set(walk->err, ERR_USAGE, 0, "'%.100s' has more than %zu hosts", walk->text,
                       walk->max);
    walk->count++;
    walk->fn(walk->ctx, walk->name);
    return true;
}

static bool expand_range(struct walk *walk, const struct range *range, const char *rest, size_t len,
                         int parts)
{
    for (int64_t number = range->first; number <= range->last; number++) {
        size_t room = sizeof walk->name - len;
        int n = snprintf(walk->name + len, room, "%0*lld", range->width, (long long)number);
        if ((size_t)n >= room)
            return is_bad(walk, rest, "a name is too long");
        if (!expand(walk, rest, len + (size_t)n, parts))
            return false;
    }
    return true;
}

/* `at` stands behind the bracket. Each range goes through all of what follows. */
static bool expand_ranges(struct walk *walk, const char *at, size_t len, int parts)
{
    const char *close = strchr(at, ']');
    struct range range = {0};
    if (!close)
        return is_bad(walk, at - 1, "the bracket is not closed");
    if (parts == PARTS_MAX)
        return is_bad(walk, at - 1, "too many brackets in one name");
    if (close[1] && close[1] != ',' && !strchr(close + 1, '['))
        return is_bad(walk, close + 1, "text behind the last bracket");
    for (;; at++) {
        if (!hostlist_read_range(walk, &at, &range))
            return false;
        if (*at != ',' && at != close)
            return is_bad(walk, at, "',' or ']' is wanted");
        if (!expand_range(walk, &range, close + 1, len, parts + 1))
            return false;
        if (at == close)
            return true;
    }
}

static bool expand(struct walk *walk, const char *at, size_t len, int parts)
{
    size_t plain = strcspn(at, "[],");
    if (plain >= sizeof walk->name - len)
        return is_bad(walk, at, "a name is too long");
    memcpy(walk->name + len, at, plain);
    walk->name[len + plain] = '\0';
    at += plain;
    len += plain;
    if (*at == '[')
        return expand_ranges(walk, at + 1, len, parts);
    if (*at == ']')
        return is_bad(walk, at, "a bracket that was not opened");
    if (parts > 0 && plain > 0)
        return is_bad(walk, at - plain, "text behind the last bracket");
    return hostlist_finish(walk, at, len);
}

/* Behind the name that begins at `at`: to its comma, or the end. */
static const char *behind(const char *at)
{
    bool is_inside = false;
    for (; *at && (is_inside || *at != ','); at++)
        is_inside = *at == '[' || (is_inside && *at != ']');
    return at;
}

bool hostlist_walk(const char *text, size_t max, void (*fn)(void *ctx, const char *host), void *ctx,
                   struct err *err)
{
    struct walk walk = {.text = text, .max = max, .fn = fn, .ctx = ctx, .err = err};
    const char *at = text;
    if (strpbrk(text, " \t\n()"))
        return is_bad(&walk, strpbrk(text, " \t\n()"), "a character that no name has");
    for (;; at++) {
        if (!expand(&walk, at, 0, 0))
            return false;
        at = behind(at);
        if (!*at)
            return true;
    }
}
