/* SPDX-License-Identifier: Apache-2.0
 *
 * kept: the newest lines of the journal, over the attempts that pchrun-web has seen. Each line has
 * a number, from 1, which never comes again. The id of a line is "EPOCH-NUMBER"; the epoch stands
 * for this run of pchrun-web. Owns its memory: kept_free(). One thread at a time.
 */
#pragma once

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

enum { KEPT_MAX = 1024, KEPT_ID_SIZE = 48 };

struct kept_line {
    char *text; /* without its newline */
    size_t len;
};

struct kept {
    uint64_t epoch, last;             /* the number of the newest line; 0: none */
    struct kept_line lines[KEPT_MAX]; /* the line with number n is at n % KEPT_MAX */
};

void kept_init(struct kept *kept, uint64_t epoch);
void kept_free(struct kept *kept);
/* Copies a line. Lines that are kept already are left out: a supervisor that is asked again begins
 * with its newest lines. False: the line was left out, or there is no memory. */
bool kept_add(struct kept *kept, const char *text, size_t len);
/* The oldest number that is kept; last + 1: none. */
uint64_t kept_first(const struct kept *kept);
/* The number that follows an id. For an id of another epoch, a malformed id or NULL it is the
 * oldest kept number. */
uint64_t kept_after(const struct kept *kept, const char *id);
const struct kept_line *kept_at(const struct kept *kept, uint64_t number);
char *kept_id(const struct kept *kept, uint64_t number, char text[KEPT_ID_SIZE]);
