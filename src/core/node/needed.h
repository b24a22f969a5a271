/* SPDX-License-Identifier: Apache-2.0
 *
 * needed: which ranks' saves an agreed save needs (save.needs), as seen from one node. With `all`
 * it needs every rank's. With `rank0` and `any` one save is the whole checkpoint. The other ranks
 * then only have to come to the step, or be gone. Only for node/round*.c and tests; owns nothing;
 * pure.
 */
#pragma once

#include "core/node/round_state.h"

/* How many ranks here have saved in the round. *ret_step: the step, 0: none has; *ret_mismatch:
 * they saved at different steps. */
int needed_count_saved(const struct round *round, uint64_t *ret_step, bool *ret_mismatch);
/* The round can do without this rank's save, which has failed. */
bool needed_spares(const struct round *round, const struct member *member);
/* 1 + the lowest rank here whose save is the whole checkpoint, and is durable; 0: none is. */
uint32_t needed_whole(const struct round *round);
/* The record may be written now, although only `saved` of the node's ranks have saved. */
bool needed_may_record(const struct round *round, int saved);
/* Fills in the fields of a STATUS about the ranks that the round may do without. can_save: a rank
 * that seems to live may still save. */
void needed_fill(const struct round *round, bool can_save, struct peer_status *status);
