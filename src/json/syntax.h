/* SPDX-License-Identifier: Apache-2.0
 *
 * syntax: is a text strict JSON (RFC 8259, UTF-8)? If not, the error names the place, the text
 * found and the text expected, for a person who wrote it by hand.
 *
 * jansson's errors are for programmers, and often name a place after the fault. Pure; any thread.
 */
#ifndef PCHRUN_JSON_SYNTAX_H
#define PCHRUN_JSON_SYNTAX_H

#include "base/err.h"

#include <stddef.h>

/* How deep lists and objects may nest. */
#define SYNTAX_DEPTH_MAX 100

struct syntax_place {
    unsigned line, column; /* from 1 */
};
/* Moves past that byte. Columns count characters: continuation bytes of UTF-8 do not count. */
void syntax_pass(char c, struct syntax_place *place);

/* False: *err is "name:line:column: …". Does not detect duplicate keys. */
MUST_CHECK bool syntax_check(const char *name, const char *data, size_t len, struct err *err);
/* Sets the error for a duplicate key that ends after `end` bytes of a valid text. Returns false. */
bool syntax_twice(const char *name, const char *data, size_t end, struct err *err);

#endif
