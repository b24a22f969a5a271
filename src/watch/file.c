/* SPDX-License-Identifier: Apache-2.0
 *
 * file: a file that is there is a notice; what it holds says more, if it holds anything: one notice
 * as JSON, or a text for people. One that is removed is a cancel.
 */
#include "base/str.h"
#include "watch/body.h"
#include "watch/folder.h"
#include "watch/sources.h"
#include "watch/trouble.h"

#include <inttypes.h>
#include <stdio.h>

static struct trouble trouble;

/* Without an id of its own the notice is this writing of this file. */
static void name_it(const struct folder *folder, struct events *events)
{
    char what[4200];
    for (unsigned i = 0; i < events->count; i++)
        if (!events->list[i].id[0]) {
            snprintf(what, sizeof what, "%s %" PRId64, folder->path, folder->changed_ns);
            event_id(events->list[i].id, "file", what);
        }
}

static void changed(struct folder *folder)
{
    struct events events = {0};
    struct err err;
    enum folder_found found = folder_read(folder, &err);
    int64_t now = clock_real_ns();
    int64_t since = clock_min(folder->changed_ns, now);
    if (found == FOLDER_FAILED ||
        (found == FOLDER_FILE && !body_notice(folder->data, folder->len, since, &events, &err))) {
        trouble_say(&trouble, "file", folder->path, &err);
        return;
    }
    trouble_over(&trouble, "file", folder->path);
    name_it(folder, &events);
    watch_tell(folder->watch, 0, &events);
}

static bool start(struct watch *watch, struct err *err)
{
    static struct folder folder;
    folder.path = watch->options.path;
    folder.changed = changed;
    if (!folder_watch(&folder, watch, err))
        return false;
    changed(&folder);
    return true;
}

const struct source source_file = {
    .name = "file",
    .help = "a file: a notice as long as it is there",
    .arguments = "PATH",
    .options = " ",
    .interval_ns = NS_PER_S,
    .lead_ns = 3600 * NS_PER_S,
    .start = start,
};
