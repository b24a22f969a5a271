/* SPDX-License-Identifier: Apache-2.0
 *
 * show: prints an answer as text for people. Main thread.
 */
#pragma once

#include "json/json.h"

/* Prints the answer to CONTROL_STATUS. */
void show_status(const struct json *answer);
