/* SPDX-License-Identifier: Apache-2.0
 *
 * events: the newest events of a job's journal, each as one line of text. Each event has a number,
 * which counts from 0; the oldest ones are dropped. Owns nothing but itself. One thread at a time.
 */
#pragma once

#include "json/json.h"

enum { EVENTS_MAX = 1024 };

struct event_line {
    char time[16]; /* "12:03:04", of the supervisor's clock in UTC */
    char kind[24];
    char text[256]; /* may hold control characters */
};

struct events {
    struct event_line list[EVENTS_MAX];
    uint64_t first, next; /* the oldest event that is kept; the number of the next one */
};

/* Adds a line of the journal. */
void events_take(struct events *events, const struct json *event);
/* The event with this number, which must be kept. Valid until the next events_take(). */
const struct event_line *events_at(const struct events *events, uint64_t number);
/* True for a failure, a notice, or a save that failed. */
bool events_is_bad(const struct event_line *event);
