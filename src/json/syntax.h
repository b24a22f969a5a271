/* SPDX-License-Identifier: Apache-2.0
 *
 * syntax: is a text strict JSON (RFC 8259, UTF-8)? If not: where it begins not to be, what stands
 * there and what is wanted, in words for whoever wrote it by hand.
 *
 * The library that reads the values says this for programmers, and often of the place behind the
 * fault. Pure; any thread.
 */
#ifndef PCHRUN_JSON_SYNTAX_H
#define PCHRUN_JSON_SYNTAX_H

#include "base/err.h"

#include <stddef.h>

/* How deep lists and objects may lie in each other. */
#define SYNTAX_DEPTH_MAX 100

struct syntax_place {
    unsigned line, column; /* from 1 */
};
/* Moves behind that byte. Columns count characters: the inner bytes of a UTF-8 sequence do not move
 * them. */
void syntax_pass(char c, struct syntax_place *place);

/* False: *err is "name:line:column: …". Of keys that are there twice it knows nothing. */
MUST_CHECK bool syntax_check(const char *name, const char *data, size_t len, struct err *err);
/* The key that ends behind `end` bytes of a text that has passed, as an error: it is there twice.
 * Returns false. */
bool syntax_twice(const char *name, const char *data, size_t end, struct err *err);

#endif
