/* SPDX-License-Identifier: Apache-2.0
 *
 * hostlist: reads Slurm's short form of many hosts: "node[001-003,007],gpu1".
 *
 * A part in brackets stands for each of its numbers, which keep their leading zeros. Of several
 * parts the rightmost changes fastest. A host that is named twice counts twice. No text may follow
 * the last bracket of a name. The expanded list can be far longer than its text, so the reader only
 * counts the hosts. Pure; any thread.
 */
#pragma once

#include "base/err.h"

#include <stddef.h>

#define HOSTLIST_NAME_MAX 256

struct hostlist {
    char first[HOSTLIST_NAME_MAX]; /* the first host */
    size_t n;
};

/* False: the list is malformed, a name is too long, or there are more than `max` hosts. */
MUST_CHECK bool hostlist_read(const char *text, size_t max, struct hostlist *ret, struct err *err);
