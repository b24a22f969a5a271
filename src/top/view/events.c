/* SPDX-License-Identifier: Apache-2.0
 * See events.h.
 */
#include "top/view/events.h"

#include "base/str.h"
#include "ctl/tally.h"

#include <inttypes.h>
#include <string.h>

/* These members have a column of their own, are equal in all lines, or are no news for people. */
static const char *const left_out[] = {"ts",    "node",  "attempt", "generation",
                                       "event", "level", NULL};
/* These say what they are without their names. */
static const char *const nameless[] = {"text", "topic", NULL};

static void event_add_number(char *text, size_t size, const char *name, int64_t number)
{
    char digits[TALLY_NUMBER_SIZE];
    if (number >= 0 && strstr(name, "step"))
        str_addf(text, size, "%s", tally_number(number, digits));
    else
        str_addf(text, size, "%" PRId64, number);
}

/* Adds "resume_step": 1200 as "resume step 1,200". Other kinds of values are left out. */
static void event_add_member(struct event_line *line, const struct json *member)
{
    char name[32] = "", *text = line->text;
    size_t size = sizeof line->text;
    int64_t number;
    const char *value = json_text(member);
    bool is_number = json_int(member, &number);
    if (str_is_one_of(json_key(member), left_out) || (!is_number && (!value || !*value)))
        return;
    if (!str_is_one_of(json_key(member), nameless) && !str_is(json_key(member), line->kind))
        str_addf(name, sizeof name, "%.30s ", json_key(member));
    for (char *c = name; *c; c++)
        if (*c == '_')
            *c = ' ';
    str_addf(text, size, "%s%s", *text ? ", " : "", name);
    if (is_number)
        event_add_number(text, size, name, number);
    else
        str_addf(text, size, "%s", value);
}

void events_take(struct events *events, const struct json *event)
{
    struct event_line *line = &events->list[events->next % EVENTS_MAX];
    const char *ts = json_text_at(event, "ts"), *clock = strchr(ts, 'T');
    *line = (struct event_line){0};
    str_copy(line->kind, sizeof line->kind, json_text_at(event, "event"));
    if (clock)
        str_addf(line->time, sizeof line->time, "%.8s", clock + 1);
    for (const struct json *member = json_first(event); member; member = json_next(member))
        event_add_member(line, member);
    events->next++;
    if (events->next - events->first > EVENTS_MAX)
        events->first = events->next - EVENTS_MAX;
}

const struct event_line *events_at(const struct events *events, uint64_t number)
{
    return &events->list[number % EVENTS_MAX];
}

bool events_is_bad(const struct event_line *event)
{
    return str_is(event->kind, "failed") || str_is(event->kind, "notice") ||
           str_is(event->kind, "signal") || str_is(event->kind, "stop_given_up") ||
           (str_is(event->kind, "round") && strstr(event->text, "failed"));
}
