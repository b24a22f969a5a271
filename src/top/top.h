/* SPDX-License-Identifier: Apache-2.0
 *
 * top: `pchctl top`: asks for the state of a job again and again, follows its events, and draws
 * both. It never waits for a supervisor: keys are served meanwhile. The screen says how old its
 * picture is. One at a time; main thread.
 */
#pragma once

#include "ctl/ctl.h"

/* Returns when the user leaves, also after the job's end. `dir`: as for talk_open(). False: the
 * terminal cannot be used, or there is no memory; *err. */
MUST_CHECK bool top_show(const struct ctl_options *options, const char *dir, struct err *err);
