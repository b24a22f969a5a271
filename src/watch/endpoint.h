/* SPDX-License-Identifier: Apache-2.0
 *
 * endpoint: the address of a metadata service, and whether this machine has one. Owns nothing. Any
 * thread.
 */
#pragma once

#include "base/err.h"

#define ENDPOINT_MAX 320

/* Where the firmware describes this machine. */
#define ENDPOINT_DMI "/sys/class/dmi/id"

/* Marks a cloud's machines: a file below `dmi` (ENDPOINT_DMI) whose text has a word in it, in any
 * case. */
struct endpoint_mark {
    const char *file, *word;
};

/* Where a cloud's metadata service is: at the first of these variables that is set, else at the
 * usual address. The cloud's own programs read the same variables. */
struct endpoint_rule {
    const char *variables[4];      /* up to the first NULL */
    const char *fallback;          /* "169.254.169.254" */
    const char *owner;             /* "Amazon EC2's" */
    struct endpoint_mark marks[6]; /* up to the first mark without a file */
};

/* "http://HOST[:PORT]", without a "/" at the end. `option` is the user's choice, NULL: none. False:
 * the address is malformed; or it is the usual one, and the firmware (below `dmi`) names another
 * maker: none of the marks fits. A machine without that information counts as the cloud's. */
MUST_CHECK bool endpoint_find(const struct endpoint_rule *rule, const char *option, const char *dmi,
                              char ret[ENDPOINT_MAX], struct err *err);
