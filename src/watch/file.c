/* SPDX-License-Identifier: Apache-2.0
 *
 * file: an existing file is a notice. Its content may be one notice as JSON, or a text for people.
 * Removing the file cancels the notice. Content without a line end, or incomplete JSON, is read
 * again before it counts.
 */
#include "watch/answers/body.h"
#include "watch/folder.h"
#include "watch/watch.h"

#include <inttypes.h>
#include <stdio.h>

static struct trouble trouble;

/* Since when, and at which length, the content is incomplete; 0: it is complete. */
static struct {
    int64_t since_ns;
    size_t len;
} unfinished;

/* Without an id, the file's path and time identify the notice. */
static void name_it(const struct folder *folder, struct events *events)
{
    char what[4200];
    if (events->count == 0 || events->list[0].id[0])
        return;
    snprintf(what, sizeof what, "%s %" PRId64, folder->path, folder->changed_ns);
    event_id(events->list[0].id, "file", what);
}

static bool has_end(const struct folder *folder)
{
    const char *last = folder->len > 0 ? &folder->data[folder->len - 1] : "";
    return *last == '\n' || *last == '}';
}

/* True while the file may still be written: a slow writer may have emptied it first. Waits until it
 * is closed, if inotify shows that, but not for ever. If it shrinks, the wait begins again. */
static bool may_go_on(const struct folder *folder, bool is_notice)
{
    int64_t now = clock_now_ns(), patience = watch.options.interval_ns;
    if (is_notice && folder->is_closed && !folder->is_far)
        patience = clock_min(patience, FOLDER_SETTLE_NS);
    if (unfinished.since_ns == 0 || folder->len < unfinished.len)
        unfinished.since_ns = now;
    unfinished.len = folder->len;
    return now - unfinished.since_ns < patience && clock_real_ns() - folder->changed_ns < patience;
}

static void file_changed(struct folder *folder)
{
    struct events events = {0};
    struct err err;
    enum folder_found found = folder_read(folder, &err);
    int64_t since = clock_min(folder->changed_ns, clock_real_ns());
    bool ok =
        found == FOLDER_NOTHING ||
        (found == FOLDER_FILE && body_notice(folder->data, folder->len, since, &events, &err));
    if (found != FOLDER_FILE || (ok && has_end(folder))) {
        unfinished.since_ns = 0;
    } else if (may_go_on(folder, ok)) {
        folder_look_again(folder);
        return;
    }
    if (!ok) {
        watch_failed(&trouble, folder->path, &err);
        return;
    }
    watch_works(&trouble, folder->path);
    name_it(folder, &events);
    watch_tell(0, &events);
}

static bool file_start(struct err *err)
{
    static struct folder folder;
    folder.path = watch.options.path;
    folder.changed = file_changed;
    if (!folder_watch(&folder, err))
        return false;
    file_changed(&folder);
    return true;
}

const struct source source_file = {
    .word = {"file", "a file: a notice as long as it is there", "PATH", " "},
    .interval_ns = NS_PER_S,
    .lead_ns = 3600 * NS_PER_S,
    .topics = 1,
    .start = file_start,
};
