/* SPDX-License-Identifier: Apache-2.0
 *
 * noticewalk: walks of one node with one rank under a notice. See walk.h.
 */
#pragma once

#include "walk.h"

/* The source "cloud" gives this notice. */
void told(struct walk *w, enum notice_type type, const char *id, int64_t left);
/* A notice of an end, and the steps are read for it. */
void told_end(struct walk *w, const char *id, int64_t left);
/* A node whose rank has attached, at step 4. `save`, `end`: how long a save takes, and the rank to
 * end, as earlier attempts saw it; 0: unknown. */
struct walk *begin_with(bool trains_on, int64_t save, int64_t end);
/* As begin_with(), and the rank ends soon. */
struct walk *begin(bool trains_on, int64_t save);
/* From the proposal to the decision: nothing has moved meanwhile. */
void decide(struct walk *w);
/* The rank saves for this round, and the save is committed. */
void save(struct walk *w, uint64_t step, uint32_t tag, int64_t takes);
/* As save(), and the node's timers do not wait for the save. */
void save_awake(struct walk *w, uint64_t step, uint32_t tag, int64_t takes);
/* Trains until the next gate; returns its step. */
uint64_t train(struct walk *w, int64_t until, int64_t step_time);
/* The rank leaves, and the command ends. */
void leave(struct walk *w);
