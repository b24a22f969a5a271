/* SPDX-License-Identifier: Apache-2.0
 *
 * notice: what a notice source tells, one JSON object per line (pchrun-protocol(7)); read by
 * link/notices, written by pchrun-watch, and acted upon by the core. Plain data; any thread.
 *
 * A notice is known by its source and its id: one that comes again is the same notice with what it
 * says now, one with another id is another. A source that has no ids leaves them empty, and then
 * has one notice at a time.
 */
#ifndef PCHRUN_WIRE_NOTICE_H
#define PCHRUN_WIRE_NOTICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum notice_type {
    NOTICE_TERMINATE,  /* this node will be taken away: save and leave */
    NOTICE_CHECKPOINT, /* something may happen to it: save and go on */
    NOTICE_LOG,        /* worth a line, nothing else */
    NOTICE_CANCEL,     /* the notice of this id holds no more; without an id: all of the source */
    NOTICE__COUNT
};

/* The source does not say when: the configured grace, counted from the notice's first coming. */
#define NOTICE_LEFT_UNKNOWN INT64_MIN

struct notice {
    enum notice_type type;
    char source[32]; /* "gce", "file", "SIGTERM": for people, and to tell notices apart */
    char id[64];     /* "": the source has none */
    char text[96];   /* for people */
    int64_t left_ns; /* until the deadline, from the moment of reading; <= 0: it has passed */
    /* NOTICE_TERMINATE: it has ended enough attempts, so it ends none: save before its deadline */
    bool is_repeated;
};

/* "terminate"; "unknown" for any other value. */
const char *notice_type_name(unsigned type);
/* False: there is no such type. */
bool notice_type_of(const char *name, enum notice_type *ret);

#endif
