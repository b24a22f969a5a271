/* SPDX-License-Identifier: Apache-2.0
 *
 * linematch: finds lines in a stream of bytes that match the user's patterns (watchdog.log and
 * watchdog.log_failure), and takes the step from them.
 *
 * A line ends with '\n' or '\r', as progress bars write it, or with the stream. Of a long line only
 * the first LINEMATCH_MAX bytes are matched, since the time may grow with their square. A NUL ends
 * the text. Owns nothing; cannot fail.
 */
#pragma once

#include <regex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LINEMATCH_MAX = 1024, LINEMATCH_KEPT = 256 };
/* A larger number is no step. */
#define LINEMATCH_STEP_MAX UINT64_C(1000000000000)

struct linematch_rules {
    const regex_t *step;    /* its first group is the step; NULL: none */
    const regex_t *failure; /* a line that matches is a failure; NULL: none */
};

/* The result. Another process may read it at any time. */
struct linematch_found {
    _Atomic uint64_t step;        /* of the newest line */
    _Atomic int64_t step_at;      /* when that line came, CLOCK_MONOTONIC; 0: none came */
    _Atomic bool has_failed;      /* `failure` is set, and stays */
    _Atomic bool is_within;       /* the newest line has no end yet */
    char failure[LINEMATCH_KEPT]; /* the beginning of the first line that is a failure */
};

struct linematch {
    struct linematch_rules rules;
    struct linematch_found *found;
    /* private */
    char text[LINEMATCH_MAX + 1]; /* the line that has no end yet */
    size_t len;
};

/* Takes the next bytes of the stream, which came at `now`. True: the first step, or a failure, was
 * found. */
bool linematch_add(struct linematch *match, const char *bytes, size_t n, int64_t now);
/* The stream has ended. True: as above. */
bool linematch_end(struct linematch *match, int64_t now);
