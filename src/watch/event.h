/* SPDX-License-Identifier: Apache-2.0
 *
 * event: what an answer of a source says is going to happen to this machine, and the list of all
 * that one answer says. Plain data of a fixed size; pure; any thread.
 */
#ifndef PCHRUN_WATCH_EVENT_H
#define PCHRUN_WATCH_EVENT_H

#include "wire/notice.h"

#include "base/err.h"

/* The source does not say when. */
#define EVENT_AT_UNKNOWN INT64_MIN

#define EVENT_ID_MAX 64 /* as in struct notice */

struct event {
    enum notice_type type; /* terminate, checkpoint or log */
    bool is_mild;          /* the machine lives through it: what it asks for is the user's to say */
    char key[EVENT_ID_MAX]; /* what it is known by within the source as long as it is live */
    char id[EVENT_ID_MAX];  /* what it is known by for all time, as when it was seen first */
    char text[96];
    int64_t at_ns; /* the deadline, by the wall clock (date.h) */
};

#define EVENTS_MAX        32
#define EVENTS_REMARK_MAX 240
struct events {
    struct event list[EVENTS_MAX];
    unsigned count;
    bool is_partial;                /* there were others that cannot be read, or did not fit */
    char remark[EVENTS_REMARK_MAX]; /* for people: a part that cannot be read; "": none */
};

/* A new one of the list with its type and key, which is its id, too, until it gets another; its
 * moment is not known. NULL: there is one with this key already, which stands, or the list is full,
 * and says so itself. */
struct event *events_add(struct events *events, enum notice_type type, const char *key);
/* The deadline of an event of the list, which the source tells as a date under `name`. Without a
 * date
 * ("") it is not known; nor if it cannot be read, and then the list gets a remark. */
void events_set_time(struct events *events, struct event *event, const char *name,
                     const char *date);
/* "name-what" as it is, where it fits and is made of what an identifier is made of; else with a
 * number that is made of `what` (64 bits). Returns id. */
char *event_id(char id[EVENT_ID_MAX], const char *name, const char *what);
/* Makes the ids of all events those of this machine, where the source gives none: another machine,
 * or this one when it was booted anew, is told of another event. */
void events_bind(struct events *events, const char *machine);

#endif
