/* SPDX-License-Identifier: Apache-2.0
 *
 * hours: what the ledger of a job says of its time. For
 * this room alone. Main thread.
 */
#pragma once

#include "ctl/ctl.h"
#include "goodput/goodput.h"

#include <limits.h>

/* --- hours.c --- */

struct hours {
    const struct ctl_options *options;
    char path[PATH_MAX]; /* of the ledger */
    struct goodput of;   /* without what --since leaves out */
};

/* Reads the ledger that the options name. False: there is none, or it cannot be read. Call
 * hours_free() in either case. */
MUST_CHECK bool hours_read(const struct ctl_options *options, struct hours *ret, struct err *err);
void hours_free(struct hours *hours);
