/* SPDX-License-Identifier: Apache-2.0
 * See lines.h. A newline becomes the NUL of its line, in place.
 */
#include "base/lines.h"

#include <string.h>

void lines_init(struct lines *lines, size_t max, size_t chunk)
{
    *lines = (struct lines){.max = max};
    buf_init(&lines->buf, max + chunk + 1); /* and a NUL behind the last line */
}

void lines_free(struct lines *lines)
{
    buf_free(&lines->buf);
}

/* Frees the line that the last call returned. */
static void drop_taken(struct lines *lines)
{
    buf_drop(&lines->buf, lines->taken);
    lines->taken = 0;
}

bool lines_add(struct lines *lines, const void *data, size_t n)
{
    drop_taken(lines);
    if (buf_add(&lines->buf, data, n))
        return true;
    buf_drop(&lines->buf, buf_len(&lines->buf));
    lines->looked_at = 0;
    lines->is_skipping = true;
    return false;
}

static enum lines_result give(struct lines *lines, size_t len, char **ret_line, size_t *ret_len)
{
    bool is_rest = lines->is_skipping;
    lines->is_skipping = false;
    lines->looked_at = 0;
    lines->taken = len + 1;
    if (is_rest || len > lines->max) {
        drop_taken(lines);
        return is_rest ? lines_next(lines, ret_line, ret_len) : LINES_TOO_LONG;
    }
    *ret_line = (char *)buf_bytes(&lines->buf);
    (*ret_line)[len] = '\0';
    *ret_len = len;
    return LINES_ONE;
}

enum lines_result lines_next(struct lines *lines, char **ret_line, size_t *ret_len)
{
    drop_taken(lines);
    size_t n = buf_len(&lines->buf);
    const char *data = (const char *)buf_bytes(&lines->buf);
    const char *end =
        n > lines->looked_at ? memchr(data + lines->looked_at, '\n', n - lines->looked_at) : NULL;
    if (end)
        return give(lines, (size_t)(end - data), ret_line, ret_len);
    lines->looked_at = n;
    if (n <= lines->max && !lines->is_skipping)
        return LINES_NONE;
    bool is_new = !lines->is_skipping;
    buf_drop(&lines->buf, n);
    lines->looked_at = 0;
    lines->is_skipping = true;
    return is_new ? LINES_TOO_LONG : LINES_NONE;
}

enum lines_result lines_last(struct lines *lines, char **ret_line, size_t *ret_len)
{
    enum lines_result result = lines_next(lines, ret_line, ret_len);
    if (result != LINES_NONE || lines->is_skipping || buf_len(&lines->buf) == 0)
        return result;
    if (!lines_add(lines, "\n", 1))
        return LINES_NONE;
    return lines_next(lines, ret_line, ret_len);
}
