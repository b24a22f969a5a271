/* SPDX-License-Identifier: Apache-2.0
 *
 * round_say: what people are told of a round, or of a save of the program's own, that does not come
 * to its end. Only writes to the log. For round.c.
 */
#ifndef PCHRUN_CORE_ROUND_SAY_H
#define PCHRUN_CORE_ROUND_SAY_H

#include "core/out.h"
#include "core/ranks.h"

/* Until a wait in pch_saved is told of. */
#define ROUND_TOLD_NS (10 * NS_PER_S)

/* Who waits for long is told of: the training stands still. */
void round_say_wait(struct out *out, const struct ranks *ranks, const struct member *m);
/* Who has gone past a step for which others wait. */
void round_say_past(struct out *out, const struct member *m, uint64_t step);
/* Who had not saved `step` by the end of the round. Of a node with many ranks somebody has to know
 * whose stack to look at. */
void round_say_unsaved(struct out *out, const struct ranks *ranks, uint32_t round, uint64_t step);
/* A rank saves what lies below the commit. */
void round_say_return(struct out *out, const struct member *m, uint64_t step, uint64_t commit_step);

#endif
