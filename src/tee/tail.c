/* SPDX-License-Identifier: Apache-2.0
 * See tail.h.
 */
#include "tee/tail.h"

#include "base/str.h"

#include <string.h>

#define MISSING "..."

/* --- the first lines: all bytes as they come --- */

static void add_first(struct tail *tail, const char *bytes, size_t n)
{
    while (n > 0 && tail->first_lines < tail->lines && tail->first_len < TAIL_FIRST_MAX) {
        const char *end = memchr(bytes, '\n', n);
        size_t len = end ? (size_t)(end - bytes) + 1 : n;
        if (len > TAIL_FIRST_MAX - tail->first_len)
            len = TAIL_FIRST_MAX - tail->first_len;
        memcpy(tail->first + tail->first_len, bytes, len);
        tail->first_len += (uint32_t)len;
        tail->first_lines += bytes[len - 1] == '\n';
        bytes += len;
        n -= len;
    }
}

/* --- the last ones --- */

static void tail_put(struct tail *tail, const char *bytes, size_t n)
{
    size_t done = n > TAIL_LAST_MAX ? n - TAIL_LAST_MAX : 0; /* these bytes would be overwritten */
    tail->end += done;
    while (done < n) {
        size_t at = (size_t)(tail->end % TAIL_LAST_MAX), len = TAIL_LAST_MAX - at;
        if (len > n - done)
            len = n - done;
        memcpy(tail->last + at, bytes + done, len);
        done += len;
        tail->end += len;
    }
    if (tail->end - tail->from > TAIL_LAST_MAX)
        tail->from = tail->end - TAIL_LAST_MAX;
}

/* Drops the open line, because its text starts again. It may have overwritten older lines. */
static void take_line_back(struct tail *tail)
{
    tail->end = tail->line;
    if (tail->from > tail->end)
        tail->from = tail->end;
    tail->has_cr = false;
}

static void add_last(struct tail *tail, const char *bytes, size_t n)
{
    for (size_t done = 0, len; done < n; done += len + 1) {
        const char *part = bytes + done;
        for (len = 0; len < n - done && part[len] != '\n' && part[len] != '\r'; len++)
            ;
        if (len > 0 && tail->has_cr)
            take_line_back(tail);
        tail_put(tail, part, len);
        if (len == n - done)
            return;
        tail->has_cr = part[len] == '\r';
        if (tail->has_cr)
            continue;
        tail_put(tail, "\n", 1);
        tail->line = tail->end;
    }
}

void tail_add(struct tail *tail, const char *bytes, size_t n)
{
    add_first(tail, bytes, n);
    add_last(tail, bytes, n);
}

/* --- reading: a copy of a tail that another process is changing may hold anything --- */

static void no_nul(char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (text[i] == '\0')
            text[i] = '?';
}

char *tail_first(const struct tail *tail, char *text, size_t size)
{
    size_t n = tail->first_len;
    bool is_cut = n >= TAIL_FIRST_MAX && tail->first[TAIL_FIRST_MAX - 1] != '\n';
    if (n > TAIL_FIRST_MAX)
        n = TAIL_FIRST_MAX;
    if (n > size - 1)
        n = size - 1;
    memcpy(text, tail->first, n);
    no_nul(text, n);
    if (n > 0 && text[n - 1] == '\n')
        n--;
    text[n] = '\0';
    if (is_cut)
        str_addf(text, size, MISSING);
    return text;
}

char *tail_last(const struct tail *tail, uint32_t lines, char *text, size_t size)
{
    char ring[TAIL_LAST_MAX];
    uint64_t end = tail->end, from = tail->from, len = end - from;
    if (len > TAIL_LAST_MAX)
        len = TAIL_LAST_MAX;
    for (uint64_t i = 0; i < len; i++)
        ring[i] = tail->last[(end - len + i) % TAIL_LAST_MAX];
    size_t stop = (size_t)len, at;
    text[0] = '\0';
    if (lines == 0)
        return text;
    if (stop > 0 && ring[stop - 1] == '\n')
        stop--;
    for (at = stop; at > 0; at--)
        if (ring[at - 1] == '\n' && --lines == 0)
            break;
    if (stop - at > size - sizeof MISSING)
        at = stop - (size - sizeof MISSING);
    bool is_cut = at == 0 ? end - len != 0 : ring[at - 1] != '\n';
    if (is_cut)
        str_copy(text, size, MISSING);
    size_t head = strlen(text);
    memcpy(text + head, ring + at, stop - at);
    no_nul(text + head, stop - at);
    text[head + stop - at] = '\0';
    return text;
}
