/* SPDX-License-Identifier: Apache-2.0
 *
 * show: an answer for people. Main thread.
 */
#ifndef PCHRUN_CTL_SHOW_H
#define PCHRUN_CTL_SHOW_H

#include "json/json.h"

/* Prints the answer to CONTROL_STATUS. */
void show_status(const struct json *answer);

#endif
