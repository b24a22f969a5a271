/* SPDX-License-Identifier: Apache-2.0
 *
 * notice: a line of a notice source, as one JSON object (pchrun-protocol(7)). pchrun-watch writes
 * it, the room notices reads it, and the core acts on it. Plain data; any thread.
 *
 * A notice is known by its source and its id. The same id again is the same notice with new
 * content; another id is another notice. A source without ids leaves them empty, and has one notice
 * at a time.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum notice_type {
    NOTICE_TERMINATE,  /* this node will be taken away: save and leave */
    NOTICE_CHECKPOINT, /* this node may be disturbed: save and go on */
    NOTICE_LOG,        /* for the log only */
    NOTICE_CANCEL,     /* the notice of this id is withdrawn; without an id: all of the source */
    NOTICE__COUNT
};

/* The source gives no deadline: it is the configured grace, from the first line of the notice. */
#define NOTICE_LEFT_UNKNOWN INT64_MIN

/* How a live notice is named, in messages and reports. */
struct notice_label {
    char source[32], id[64], text[96]; /* as in struct notice */
};

struct notice {
    enum notice_type type;
    char source[32]; /* "gce", "file", "SIGTERM": for people, and to tell notices apart */
    char id[64];     /* "": the source has none */
    char text[96];   /* for people */
    int64_t left_ns; /* until the deadline, from the moment of reading; <= 0: it has passed */
    /* NOTICE_TERMINATE: it has ended enough attempts, and ends no further one: save before its
     * deadline */
    bool is_repeated;
    bool is_guess; /* left_ns is only assumed, as in a drill of a platform that names no deadline */
};

/* "terminate"; "unknown" for any other value. */
const char *notice_type_name(unsigned type);
/* False: no type has this name. */
bool notice_type_of(const char *name, enum notice_type *ret);
