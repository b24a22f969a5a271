/* SPDX-License-Identifier: Apache-2.0
 * See ctl.h. Reads the journal of a node from the state directory.
 */
#include "ctl/ctl.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

enum { LINE_BYTES_MAX = 64 * 1024 };

static bool events_read(const char *path, events_fn *fn, void *ctx)
{
    char data[LINE_BYTES_MAX], *line;
    size_t n, len;
    struct lines lines;
    enum lines_result next;
    FILE *file = openfile_text(path);
    if (!file)
        return false;
    lines_init(&lines, LINE_BYTES_MAX, sizeof data);
    while ((n = fread(data, 1, sizeof data, file)) > 0 && lines_add(&lines, data, n))
        while ((next = lines_next(&lines, &line, &len)) != LINES_NONE)
            if (next == LINES_ONE)
                fn(ctx, line, len);
    lines_free(&lines);
    fclose(file);
    return true;
}

/* A full journal is renamed, so its older half comes first. */
bool events_of(const char *path, events_fn *fn, void *ctx)
{
    char older[PATH_MAX];
    bool ret =
        snprintf(older, sizeof older, "%s.1", path) < PATH_MAX && events_read(older, fn, ctx);
    return events_read(path, fn, ctx) || ret;
}

bool events_each(const char *dir, int64_t node, events_fn *fn, void *ctx)
{
    char path[PATH_MAX];
    return snprintf(path, sizeof path, "%s/events.%" PRId64 ".jsonl", dir, node) < PATH_MAX &&
           events_of(path, fn, ctx);
}
