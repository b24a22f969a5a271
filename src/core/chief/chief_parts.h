/* SPDX-License-Identifier: Apache-2.0
 *
 * chief_parts: the functions that the chief's files share. A file calls only the files above it in
 * this list. chief.c calls them all; its own functions are in chief.h. A file sees the decisions of
 * another file as facts, or in the order. Only chief*.c include this header.
 */
#pragma once

#include "core/chief/chief_state.h"

/* --- chief_facts.c: the facts about the nodes --- */

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
/* The first node with this fact; NULL: no node has it. */
struct peer *chief_first(const struct chief *chief, enum fact fact);
/* "3, 5-7": the nodes with this fact, or without it, as many as fit. */
void chief_list_with(const struct chief *chief, enum fact fact, char *text, size_t size);
void chief_list_without(const struct chief *chief, enum fact fact, char *text, size_t size);
/* "node 1 (3 of 8 ranks), node 2, ...": the first nodes without this fact. For FACT_COMPLETE and
 * FACT_SAVED it also counts the ranks that have attached or saved. */
void chief_tell_without(const struct chief *chief, enum fact fact, char *text, size_t size);
/* Derives a peer's facts from its newest STATUS, and counts them. */
void chief_note(struct chief *chief, struct peer *peer);
/* The round, the commit or the end has changed: derives again the facts of all nodes. */
void chief_note_all(struct chief *chief);
/* A save of this step will never be committed. */
void chief_note_uncommitted(struct chief *chief, uint64_t step);
/* The highest step of one peer was `before`, and is `now`. */
void chief_note_highest(struct chief *chief, uint64_t before, uint64_t now);
/* Forgets what this peer's previous supervisor, or its previous generation, reported. */
void chief_reset(struct chief *chief, struct peer *peer);
/* The ranks that all nodes expect by their configuration; 0: only their processes will tell. */
uint32_t chief_world(const struct chief *chief);
/* Every rank of the job is done, and what still runs of it only has to end. */
bool chief_is_over(const struct chief *chief);
/* The peer is neither lost nor gone for good. If it has no connection now and makes none, it will
 * count as lost. */
bool chief_is_awaited(const struct chief *chief, const struct peer *peer);
/* `says` holds for the newest STATUS of every node. Used by the checks of promises, which do not
 * trust the facts. */
bool chief_all_say(const struct chief *chief,
                   bool (*says)(const struct chief *chief, const struct peer *peer));
/* NULL: no peer has this connection. */
struct peer *chief_of_conn(const struct chief *chief, int conn);
/* The peer's connection from now on; CONN_NONE: it has none. */
void chief_set_conn(struct chief *chief, struct peer *peer, int conn);

/* --- chief_period.c: when a save without a notice is due --- */

/* How long the job has run in all attempts. */
int64_t chief_has_run(const struct chief *chief);
/* With checkpoint.every auto: chooses the time between two saves, by what was seen so far. */
void chief_choose_period(struct chief *chief);
/* Every rank has attached, with the step that it resumes from. */
void chief_begin_period(struct chief *chief);
/* A period begins at this step: the step is committed, or its save has failed. */
void chief_count_anew(struct chief *chief, uint64_t step);
/* The period is over, or ends in a moment. Sets the bell step when that is still unknown. */
bool chief_period_is_over(struct chief *chief);
/* The step that the save is for; 0: the next possible step. */
uint64_t chief_period_step(const struct chief *chief);
/* When a period of time is over; CLOCK_NEVER: it is measured in steps, or a bell is set. */
int64_t chief_period_until(const struct chief *chief);

/* --- chief_order.c: the order, the end of a round, the end of the job --- */

/* The stamp of a message that belongs to no round. */
static inline struct peer_stamp chief_stamp(const struct chief *chief)
{
    return (struct peer_stamp){.attempt = chief->params->attempt,
                               .generation = chief->generation,
                               .epoch = chief->params->epoch};
}
/* Sends the present order; `echo_ns`: of the heartbeat that it answers, 0: none. */
void chief_send_order(struct chief *chief, int conn, int64_t echo_ns);
/* The save step of the open round is decided: ranks may have saved it. */
static inline bool chief_is_deciding(const struct chief *chief)
{
    return chief->order.phase == PHASE_DECIDED;
}
static inline bool chief_has_round(const struct chief *chief)
{
    return chief->order.phase == PHASE_PROPOSED || chief_is_deciding(chief);
}
/* A generation has ended for a restart, and the next one has not begun. */
static inline bool chief_is_restarting(const struct chief *chief)
{
    return chief->order.end == END_STOP && chief->order.restart;
}
/* With chief_is_restarting(): the job has waited for a replacement, or does so now. */
static inline bool chief_is_waiting(const struct chief *chief)
{
    return chief_is_restarting(chief) && chief->gen.replace.until > 0;
}
/* The job waits for its nodes, and no process of it has begun. */
static inline bool chief_is_joining(const struct chief *chief)
{
    return chief->order.end == END_NONE && !chief->order.start;
}
void chief_close_round(struct chief *chief, enum peer_phase phase, const char *why);
/* The log says that every rank has saved this step. Without a record no later start knows it. */
void chief_say_saved(const struct chief *chief, enum log_level level, uint64_t step);

struct chief_end {
    enum outcome outcome;
    int code; /* of OUTCOME_FAILED, OUTCOME_NOT_STARTED and OUTCOME_INTERRUPTED */
    enum peer_manner manner;
    const char *why;
    bool restarts; /* only this generation ends, and another follows */
};
/* The job goes on, though a user has asked for a save and the end. order.why says why. */
void chief_give_up_stops(struct chief *chief);
/* Without a record only the scheduler counts the starts, and it does not know whether the program
 * keeps its progress by itself. Such a program does not begin at its first step again. */
bool chief_counts_starts(const struct chief *chief);
/* The end says nothing about the job's progress: this attempt does not count against the limit. */
bool chief_is_uncounted(const struct chief *chief);
/* The job ends without the save that it should have made. */
bool chief_brings_nothing(const struct chief *chief);
/* The job ends. An open round is closed first, and a planned restart is cancelled. */
void chief_end(struct chief *chief, const struct chief_end *end);
/* How a program that does not attach is asked to save. */
enum peer_manner chief_asks_by(const struct chief *chief);
/* Like chief_end(), in the usual manner: every process is stopped at once. */
void chief_stop(struct chief *chief, enum outcome outcome, int code, const char *why);
/* Replaces the reason of the end in the order; no node has exited yet. */
void chief_tell_end(struct chief *chief, const struct chief_end *end);
/* Tells the user which options make a program save that does not attach by itself. */
const char *chief_how_to_attach(const struct chief *chief);
/* Closes a round without a commit. If that round was to end the job, the job ends unsaved. */
void chief_give_up(struct chief *chief, enum peer_phase phase, const char *why);

/* --- chief_pace.c: how fast the job trains --- */

/* Takes the steps of a new STATUS; its facts are not derived yet. The highest step was `before`. */
void chief_note_steps(const struct chief *chief, struct peer *peer, uint64_t before);
/* The node's ranks begin a step now: the save before it is no part of their pace. */
void chief_pace_again(const struct chief *chief, struct peer *peer);
/* The node's next generation begins. */
void chief_reset_pace(struct peer *peer);
/* How long the slowest node takes from one common step to the next; 0: unknown. */
int64_t chief_time_of_step(const struct chief *chief);
/* The node's newest pace; 0: unknown. */
double chief_steps_per_s(const struct peer *peer);
/* Compares the steps of all nodes, if each node has reported new steps since the last comparison.
 */
void chief_look_at_lag(struct chief *chief);
/* How long the ranks that are behind take to reach the furthest one. */
int64_t chief_lag(const struct chief *chief);

/* Computes the median of all ranks' own part of a step, at most once a heartbeat. */
void chief_decide_slow(struct chief *chief);
/* Names the ranks that have become slow, or are no longer slow, since the STATUS before. */
void chief_note_slow(const struct chief *chief, const struct peer *peer,
                     const struct peer_own *before);

/* --- chief_plan.c: the time that a notice leaves --- */

/* The open round is committed: takes the time of its save. */
void chief_note_saved(struct chief *chief);
/* When every node has stepped, takes the time of this generation's start. */
void chief_note_start(struct chief *chief);
/* How long a save takes, 0: unknown. `is_round`: the save of the open round is over, and counts. */
int64_t chief_save_time(const struct chief *chief, bool is_round);
/* The generation is over: takes chief_took_to_end(). */
void chief_note_end(struct chief *chief);
/* When node 0 gives up an open round; CLOCK_NEVER: no notice is live. */
int64_t chief_abort_at(const struct chief *chief);
/* This supervisor did not run at the deadline, and waits for what the nodes have to report. */
bool chief_hears_late_news(const struct chief *chief);
/* When the notice leaves only the time to stop the processes; CLOCK_NEVER: no notice is live. */
int64_t chief_time_is_up_at(const struct chief *chief);
/* Computes the times of a live notice again if they were computed too long ago. */
void chief_plan(struct chief *chief);
/* The job trains through the time that the notice leaves. Either save.train_on says so, or the
 * notice came before the first step, with more than `grace` left: then nothing could be saved yet.
 */
bool chief_uses_time(const struct chief *chief);
/* There is still time to train, and the steps are worth another save. */
bool chief_trains_on(const struct chief *chief);
/* When the first save of the notice is worth its time: at once, unless the last commit is recent;
 * such a delay needs a save that was measured in this attempt. CLOCK_NEVER: the first save was
 * made. */
int64_t chief_first_due_at(const struct chief *chief);
bool chief_first_is_due(const struct chief *chief);
/* The last safe moment to open the round of the last save; CLOCK_NEVER: no notice is live. */
int64_t chief_final_at(const struct chief *chief);
/* A save and some training fit before the last save. */
bool chief_has_room(const struct chief *chief);
/* A save that begins now is the last: there is no time for another. */
bool chief_is_final(const struct chief *chief);
/* The first save of a notice is committed, or not due yet: logs that the training goes on. */
void chief_go_on(struct chief *chief);
/* When a program that does not attach gets the notice's signal; CLOCK_NEVER: no live notice. */
int64_t chief_ask_at(const struct chief *chief);

/* When the live notice becomes near: a job that has not started by then does not start.
 * CLOCK_NEVER: no notice is live. */
int64_t chief_near_at(const struct chief *chief);
/* A notice is live and near, or the last save is under way. A failure or a loss is then part of the
 * preemption: nothing restarts in place, and the watchdog reports no hang. */
bool chief_notice_is_near(const struct chief *chief);
/* The latest end of the first step that leaves time to save it before the deadline. CLOCK_NEVER: a
 * step is finished, or nothing could be saved. */
int64_t chief_first_step_until(const struct chief *chief);
/* No step is finished, and the notice leaves time to train: the job goes on. */
bool chief_awaits_first_step(const struct chief *chief);

/* --- chief_needs.c: which saves a round needs --- */

/* Whose saves a round needs that is decided now. */
enum save_needs chief_needs(const struct chief *chief);
/* Once, if every rank's save is needed although a user or a program asked for less: says why. */
void chief_tell_needs(struct chief *chief);
/* A rank's save is durable, or may still come, that is enough for the round. */
bool chief_has_hope(const struct chief *chief);
/* The round can commit, though not every rank has saved. */
bool chief_is_enough(const struct chief *chief);
/* The same, by the newest STATUS of every node. */
bool chief_proves_enough(const struct chief *chief);
/* Notes when the decided round has lost a rank or a node. */
void chief_note_hurt(struct chief *chief);
/* The decided round goes on without a rank or a node that is gone. */
bool chief_outlives(const struct chief *chief);
/* Until when it does; CLOCK_NEVER: nothing is gone. */
int64_t chief_outlives_until(const struct chief *chief);
/* 1 + the rank whose save is the whole checkpoint of the round; 0: each rank has a part. */
uint32_t chief_whole(const struct chief *chief);
/* Notes the ranks that the present commit did without; the save of a round may. */
void chief_note_without(struct chief *chief, bool is_round);

/* --- chief_roster.c: the ranks of all nodes --- */

/* False: the ranks of the nodes do not form one world, and the job has been ended. */
bool chief_check_roster(struct chief *chief);

/* --- chief_spare.c: supervisors that stand by --- */

/* The caller is a spare with this number from now on. */
void chief_admit_spare(struct chief *chief, int number, const struct caller *caller);
/* The caller says that it is a node whose place another supervisor has: it is to call again, as a
 * spare. */
void chief_let_stand_by(struct chief *chief, int conn);
/* A message, or the end, of a connection that is no node's. */
void chief_hear_spare(struct chief *chief, int conn, const struct peermsg *msg);
void chief_spare_down(struct chief *chief, int conn, const char *why);
/* How many spares stand by, are not called, and are left over when each vacant place has one. */
int chief_spares_left(const struct chief *chief);
/* Calls a spare to each vacant place that none is called to; gives up those that are too late. */
void chief_call_spares(struct chief *chief);
/* A spare is called to this place, and may still come. */
bool chief_is_called_to(const struct chief *chief, const struct peer *peer);
/* A HELLO for this place has come: no spare is called to it any more. */
void chief_end_call(struct chief *chief, const struct peer *peer);
/* All nodes leave: tells the spares how the job has ended. */
void chief_end_spares(struct chief *chief);
/* Node 0's supervisor did not run: no spare is blamed for that time. */
void chief_forgive_spares(struct chief *chief);

/* --- chief_join.c: which supervisors join --- */

/* Once the order says that the job ends, sends it to the supervisor that claims this node. */
void chief_tell_duplicate(struct chief *chief, struct peer *peer);
/* Sends an empty order to every claiming supervisor, so that it does not give up node 0. */
void chief_hold_duplicates(struct chief *chief);
/* The node itself was heard: refuses the supervisor that claims it. */
void chief_refuse_duplicate(struct chief *chief, struct peer *peer);
/* Before the start no node is lost: it may join again, or another supervisor may take its place. A
 * supervisor that claims the node becomes the node. */
void chief_unjoin(struct chief *chief, struct peer *peer);
/* The job waits for another supervisor of this node. A supervisor that claims the node becomes it.
 */
void chief_vacate(struct chief *chief, struct peer *peer);
/* Refuses the supervisor of a lost node, and closes its connection. */
void chief_dismiss(struct chief *chief, struct peer *peer);
/* The connection of a claiming supervisor is closed. */
void chief_forget_duplicate(struct chief *chief, int conn);
void chief_hello(struct chief *chief, int conn, const struct peermsg *msg, const char *from);
/* Once, when every node has looked: the log names the nodes that do not have node 0's directory. */
void chief_tell_dirs(struct chief *chief);
/* A generation is about to begin. False: the nodes measure the network first. That ends by itself,
 * within seconds, whether or not the nodes answer. */
bool chief_knows_network(struct chief *chief);
/* A node has gone: ends a measurement, if one goes on, without a result. */
void chief_cut_measure(struct chief *chief);
/* The end of the wait for the nodes' answers; CLOCK_NEVER: nothing is measured. */
int64_t chief_measures_until(const struct chief *chief);

/* --- chief_loss.c: lost nodes --- */

void chief_lose(struct chief *chief, struct peer *peer, const char *why);
/* Examines all nodes, but only after `next_loss_at`. That is never too late: a message from a node
 * only moves its own limit to a later time. */
void chief_look_for_losses(struct chief *chief);
/* A node was lost. Its loss does not undo the round if its ranks have saved. */
bool chief_losses_matter(const struct chief *chief);
/* Ends the job, or the generation, because of this loss. how->why: what is said behind the loss. */
void chief_end_by_loss(struct chief *chief, const struct peer *peer, const struct chief_end *how);
/* The job has ended. A node that was gone by `until` becomes the cause; false: there is none. */
bool chief_tell_loss(struct chief *chief, int64_t until);

/* --- chief_replace.c: the wait for the replacement of a lost node --- */

/* peer->lost_why of a node that is not healthy begins so. */
#define CHIEF_IS_UNFIT "it is not healthy: "
/* A node was lost: waits for its replacement if that is allowed, else ends the job. */
void chief_wait_or_end(struct chief *chief);
/* A node that has not joined by this time ends the job. Where an unhealthy node may be replaced,
 * its replacement has cluster.replace_wait at least. */
int64_t chief_join_until(const struct chief *chief);
/* The setting that ends the wait for a replacement: before the first start the later of two. */
const char *chief_limit_name(const struct chief *chief);
/* A STATUS of a node whose place is vacant. */
void chief_hear_vacant(struct chief *chief, struct peer *peer, const struct peermsg *msg);
/* The job can go on after the present notice, without the nodes that have it. */
bool chief_may_outlive_notice(const struct chief *chief);
/* Such nodes are lost as soon as their processes have ended. */
void chief_release_noticed(struct chief *chief);
/* The node has said that it must not train. Or it cannot start, and is a replacement, or the first
 * generation is over. True: it is lost for that, and the job is not. */
bool chief_lose_unable(struct chief *chief, struct peer *peer, const struct peer_cause *told);
/* Before the first start: the place of a node that has not joined for a while is vacant, if a spare
 * is left for it. */
void chief_vacate_missing(struct chief *chief);
/* When node 0 looks for such nodes; CLOCK_NEVER: none is missing, or the job has no spares. */
int64_t chief_misses_at(const struct chief *chief);
/* The node's supervisor has said that its processes have ended. Those of one before it still count.
 */
void chief_lower_fence(struct chief *chief, struct peer *peer);
/* A place is vacant, and the time for its replacement is over. */
bool chief_wait_is_over(const struct chief *chief);
/* Ends the job for that reason. */
void chief_end_wait(struct chief *chief);
/* CLOCK_NEVER: no place is vacant. */
int64_t chief_waits_until(const struct chief *chief);

/* --- chief_restart.c: another generation in place --- */

/* Processes have failed: ends the generation if a restart is allowed, else the job. */
void chief_restart_or_end(struct chief *chief, const struct chief_end *end);
/* A notice ends the generation: after the last save, or with nothing to save. */
void chief_end_for_notice(struct chief *chief, const struct chief_end *end);
/* No rank has finished a step, so nothing can be saved: the job ends for the notice. */
void chief_leave_unsaved(struct chief *chief);
/* A generation begins, the first or the next. */
void chief_begin_generation(struct chief *chief);
/* Begins the next generation when nothing remains of the last one; ends the job if no generation
 * can begin. */
void chief_decide_restart(struct chief *chief);
/* When the next generation may begin; if processes are left, when the job ends because of them. */
int64_t chief_restart_due_at(const struct chief *chief);

/* --- chief_hang.c: is the whole job stuck? --- */

/* When no rank of the job makes progress, all nodes examine their processes. If still no rank has
 * moved after that, the job ends. */
void chief_decide_hang(struct chief *chief);
/* Notes from a status whether a command of the job has printed a step. */
void chief_note_lines(struct chief *chief, const struct peer *peer);
/* When the hang, or the end of the examination, is due; CLOCK_NEVER: a rank moves. */
int64_t chief_hang_due_at(const struct chief *chief);
/* A rank has given up its wait for other ranks, and has failed. The nodes examine their processes
 * before the job ends. False: they still do. */
bool chief_has_looked(struct chief *chief);
/* When a rank of the job last attached, moved, sent a message or ended well, as the nodes have
 * told. A failure is no move, nor is the word of a rank that gives up its wait. */
int64_t chief_moved_at(const struct chief *chief);
/* "rank 1 (...) is behind: ..."; "": no rank has given up, or it is not known who is behind. */
const char *chief_who_is_behind(const struct chief *chief);

/* Makes every node examine its processes. */
void chief_examine(struct chief *chief);
/* Every node has examined its processes, or has had the time for it. */
bool chief_has_examined(const struct chief *chief);

/* --- chief_done.c: every rank is done --- */

/* Ends the processes that have not ended in time. The job is completed. */
void chief_decide_done(struct chief *chief);
/* When they have had their time without a notice; CLOCK_NEVER: they may take any time. */
int64_t chief_done_until(const struct chief *chief);

/* --- chief_fault.c: failures, and which of them was the first --- */

/* A node has reported its own failure. */
void chief_note_fault(struct chief *chief, struct peer *peer, const struct peer_cause *told);
/* The record counts a host that is not healthy, also if the job goes on without it. */
void chief_note_strike(struct chief *chief, struct peer *peer, const struct peer_cause *told);
/* Something has failed, and the job ends because of it. */
bool chief_fault_counts(const struct chief *chief);
/* When the first failure counts, even if a save is decided; CLOCK_NEVER: nothing has failed. */
int64_t chief_fault_counts_at(const struct chief *chief);
void chief_end_by_fault(struct chief *chief);
/* An earlier failure may become known after the end. It becomes the cause, until all nodes leave.
 */
void chief_tell_fault(struct chief *chief);

/* --- chief_start.c: the start of the job --- */

void chief_decide_start(struct chief *chief);
/* False: the job has too few ranks for all parts of the save that it resumes from, and has been
 * ended. Processes that train no step do not count. */
bool chief_check_parts(struct chief *chief);
/* The steps are read again at this time, until a rank has finished its first one. CLOCK_NEVER: they
 * need not be. */
int64_t chief_first_read_at(const struct chief *chief);
/* A node has said before the start that it cannot start, or must not train. */
bool chief_cannot_start(const struct chief *chief);
/* Notes whether a rank has finished a step, and whether the training then began at its start. */
void chief_note_beginning(struct chief *chief);
/* Once in a generation the log says that no process has attached. CLOCK_NEVER: a process has
 * attached, no process must, or the log has said it. */
int64_t chief_unattached_at(const struct chief *chief);
void chief_say_unattached(struct chief *chief);
/* The same at the end of a job that completed before that. */
void chief_say_unsaveable(struct chief *chief);

/* --- chief_round.c: the agreement, and the record --- */

bool chief_can_open(const struct chief *chief);
/* The ranks save at `least_step`, or at the next step after it that they can agree on; 0: at the
 * next possible step. */
void chief_open_round(struct chief *chief, bool ends_run, uint64_t least_step);
void chief_decide_round(struct chief *chief);
/* How long the ranks that have saved wait for the rest; CLOCK_NEVER: none waits, or a notice's
 * deadline ends the wait. */
int64_t chief_saves_until(const struct chief *chief);
/* The write of the commit record has ended; `bad`: why it failed, NULL: it is written. */
void chief_committed(struct chief *chief, const struct err *bad);

/* --- chief_notice.c: notices, and checkpoints without one --- */

/* The job's notice is the notice with the earliest deadline of any node. */
void chief_gather_notices(struct chief *chief);
void chief_decide_notice(struct chief *chief);
void chief_decide_checkpoint(struct chief *chief);
/* A user has asked for a save, and then the end. Without a commit the job goes on. */
void chief_decide_stop(struct chief *chief);
void chief_decide_period(struct chief *chief);

/* --- chief_mark.c: what the job does, for the ledger --- */

/* Once every decision is taken: emits a mark for each change of what the job does. */
void chief_mark(struct chief *chief);
