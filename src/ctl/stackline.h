/* SPDX-License-Identifier: Apache-2.0
 *
 * stackline: where a rank stands in Python, from the file with the evidence of a hang
 * (commands/evidence.h), which its node has written to the state directory. Owns nothing. Any
 * thread.
 */
#pragma once

#include "ctl/waits.h"

/* The line of the program at which the rank of `wait` stands, as "train.py:88 in backward".
 * `answer`: a supervisor's answer to CONTROL_STATUS. False: there is no evidence of this rank in
 * this generation, or the rank has made steps since. */
bool stackline_find(const struct json *answer, const struct wait *wait, char *ret, size_t size);
