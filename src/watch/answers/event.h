/* SPDX-License-Identifier: Apache-2.0
 *
 * event: a coming event of this machine as a source reports it, and the list of all events of one
 * answer. Plain data of a fixed size; pure; any thread.
 */
#pragma once

#include "wire/notice.h"

#include "base/err.h"

/* The source gives no time. */
#define EVENT_AT_UNKNOWN INT64_MIN

/* As in struct notice. */
#define EVENT_ID_MAX   64
#define EVENT_TEXT_MAX 96

struct event {
    enum notice_type type;  /* terminate, checkpoint or log */
    bool is_mild;           /* the machine survives it: the user chooses the reaction */
    char key[EVENT_ID_MAX]; /* identifies it within the source while it is live */
    char id[EVENT_ID_MAX];  /* identifies it for ever */
    char text[EVENT_TEXT_MAX];
    int64_t at_ns;       /* the deadline, by the wall clock (date.h) */
    bool keeps_earliest; /* a deadline that moves later is not believed */
};

#define EVENTS_MAX        32
#define EVENTS_REMARK_MAX 480
struct events {
    struct event list[EVENTS_MAX];
    unsigned count;
    bool is_partial;                /* the list lacks events that were unreadable or did not fit */
    char remark[EVENTS_REMARK_MAX]; /* for people: the unreadable parts; "": none */
};

/* Adds an event with type and key. The key is also the event's id until the event gets another id;
 * the time is unknown. NULL: the key exists already, or the list is full (is_partial). */
struct event *events_add(struct events *events, enum notice_type type, const char *key);
/* The event with that key; NULL: there is none. */
const struct event *events_find(const struct events *events, const char *key);
/* Adds to the remark, behind "; ". A text that is too long is cut. */
void events_remark(struct events *events, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Remarks that the event has no deadline, because what the source has under `name` is `what`. */
void events_lack_time(struct events *events, struct event *event, const char *name,
                      const char *what);
/* Sets an event's deadline from the source's date under `name`. "": unknown. A malformed date:
 * unknown, and the list gets a remark. */
void events_set_time(struct events *events, struct event *event, const char *name,
                     const char *date);
/* "name-what" if it fits and has only the characters of an id; else with a 64-bit hash for `what`.
 * Returns id. */
char *event_id(char id[EVENT_ID_MAX], const char *name, const char *what);
/* Adds `machine` to the ids of all events, for sources with ids that are not unique. So another
 * machine, or this one after a reboot, has other ids. */
void events_bind(struct events *events, const char *machine);
