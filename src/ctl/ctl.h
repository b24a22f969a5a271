/* SPDX-License-Identifier: Apache-2.0
 *
 * ctl: what each command of pchctl does. Main thread.
 */
#pragma once

#include "ctl/options.h"

enum {
    CTL_DONE,
    CTL_FAILED, /* refused, failed, or not in time */
    CTL_USAGE,  /* a wrong command line, or no job or several jobs fit */
};

/* Returns the exit code; prints errors on standard error. */
int ctl_run(const struct ctl_options *options);
void ctl_complain(const struct err *err);
