/* SPDX-License-Identifier: Apache-2.0
 *
 * chief_parts: what the files of the chief do for each other, file by file. A file calls only those
 * that stand above it here; chief.c, whose functions are in chief.h, stands below all and calls
 * them. What is decided in one file is seen in another as a fact, or in the order. For chief*.c
 * alone.
 */
#ifndef PCHRUN_CORE_CHIEF_PARTS_H
#define PCHRUN_CORE_CHIEF_PARTS_H

#include "core/chief_state.h"

/* --- chief_facts.c: what is known of the nodes --- */

static inline bool peer_is(const struct peer *peer, enum fact fact)
{
    return peer->facts & (UINT64_C(1) << fact);
}
static inline bool all_are(const struct chief *chief, enum fact fact)
{
    return chief->count[fact] == chief->params->nnodes;
}
static inline bool any_is(const struct chief *chief, enum fact fact)
{
    return chief->count[fact] > 0;
}
void chief_set_fact(struct chief *chief, struct peer *peer, enum fact fact, bool holds);
int chief_rank_of(const struct chief *chief, const struct peer *peer);
/* NULL: it holds of none. */
struct peer *chief_first(const struct chief *chief, enum fact fact);
/* "3, 5-7": those of which it does not hold, as far as they fit. */
void chief_list_without(const struct chief *chief, enum fact fact, char *text, size_t size);
/* "node 1 (3 of 8 ranks), node 2, ...": the first of them, and how many of its ranks have attached
 * or saved where the fact is FACT_COMPLETE or FACT_SAVED. */
void chief_tell_without(const struct chief *chief, enum fact fact, char *text, size_t size);
/* Works out a peer's facts from its newest STATUS, and counts them. */
void chief_note(struct chief *chief, struct peer *peer);
/* The round or the commit has changed: works out anew what depends on them. */
void chief_note_all(struct chief *chief);
/* A save of this step will never be committed. */
void chief_note_uncommitted(struct chief *chief, uint64_t step);
/* The highest that any of them has told. Every message may ask for it, so it is kept. */
static inline uint64_t chief_highest_step(const struct chief *chief)
{
    return chief->highest;
}
/* A peer has told another highest step than before. */
void chief_note_highest(struct chief *chief, uint64_t before, uint64_t now);
/* Forgets what its predecessor told. */
void chief_reset(struct chief *chief, struct peer *peer);
/* It is neither lost nor gone for good: it is missed if it stays away. */
bool chief_is_awaited(const struct chief *chief, const struct peer *peer);
/* NULL: the connection is nobody's. */
struct peer *chief_of_conn(const struct chief *chief, int conn);
/* Its connection from now on; CONN_NONE: none. */
void chief_set_conn(struct chief *chief, struct peer *peer, int conn);

/* --- chief_period.c: when a save without a notice is due --- */

/* Every rank has attached, with the step that it resumes from. */
void chief_begin_period(struct chief *chief);
/* The next one is counted from here on: the step is committed, or its save has failed. */
void chief_count_anew(struct chief *chief, uint64_t step);
/* So much has been trained since, or will be in a moment. Hangs the bell that tells of it. */
bool chief_period_is_over(struct chief *chief);
/* Where the save is to be made, 0: as soon as it can. */
uint64_t chief_period_step(const struct chief *chief);
int64_t chief_period_wake_at(const struct chief *chief);

/* --- chief_order.c: the order, the end of a round, the end of the job --- */

/* Sends it the order as it stands. */
void chief_send_order(struct chief *chief, int conn, uint64_t echo);
/* A round is open that somebody may have saved in. */
bool chief_is_deciding(const struct chief *chief);
void chief_close_round(struct chief *chief, enum peer_phase phase, const char *why);

struct chief_end {
    enum outcome outcome;
    int code; /* of OUTCOME_FAILED and OUTCOME_NOT_STARTED */
    enum peer_manner manner;
    const char *why;
};
/* The end that was told says nothing of the job's progress: the attempt does not count. */
bool chief_is_uncounted(const struct chief *chief);
/* What the first fault of a node makes of the job. */
enum outcome chief_outcome_of_fault(const struct peer *peer);
/* The job ends: an open round is closed first. If it was only to be restarted, it is no more. */
void chief_end(struct chief *chief, const struct chief_end *end);
/* It ends for another reason than was told, before anybody has left. */
void chief_tell_end(struct chief *chief, const struct chief_end *end);
/* The generation ends, in the same way, and another is to follow. */
void chief_end_generation(struct chief *chief, const struct chief_end *end);
/* A round that was to end the run, and did not come to its commit, ends it unsaved. */
void chief_give_up(struct chief *chief, enum peer_phase phase, const char *why);

/* --- chief_plan.c: the time that a notice leaves --- */

/* A round is proposed, decided; its save is begun by somebody, and is committed. */
void chief_note_proposed(struct chief *chief);
void chief_note_decided(struct chief *chief);
void chief_note_begun(struct chief *chief);
void chief_note_saved(struct chief *chief);
/* How long saves take, with that of the open round if it has ended; 0: not known. */
int64_t chief_save_time(const struct chief *chief, bool is_round);
/* The moment at which an open round is given up; CLOCK_NEVER: no notice is live. */
int64_t chief_abort_at(const struct chief *chief);
/* Works out the times of a live notice, if those that are known are old. */
void chief_plan(struct chief *chief);
/* The time that the notice leaves is trained through: the user wants that, or the notice stood
 * before the first step and leaves more than `grace`, and the training had nothing to save yet. */
bool chief_uses_time(const struct chief *chief);
/* There is time to train on that is worth another save. */
bool chief_trains_on(const struct chief *chief);
/* The first save of the notice is worth its time. That is so at once, unless a save was made a
 * moment ago: only a save time that was seen in this attempt is trusted so far. */
bool chief_first_is_due(const struct chief *chief);
/* A save that begins now is the last: there is no time for another. */
bool chief_is_final(const struct chief *chief);
/* The first save of a notice is committed, or not due yet: says that the training goes on. */
void chief_go_on(struct chief *chief);
/* When a program that does not attach is told of the notice. */
int64_t chief_ask_at(const struct chief *chief);
int64_t chief_plan_wake_at(const struct chief *chief);

/* --- chief_standing.c: a notice that stands before the first step --- */

/* With a live notice a job that has not started yet starts before that, or not at all. */
int64_t chief_start_until(const struct chief *chief);
/* A first step that is finished later cannot be saved before the deadline. */
int64_t chief_first_step_until(const struct chief *chief);
/* Nothing can be saved yet, and the notice leaves the time to train: the job stays. */
bool chief_awaits_first_step(const struct chief *chief);
int64_t chief_standing_wake_at(const struct chief *chief);

/* --- chief_roster.c: the ranks that the nodes bring --- */

/* False if the ranks of the nodes do not make up one world: the job was ended. */
bool chief_check_roster(struct chief *chief);

/* --- chief_door.c: in or out --- */

/* "host, pid 7, 10.0.0.1:4711" */
char *chief_caller_text(const struct caller *caller, char *text, size_t size);
void chief_refuse(struct chief *chief, int conn, const char *fmt, ...) PRINTF_LIKE(3, 4);
void chief_welcome(struct chief *chief, int conn);
/* It is the node from now on, and is told where the job stands. */
void chief_admit(struct chief *chief, struct peer *peer, const struct caller *caller);

/* --- chief_claim.c: two supervisors for one node --- */

/* Who claims a node ends with the job, as all others do: the order, once it says so. */
void chief_tell_claim(struct chief *chief, struct peer *peer);
/* Now and then: whoever claims a node does not give up before it is told something. */
void chief_hold_claims(struct chief *chief);
/* Another supervisor says that it is this node. */
void chief_claim(struct chief *chief, struct peer *peer, const struct caller *caller);
/* The node itself was heard: whoever else says to be it is not. */
void chief_refuse_claim(struct chief *chief, struct peer *peer);
/* Before the start nobody is lost: it may come back, or another in its place; who claims it is it.
 */
void chief_unjoin(struct chief *chief, struct peer *peer);
/* Its connection is closed. */
void chief_forget_claim(struct chief *chief, int conn);

/* --- chief_join.c: who belongs to the job, and its start --- */

void chief_hello(struct chief *chief, int conn, const struct peermsg *msg, const char *from);
void chief_decide_join(struct chief *chief);
int64_t chief_join_wake_at(const struct chief *chief);

/* --- chief_loss.c: who is lost --- */

void chief_lose(struct chief *chief, struct peer *peer, const char *why);
/* Looks at everybody, but only when somebody's time can have come: hearing from a node makes its
 * time later, so `next_loss_at` is never too late. */
void chief_look_for_losses(struct chief *chief);
/* A node that is lost after its ranks have saved does not undo the round. */
bool chief_losses_matter(const struct chief *chief);
void chief_end_by_loss(struct chief *chief);
/* After the end: it was because of a node that had gone by then, if there is one. */
bool chief_tell_loss(struct chief *chief, int64_t until);

/* --- chief_restart.c: another generation in place --- */

/* Processes have failed: ends the generation if there may be another, else the job. */
void chief_restart_or_end(struct chief *chief, const struct chief_end *end);
/* A notice ends it: after the last save, or with nothing to save. */
void chief_end_for_notice(struct chief *chief, const struct chief_end *end);
/* Nobody has finished a step: there is nothing to save, and all leave. */
void chief_leave_unsaved(struct chief *chief);
/* A generation was ended for a restart, and nothing has been decided of that yet. */
bool chief_is_restarting(const struct chief *chief);
/* Begins the next one as soon as nothing is left of the last; or ends the job, if that cannot be.
 */
void chief_decide_restart(struct chief *chief);
int64_t chief_restart_wake_at(const struct chief *chief);

/* --- chief_hang.c: is the whole job stuck? --- */

/* When no rank of the job makes progress, all nodes examine their processes; if nobody has moved by
 * then, the job ends. */
void chief_decide_hang(struct chief *chief);
int64_t chief_hang_wake_at(const struct chief *chief);
/* --- chief_fault.c: failures, and which of them was the first --- */

/* What a node tells of its own. */
void chief_note_fault(struct chief *chief, const struct peer *peer, const struct peer_cause *told);
/* Something has failed, and the job is to end because of it. */
bool chief_fault_counts(const struct chief *chief);
int64_t chief_fault_wake_at(const struct chief *chief);
void chief_end_by_fault(struct chief *chief);
/* What was before it may be known after the end: that is the cause then, until all leave. */
void chief_tell_fault(struct chief *chief);

/* --- chief_round.c: the agreement, and the record --- */

bool chief_can_open(const struct chief *chief);
/* It saves at `least_step`, or as soon after it as can be agreed; 0: as soon as it can. */
void chief_open_round(struct chief *chief, bool ends_run, uint64_t least_step);
void chief_decide_round(struct chief *chief);
int64_t chief_round_wake_at(const struct chief *chief);
/* The record is written; `bad`: it is not, and why. */
void chief_committed(struct chief *chief, const struct err *bad);

/* --- chief_notice.c: notices, and checkpoints without one --- */

/* The job's notice is the soonest of the nodes'. */
void chief_gather_notices(struct chief *chief);
void chief_decide_notice(struct chief *chief);
void chief_decide_checkpoint(struct chief *chief);
void chief_decide_period(struct chief *chief);

#endif
