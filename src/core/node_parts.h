/* SPDX-License-Identifier: Apache-2.0
 *
 * node_parts: what the files of the node do for each other, file by file. A file calls only those
 * that stand above it here; node.c, whose functions are in node.h, stands below all and calls them.
 * For node*.c alone.
 */
#ifndef PCHRUN_CORE_NODE_PARTS_H
#define PCHRUN_CORE_NODE_PARTS_H

#include "core/node_state.h"

/* --- node_cause.c: the first failure, here and of the job --- */

/* The first failure counts, and none of those that our own stopping brings about. */
void node_record_fault(struct node *node, const struct node_fault *fault);
/* A later attempt has taken the job over, or a person has asked for its end: such a job must not
 * begin again. The node keeps this for good. It tells of it when nothing else has failed, and again
 * when the outcome would let the job begin again, here or by the scheduler. */
void node_tell_final(struct node *node);
/* A record could not be written. `bad` says whether a later attempt has taken the job over. */
void node_judge_record(struct node *node, const struct err *bad);
/* The first on this node, without its time. */
void node_describe_fault(const struct node *node, struct peer_cause *ret);
/* NULL: it is none of the commands. */
const struct child *node_child_of(const struct node *node, int pid);
/* Node 0 is lost, unless something has failed here before it was. */
void node_blame_chief(struct node *node);
/* What the order says of the end, which has come: another failure may have been the first. */
void node_take_cause(struct node *node, const struct peermsg *msg);

/* --- node_end.c: what is left here, the end --- */

const char *node_state_text(enum node_state state);
/* The only way from one state to another. */
void node_enter(struct node *node, enum node_state state);
/* Is there anything on this node that the job's end waits for? */
bool node_has_work(const struct node *node);
bool node_commands_have_ended(const struct node *node);
/* Until when the word of those who are still attached is waited for before the end is told;
 * CLOCK_NEVER: it is not. */
int64_t node_settles_at(const struct node *node);
bool node_is_settling(const struct node *node);
/* The commands have ended, their ends are settled, and nothing is left that would be waited for. */
bool node_is_finished(const struct node *node);
/* Ends what commands that have ended left behind, unless that is under way. */
void node_sweep_if_last(struct node *node);
/* The supervisor ends. */
void node_leave(struct node *node);
/* Leaves NODE_STOPPING if nothing is left here, or what is left was given up. */
void node_check_gone(struct node *node);

struct node_ending {
    enum outcome outcome;
    int exit_code;
    const char *why;
    enum peer_manner manner;
    int64_t deadline;
    bool restarts;
};
/* What runs here is ended in the manner that is told, with the job or with its generation. */
void node_stop(struct node *node, const struct node_ending *ending);
/* There is to be no other generation after all. */
void node_stop_for_good(struct node *node, const struct node_ending *ending);
/* There is no chief to ask. */
void node_stop_alone(struct node *node, enum outcome outcome, int code, const char *why);

/* --- node_notice.c: signals and notices --- */

/* A notice is live, of this node or of the job. */
bool node_is_noticed(const struct node *node);
void node_take_notice(struct node *node, enum grace_change change);
/* What the order says of the notice of the whole job. */
void node_take_notice_of_job(struct node *node, const struct peer_order *order);
/* The job goes on after its notices: those whose time has passed are told no more. */
void node_serve_notices(struct node *node);
int64_t node_serves_at(const struct node *node);
/* Asks for the save before the deadline of a notice that ends nothing any more. */
void node_save_for_repeated(struct node *node);
int64_t node_saves_for_repeated_at(const struct node *node);
/* When a node that has a notice and no chief leaves by itself; CLOCK_NEVER: not. */
int64_t node_leave_unjoined_at(const struct node *node);
/* When a node that has a notice waits no longer for a chief that is mute; CLOCK_NEVER: it does. */
int64_t node_give_up_chief_at(const struct node *node);
void node_on_notice(struct node *node, const struct event *event);
void node_on_signal(struct node *node, const struct event *event);
/* Hands on what came while commands were being started. */
void node_forward(struct node *node);

/* --- node_watch.c: do the ranks make progress? --- */

/* Takes in what was read of the steps, before the ranks do. */
void node_note_steps(struct node *node, const struct event *event);
void node_on_examined(struct node *node, const struct event *event);
void node_fill_motion(struct node *node, struct peer_status *status);
/* The steps are read for it now and then. */
void node_watch(struct node *node);
int64_t node_watches_at(const struct node *node);
void node_on_save_asked(struct node *node, const struct event *event);
void node_on_stop_asked(struct node *node, const struct event *event);

/* --- node_procs.c: what the training processes say --- */

void node_on_proc_attached(struct node *node, const struct event *event);
void node_on_proc_message(struct node *node, const struct event *event);
void node_on_proc_gone(struct node *node, const struct event *event);
void node_on_proc_unattached(struct node *node, const struct event *event);
void node_on_proc_lost(struct node *node, const struct event *event);
void node_on_steps(struct node *node, const struct event *event);
void node_on_prepared(struct node *node, const struct event *event);
void node_on_committed(struct node *node, const struct event *event);
/* A command has failed, and one of its ranks has said why: that is told, too. False: none has. */
bool node_add_reason(const struct node *node, struct node_fault *fault);
/* A success is not believed of who was attached and went without a word, nor of who is still
 * attached when all is over, and not done: a fault. What ends with another code tells of itself. */
void node_judge_silence(struct node *node);

/* --- node_children.c: the commands --- */

void node_on_child_started(struct node *node, const struct event *event);
void node_on_child_failed(struct node *node, const struct event *event);
void node_on_child_dying(struct node *node, const struct event *event);
void node_on_child_exited(struct node *node, const struct event *event);
/* Commands that died of a notice, when their ranks are gone, or no notice has come. */
void node_end_those_who_left(struct node *node);
/* CLOCK_NEVER: no notice is waited for. */
int64_t node_misses_notice_at(const struct node *node);
void node_on_tree_empty(struct node *node, const struct event *event);
/* The time for that may be over: then the steps of whoever is still attached are asked for. */
void node_settle(struct node *node);
/* Sends the signals whose time has come to what is to be ended. */
void node_climb(struct node *node);
int64_t node_climb_at(const struct node *node);

/* --- node_restart.c: from one generation to the next --- */

/* Nothing of the last generation is left, and another begins. */
void node_renew(struct node *node);

/* --- node_status.c: node_flush(), of node.h --- */

#endif
