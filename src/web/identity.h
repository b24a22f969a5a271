/* SPDX-License-Identifier: Apache-2.0
 *
 * identity: what tells a job from another job of its name, from a supervisor's answer to
 * CONTROL_STATUS. All attempts of a job have the same state directory. Without one they have the
 * same number of nodes and the same address of node 0. A job of one node has no such address; its
 * command stands for it. Plain data, pure; any thread.
 */
#pragma once

#include "base/address.h"
#include "json/json.h"

#include <stdint.h>

struct identity {
    char name[128]; /* of the job; "": unknown, as in the next three */
    char state_dir[4096];
    char chief[ADDRESS_TEXT_MAX]; /* the address of node 0 */
    char command[256];
    int64_t nnodes;
};

void identity_take(const struct json *answer, struct identity *ret);
/* True if both are of one job. False also in doubt. */
bool identity_is_same(const struct identity *a, const struct identity *b);
