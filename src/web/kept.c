/* SPDX-License-Identifier: Apache-2.0
 * See kept.h.
 */
#include "web/kept.h"

#include "base/str.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void kept_init(struct kept *kept, uint64_t epoch)
{
    *kept = (struct kept){.epoch = epoch};
}

void kept_free(struct kept *kept)
{
    for (size_t i = 0; i < KEPT_MAX; i++)
        free(kept->lines[i].text);
    kept_init(kept, kept->epoch);
}

uint64_t kept_first(const struct kept *kept)
{
    return kept->last < KEPT_MAX ? 1 : kept->last - KEPT_MAX + 1;
}

const struct kept_line *kept_at(const struct kept *kept, uint64_t number)
{
    return &kept->lines[number % KEPT_MAX];
}

static bool kept_has(const struct kept *kept, const char *text, size_t len)
{
    for (size_t i = 0; i < KEPT_MAX; i++)
        if (kept->lines[i].text && kept->lines[i].len == len &&
            memcmp(kept->lines[i].text, text, len) == 0)
            return true;
    return false;
}

bool kept_add(struct kept *kept, const char *text, size_t len)
{
    char *copy = kept_has(kept, text, len) ? NULL : strndup(text, len);
    if (!copy)
        return false;
    struct kept_line *line = &kept->lines[++kept->last % KEPT_MAX];
    free(line->text);
    *line = (struct kept_line){.text = copy, .len = len};
    return true;
}

uint64_t kept_after(const struct kept *kept, const char *id)
{
    char prefix[KEPT_ID_SIZE];
    int64_t number;
    size_t len = (size_t)snprintf(prefix, sizeof prefix, "%" PRIx64 "-", kept->epoch);
    bool is_ours =
        id && strncmp(id, prefix, len) == 0 && str_to_i64(id + len, 0, INT64_MAX, &number);
    if (!is_ours || (uint64_t)number > kept->last || (uint64_t)number < kept_first(kept))
        return kept_first(kept);
    return (uint64_t)number + 1;
}

char *kept_id(const struct kept *kept, uint64_t number, char text[KEPT_ID_SIZE])
{
    snprintf(text, KEPT_ID_SIZE, "%" PRIx64 "-%" PRIu64, kept->epoch, number);
    return text;
}
