/* SPDX-License-Identifier: Apache-2.0
 *
 * endpoint: where a metadata service is asked, and whether this machine has one at all. Owns
 * nothing. Any thread.
 */
#ifndef PCHRUN_WATCH_ENDPOINT_H
#define PCHRUN_WATCH_ENDPOINT_H

#include "base/err.h"

#include <stddef.h>

#define ENDPOINT_MAX 320

/* Where the firmware of this machine tells of it. */
#define ENDPOINT_DMI "/sys/class/dmi/id"

/* Where a service is: what its cloud's own programs take from the environment, in this order, else
 * the address that it has everywhere. */
struct endpoint_rule {
    const char *variables[4]; /* up to the first NULL */
    const char *fallback;     /* "169.254.169.254" */
};

/* "http://HOST[:PORT]", without a "/" at the end. `option` is the user's own word, NULL: none.
 * *ret_is_given: it was that or the environment. False: what was given is no such address. */
MUST_CHECK bool endpoint_choose(const struct endpoint_rule *rule, const char *option,
                                char ret[ENDPOINT_MAX], bool *ret_is_given, struct err *err);

/* What the firmware of a cloud's machines says: a file below `dmi` (ENDPOINT_DMI) whose
 * text has a word in it, whatever the case of its letters. */
struct endpoint_mark {
    const char *file, *word;
};
/* False with *err: the firmware says who made the machine, and it was not `cloud` (none of the
 * marks, up to one without a file, is there). A machine that does not say is believed. */
MUST_CHECK bool endpoint_is_here(const char *cloud, const struct endpoint_mark *marks,
                                 const char *dmi, struct err *err);

/* What tells this start of this machine from all others; "" if the kernel does not say. */
void endpoint_boot_id(char *ret, size_t size);

#endif
