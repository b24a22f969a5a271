/* SPDX-License-Identifier: Apache-2.0
 *
 * gate: the one 64-bit word by which a supervisor holds its processes at a step.
 *
 *   bits  0..47  save step: a process that has finished a step below it goes on
 *   bits 48..61  tag: the round's number (1 + (round - 1) % GATE_TAGS), 0 where there is no round
 *   bit  62      ends the run: after this save the process will leave
 *   bit  63      decided: save now; without it the word is tentative: wait until it changes
 *
 * A process that finishes step s stores s in its page, then loads this word (both seq_cst). The
 * process goes on while s < save step, or if it has served this tag already. A supervisor stores
 * the word, then loads the steps, so at least one of the two sees the other. Pure; any thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define GATE_STEP_BITS 48
#define GATE_STEP_MAX  ((UINT64_C(1) << GATE_STEP_BITS) - 1)
#define GATE_TAGS      ((1U << 14) - 3)
#define GATE_TAG_BELL  ((1U << 14) - 2) /* no round: the first rank here reports it, and goes on */
#define GATE_TAG_LEAVE ((1U << 14) - 1) /* not a round: leave at the next step, without a save */
#define GATE_OPEN      GATE_STEP_MAX    /* no round: every step is below this */
#define GATE_ENDS_RUN  (UINT64_C(1) << 62)
#define GATE_DECIDED   (UINT64_C(1) << 63)

static inline uint32_t gate_tag_of(uint32_t round)
{
    return round == 0 ? 0 : 1 + (round - 1) % GATE_TAGS;
}

static inline uint64_t gate_make(uint64_t step, uint32_t round, bool decided, bool ends_run)
{
    return (step & GATE_STEP_MAX) | (uint64_t)gate_tag_of(round) << GATE_STEP_BITS |
           (decided ? GATE_DECIDED : 0) | (ends_run ? GATE_ENDS_RUN : 0);
}

/* A tentative gate at `step`. The supervisor opens it when the first process comes to it. So it
 * learns of that step without polling. */
static inline uint64_t gate_bell(uint64_t step)
{
    return (step & GATE_STEP_MAX) | (uint64_t)GATE_TAG_BELL << GATE_STEP_BITS;
}

/* The word that sends every process out of its training loop. */
static inline uint64_t gate_leave(void)
{
    return (uint64_t)GATE_TAG_LEAVE << GATE_STEP_BITS | GATE_DECIDED | GATE_ENDS_RUN;
}

static inline uint64_t gate_step(uint64_t word)
{
    return word & GATE_STEP_MAX;
}

static inline uint32_t gate_tag(uint64_t word)
{
    return (uint32_t)(word >> GATE_STEP_BITS) & 0x3fff;
}

static inline bool gate_is_bell(uint64_t word)
{
    return gate_tag(word) == GATE_TAG_BELL;
}

static inline bool gate_is_decided(uint64_t word)
{
    return word & GATE_DECIDED;
}

static inline bool gate_ends_run(uint64_t word)
{
    return word & GATE_ENDS_RUN;
}

/* True if no process has to stop at any step. */
static inline bool gate_is_open(uint64_t word)
{
    return word >> GATE_STEP_BITS == 0;
}

/* True if a process that has finished `step`, and last served round `served_tag`, must stop. */
static inline bool gate_stops(uint64_t word, uint64_t step, uint32_t served_tag)
{
    return step >= gate_step(word) && gate_tag(word) != served_tag;
}
