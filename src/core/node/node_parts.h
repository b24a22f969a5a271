/* SPDX-License-Identifier: Apache-2.0
 *
 * node_parts: the functions that the node's files share. A file calls only the files above it in
 * this list. node.c calls them all; its own functions are in node_state.h. Only node*.c include
 * this header.
 */
#pragma once

#include "core/node/node_state.h"

/* --- node_cause.c: the first failure of this node, and of the job --- */

/* The time by which failures are ordered. A crash counts as a little earlier than it was seen. But
 * a process that told its failure gave the time, however it ended later. */
int64_t node_counts_from(const struct node_fault *fault);
/* The first failure counts. A failure that comes from our own signals is not recorded. */
void node_record_fault(struct node *node, const struct node_fault *fault);
/* Adds the reason that the process gave at `at` (0: unknown), with its code. "": it gave none. */
void node_add_words(struct node_fault *fault, const char *reason, int64_t at, int code);
/* A later attempt has taken the job over, or a person has asked for its end: the job must not
 * begin again. The node keeps this reason for good. It reports the reason when nothing else has
 * failed, and again when the outcome would let the job begin again, here or by the scheduler. */
void node_tell_final(struct node *node);
/* A record could not be written. `bad` says whether a later attempt has taken the job over. */
void node_judge_record(struct node *node, const struct err *bad);
/* The first failure of this node, without its time. */
void node_describe_fault(const struct node *node, struct peer_cause *ret);
/* NULL: no command has this pid. */
const struct child *node_child_of(const struct node *node, int pid);
/* Node 0 is lost. That is the cause, unless something failed on this node earlier. */
void node_blame_chief(struct node *node);
/* Takes the cause of the end from an order, which may name another cause than before. */
void node_take_cause(struct node *node, const struct peer_cause *cause,
                     const struct node_ending *ending);

/* --- node_end.c: the processes that are left, the end --- */

/* The only function that changes the state. */
void node_enter(struct node *node, enum node_state state);
/* This node has a command, or a leftover process, that the job's end waits for. */
bool node_has_work(const struct node *node);
bool node_commands_have_ended(const struct node *node);
/* After its commands' end the node waits until then for the messages of processes that are still
 * attached; CLOCK_NEVER: it does not wait. */
int64_t node_settles_at(const struct node *node);
bool node_is_settling(const struct node *node);
/* The commands have ended, their ends are settled, and the end waits for no leftover process. */
bool node_is_finished(const struct node *node);
/* The rank has trained to its end: it called pch_done, or returned by itself. */
bool node_rank_is_done(const struct node *node, const struct member *m);
/* Every rank is done, and each command that still runs has a rank that only has to end. */
bool node_is_over(const struct node *node);
/* Fills in behind_rank, _pid and _count: the ranks that are done, and whose processes have not
 * ended. */
void node_name_those_who_stay(const struct node *node, struct peer_watch *ret);
/* Ends the processes that the ended commands left behind, unless that is under way. */
void node_sweep_if_last(struct node *node);
/* The supervisor ends. */
void node_leave(struct node *node);
/* Leaves NODE_STOPPING if no process is left, or the node has given up the rest. */
void node_check_gone(struct node *node);

/* Ends the processes of this node in the given manner, for the job's end or for a restart. */
void node_stop(struct node *node, const struct node_ending *ending);
/* The planned restart is cancelled: the job ends. */
void node_stop_for_good(struct node *node, const struct node_ending *ending);
/* The node ends by itself, without a chief. */
void node_stop_alone(struct node *node, enum outcome outcome, int code, const char *why);

/* node->gen is all zero: fills in the rest. */
void node_begin_generation(struct node *node);
/* Checks the health of this node, if it has a check: before the first generation, and before the
 * next one. */
void node_check_health(struct node *node);
void node_on_checked(struct node *node, const struct event *event);
/* The exit code of this node, if `code` is that of the job: an unhealthy node has its own. */
int node_own_code(const struct node *node, enum outcome outcome, int code);
/* When the node ends although node 0 does not know why; CLOCK_NEVER: never. */
int64_t node_gives_up_telling_at(const struct node *node);
void node_give_up_telling(struct node *node);

/* Takes from the order whether the job waits for the replacement of a node. */
void node_take_wait(struct node *node, const struct peer_order *order);
/* When the log says again that it does; CLOCK_NEVER: never. */
int64_t node_says_wait_at(const struct node *node);
void node_say_wait(struct node *node);

/* No process of the last generation is left, and the next generation begins. */
void node_renew(struct node *node);

/* --- node_notice.c: signals and notices --- */

/* A notice of this node or of the job is live and near: a failure is now part of the preemption. */
bool node_notice_is_near(const struct node *node);
/* `signal`: the signal that made the change, 0: a notice source did. */
void node_take_notice(struct node *node, enum grace_change change, int signal);
/* Takes the job's notice from the order. */
void node_take_notice_of_job(struct node *node, const struct peer_order *order);
/* The job goes on after its notices: drops the notices whose deadline has passed. */
void node_serve_notices(struct node *node);
int64_t node_serves_at(const struct node *node);
/* Asks for a save before the deadline of a repeated notice, which no longer ends the job. */
void node_save_for_repeated(struct node *node);
int64_t node_saves_for_repeated_at(const struct node *node);
/* When a node that has a notice goes on without a chief, because it has never joined or the chief
 * is silent; CLOCK_NEVER: never. */
int64_t node_leaves_chief_at(const struct node *node);
void node_on_notice(struct node *node, const struct event *event);
void node_on_signal(struct node *node, const struct event *event);
/* Forwards the signals that came while commands were being started. */
void node_forward(struct node *node);

void node_on_save_asked(struct node *node, const struct event *event);
void node_on_stop_asked(struct node *node, const struct event *event);
/* The chief has given up the save of a request to save and end the job. */
void node_take_stop_answer(struct node *node, const struct peer_order *order);

/* --- node_procs.c: the messages and the steps of the training processes --- */

void node_on_proc_attached(struct node *node, const struct event *event);
void node_on_proc_message(struct node *node, const struct event *event);
void node_on_proc_gone(struct node *node, const struct event *event);
void node_on_proc_unattached(struct node *node, const struct event *event);
void node_on_proc_lost(struct node *node, const struct event *event);
void node_on_steps(struct node *node, const struct event *event);
void node_on_examined(struct node *node, const struct event *event);
/* Fills in the fields of a STATUS about the watchdog. */
void node_fill_motion(struct node *node, struct peer_status *status);
/* Reads the steps for the watchdog when they are due. */
void node_watch(struct node *node);
int64_t node_watches_at(const struct node *node);
void node_on_prepared(struct node *node, const struct event *event);
void node_on_committed(struct node *node, const struct event *event);
/* Adds the reason that a rank of the failed command gave. False: no rank gave one. */
bool node_add_reason(const struct node *node, struct node_fault *fault);
/* Two ranks are faults although their commands exited with 0. The first ended without pch_done or
 * pch_close. The second is not done, but still attached after all commands have ended. */
void node_judge_silence(struct node *node);

/* --- node_children.c: the commands --- */

void node_on_child_started(struct node *node, const struct event *event);
void node_on_child_failed(struct node *node, const struct event *event);
void node_on_child_dying(struct node *node, const struct event *event);
void node_on_child_exited(struct node *node, const struct event *event);
void node_on_child_bad(struct node *node, const struct event *event);
/* A signal that may be a notice has killed commands. They count as ended, and perhaps as failed,
 * when the wait for that notice and for the ranks below them is over. */
void node_judge_those_who_left(struct node *node);
/* When the wait for that notice ends; CLOCK_NEVER: there is none. */
int64_t node_misses_notice_at(const struct node *node);
void node_on_tree_empty(struct node *node, const struct event *event);
/* After node_settles_at(): reads the steps of the processes that are still attached. */
void node_settle(struct node *node);
/* Sends the stop signals that are due. */
void node_climb(struct node *node);
int64_t node_climb_at(const struct node *node);

/* --- node_status.c: node_flush(), of node_state.h --- */
