/* SPDX-License-Identifier: Apache-2.0
 * See ctl.h. The journal has the ends of all attempts.
 */
#include "ctl/ctl.h"

#include <stdlib.h>
#include <string.h>

const char *ended_place(const struct ctl_options *options)
{
    const char *state = getenv("PCHRUN_STATE_DIR"), *checkpoint = getenv("PCHRUN_CHECKPOINT_DIR");
    if (options->path)
        return options->path;
    return state && *state ? state : checkpoint && *checkpoint ? checkpoint : ".";
}

/* --- the attempts --- */

struct attempts {
    int64_t open; /* this attempt has started, and has no end yet; 0: none */
    int64_t last; /* the journal has it; 0: none */
    /* The last end of an attempt. Another pchrun may have gone on for this node. */
    struct answer end;
};

static void ended_show_end(struct attempts *attempts)
{
    if (attempts->end.root)
        show_attempt(attempts->end.root, 0);
    answer_free(&attempts->end);
    attempts->end = (struct answer){0};
}

/* Most lines are of other events, and are not read. */
static void ended_take_line(void *ctx, char *line, size_t len)
{
    struct attempts *attempts = ctx;
    struct answer event;
    struct err err;
    if (!strstr(line, "\"exit\"") && !strstr(line, "\"started\""))
        return;
    bool is_event = answer_read(&event, line, len, &err);
    int64_t attempt = is_event ? json_int_at(event.root, "attempt", 0) : 0;
    attempts->last = attempt > attempts->last ? attempt : attempts->last;
    if (is_event && (attempt == 0 || attempt != json_int_at(attempts->end.root, "attempt", 0)))
        ended_show_end(attempts);
    if (attempts->open && attempt && attempt != attempts->open) {
        show_attempt(NULL, attempts->open);
        attempts->open = 0;
    }
    bool is_end = is_event && json_is_at(event.root, "event", "exit");
    if (is_end || (is_event && json_is_at(event.root, "event", "started"))) {
        answer_free(&attempts->end);
        attempts->end = is_end ? event : (struct answer){0};
        attempts->open = is_end ? 0 : attempt;
    }
    if (!is_end)
        answer_free(&event);
}

/* If pchrun was killed, the journal may lack the attempt of the report. */
void ended_show(const char *dir, const struct json *report)
{
    struct attempts attempts = {0};
    show_attempt(NULL, 0);
    events_each(dir, json_int_at(report, "node_rank", 0), ended_take_line, &attempts);
    ended_show_end(&attempts);
    if (attempts.open)
        show_attempt(NULL, attempts.open);
    if (json_int_at(report, "attempt", 0) > attempts.last && !json_is_at(report, "state", "done"))
        show_attempt(NULL, json_int_at(report, "attempt", 0));
}
