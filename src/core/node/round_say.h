/* SPDX-License-Identifier: Apache-2.0
 *
 * round_say: log lines about a round, or about an own save, that does not commit. Only for round.c.
 */
#pragma once

#include "core/common/out.h"
#include "core/common/ranks.h"

/* A longer wait in pch_saved is logged. */
#define ROUND_TOLD_NS (10 * NS_PER_S)

/* A rank waits long for a commit, and its training stands still. */
void round_say_wait(struct out *out, const struct ranks *ranks, const struct member *m);
/* A rank waits for a later save, and never makes the save that others wait for. */
void round_say_past(struct out *out, const struct member *m, uint64_t step);
/* The ranks that had not saved `step` by the end of the round, apart from those that had not come
 * to it. On a node with many ranks a person must know which stack to examine. */
void round_say_unsaved(struct out *out, const struct ranks *ranks, uint32_t round, uint64_t step);
/* A rank saves a step below the last commit. */
void round_say_return(struct out *out, const struct member *m, uint64_t step, uint64_t commit_step);
