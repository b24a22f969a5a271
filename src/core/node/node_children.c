/* SPDX-License-Identifier: Apache-2.0
 * The commands of a node, their leftover processes, and the end of both. See node_parts.h.
 *
 * With stop.leftovers=leave only the commands count: pchrun signals no leftover process, and does
 * not wait for one.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/sigtext.h"
#include "base/str.h"
#include "core/common/cause.h"
#include "core/common/verdict.h"
#include "core/node/node_parts.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A connection ends at most this long after its command. If it lasts longer, its process is not a
 * child of the command. */
#define SETTLE_NS NS_PER_S
/* A process ends at most this long after its connection: the kernel frees a large memory for
 * seconds. A process that lives longer has only lost its connection. */
#define DYING_NS (30 * NS_PER_S)
/* A signal that killed a command may reach us as a notice at most this long after. */
#define NOTICE_NS NS_PER_S

/* --- their lives --- */

void node_on_child_started(struct node *node, const struct event *event)
{
    struct child *child = &node->gen.children[event->child.index];
    child->state = CHILD_RUNNING;
    child->pid = event->child.pid;
    node->gen.nstarting--;
    node->gen.nrunning++;
    node->is_tree_empty = false;
    node->is_dirty = true;
    node_forward(node);
}

/* The rank of a command: as its process reported, or each command is one rank, in order. */
static int rank_of(const struct node *node, int index)
{
    const struct core_params *p = node->params;
    const struct member *m = ranks_of_pid(&node->gen.ranks, node->gen.children[index].pid, false);
    if (m)
        return m->rank;
    return p->expected_procs == p->children ? p->node_rank * p->children + index : -1;
}

void node_on_child_failed(struct node *node, const struct event *event)
{
    static const int codes[ERR__COUNT] = {
        [ERR_NOT_FOUND] = EXIT_NOT_FOUND, [ERR_NOT_EXEC] = EXIT_NOT_EXECUTABLE};
    struct child *child = &node->gen.children[event->child.index];
    int code = codes[event->child.err->code];
    struct node_fault fault = {.kind = FAULT_START,
                               .rank = rank_of(node, event->child.index),
                               .code = code ? code : EXIT_OWN_ERROR};
    str_fit(fault.text, sizeof fault.text, event->child.err->text);
    node_record_fault(node, &fault);
    /* Normal: a command may have started before exec failed. */
    node->gen.nrunning -= child->state == CHILD_RUNNING;
    node->gen.nstarting -= child->state == CHILD_NONE;
    child->state = CHILD_ENDED;
    node_forward(node);
    node_sweep_if_last(node);
    node_check_gone(node);
}

/* A PyTorch program fails with this text if it is one of several ranks, but has no RANK in its
 * environment.
 */
static void add_hint(struct node_fault *fault)
{
    static const char no_rank[] = "RANK expected, but not set";
    if (strstr(fault->text, no_rank) || strstr(fault->tail, no_rank))
        str_addf(fault->text, sizeof fault->text, "; pchrun sets RANK with -n COUNT only");
}

/* A reason that the process has sent overrides the reason in its error file. */
static void add_death(const struct node *node, const struct death *death, struct node_fault *fault)
{
    if (death->note[0])
        str_addf(fault->text, sizeof fault->text, ": %s", death->note);
    str_copy(fault->tail, sizeof fault->tail, death->tail);
    if (!node_add_reason(node, fault))
        node_add_words(fault, death->reason, death->reason_at, 1);
    add_hint(fault);
}

/* A process may be dead before the job ends, although the kernel reports its exit later. Its
 * connection ends first, so the time of that end counts. But a process that only lost its
 * connection dies of our SIGTERM. 0: our signals may have killed the process. */
static int64_t time_of_death(const struct node *node, const struct child *child,
                             const struct node_fault *fault)
{
    const struct member *m = ranks_of_pid(&node->gen.ranks, child->pid, false);
    int64_t now = node->out->now;
    bool is_stopped = node->state > NODE_RUNNING;
    bool was_killed = is_stopped && child->status == SIGKILL && !node->gen.has_killed &&
                      cause_counts_from(fault->kind, fault->code, now) < node->gen.stopped_at;
    bool is_gone = m && m->gone_at && now - m->gone_at <= DYING_NS;
    bool is_ours =
        is_stopped && is_gone && (m->gone_at >= node->gen.stopped_at || child->status == SIGTERM);
    if (child->died_at)
        return child->died_at;
    if (is_gone && !is_ours)
        return m->gone_at;
    return was_killed ? now : 0;
}

/* The first of a launcher's ranks that ended without pch_done or pch_close, or with an error. */
static struct member *first_to_fail(const struct node *node, bool with_counters)
{
    struct member *m, *first = NULL;
    for (int i = 0; (m = ranks_at(&node->gen.ranks, i)); i++)
        if (ranks_is_silent(m) && (with_counters || !m->is_counter) &&
            !node_child_of(node, m->pid) && (!first || m->gone_at < first->gone_at))
            first = m;
    return first;
}

/* The watchdog of NCCL aborts a process that has waited for another rank for too long. It says so
 * only on standard error. Behind a launcher the signal is unknown. */
static bool has_waited_out(struct node *node, const struct node_fault *fault)
{
    struct member *m = ranks_of_pid(&node->gen.ranks, fault->pid, false);
    bool is_abort = fault->code == EXIT_BY_SIGNAL + SIGABRT;
    if (!m)
        m = ranks_of_pid(&node->gen.ranks, fault->pid, true);
    if (!m) {
        m = first_to_fail(node, true);
        is_abort = m && !m->status;
    }
    if (!is_abort || m->reason[0])
        return false;
    m->gave_up = m->gave_up || watchdog_waited_out(&node->watchdog, m);
    node->is_dirty = node->is_dirty || m->gave_up; /* node 0 counts these ranks */
    return m->gave_up;
}

/* A launcher hides the exit code of its failed worker: torchrun always exits with 1. The worker's
 * code tells us and the scheduler more. If it is unknown, because a signal killed the worker, the
 * fault still names the rank. */
static void look_behind(const struct node *node, struct node_fault *fault)
{
    const struct member *m = fault->rank < 0 ? first_to_fail(node, false) : NULL;
    char how[112];
    if (!m || node->state > NODE_RUNNING)
        return;
    unsigned long long step = m->step;
    if (m->status)
        snprintf(how, sizeof how, "exited with %d at step %llu", m->status, step);
    else
        snprintf(how, sizeof how,
                 "ended at step %llu without pch_done or pch_close (in Python: done or close)",
                 step);
    snprintf(fault->text, sizeof fault->text, "process %d %s, and its command, process %d, with %d",
             m->pid, how, fault->pid, fault->code);
    fault->rank = m->rank;
    fault->pid = m->pid;
    fault->code = m->status ? m->status : fault->code;
    fault->at = m->gone_at;
}

/* A program that does not attach reports a failed save only by its exit code. The outcome does not
 * show the failure, so the log does. */
static void tell_if_asked(const struct node *node, const struct node_fault *fault)
{
    bool was_asked = node->params->save_mode != SAVE_ATTACH && node->state > NODE_RUNNING &&
                     node->gen.end.outcome == OUTCOME_PREEMPTED_UNKNOWN;
    if (was_asked && fault->kind == FAULT_EXIT)
        out_log(node->out, LOG_WARN, "save",
                "%s when it was asked to save: the save may have failed", fault->text);
}

static void record_death(struct node *node, int index, const struct death *death)
{
    static const struct death unknown;
    const struct child *child = &node->gen.children[index];
    int code = verdict_of_status(child->status);
    if (code == 0)
        return;
    bool is_signal = code >= EXIT_BY_SIGNAL && (child->status & 0x7f) != 0;
    char how[80];
    struct node_fault fault = {.kind = is_signal ? FAULT_SIGNAL : FAULT_EXIT,
                               .rank = rank_of(node, index),
                               .pid = child->pid,
                               .code = code,
                               .is_early = child->state == CHILD_RUNNING};
    fault.at = time_of_death(node, child, &fault);
    fault.was_dead = fault.at > 0;
    if (is_signal && node->state > NODE_RUNNING &&
        !fault.was_dead) /* our signal; the fault counts only if the process gave a reason before */
        snprintf(fault.text, sizeof fault.text, "process %d had failed", child->pid);
    else
        snprintf(fault.text, sizeof fault.text, "process %d ended with %s", child->pid,
                 sigtext_of_status(child->status, how, sizeof how));
    tell_if_asked(node, &fault);
    fault.waited_out = !(death && death->note[0]) && has_waited_out(node, &fault);
    if (!is_signal)
        look_behind(node, &fault);
    if (fault.waited_out)
        str_addf(fault.text, sizeof fault.text,
                 ": it had waited for other ranks until its collectives give up");
    add_death(node, death ? death : &unknown, &fault);
    node_record_fault(node, &fault);
}

static void end_child(struct node *node, struct child *child)
{
    child->state = CHILD_ENDED;
    node->gen.nrunning--;
    node->is_dirty = true;
    node->gen.settle_at = node->out->now + SETTLE_NS;
    watchdog_ended(&node->watchdog, child->pid, child->status != 0);
}

/* The real program may live on below a shell that died of the signal. It was not asked yet, unless
 * the signal went to the whole process group. */
static void hand_on(struct node *node)
{
    int number = node->gen.asked_with;
    bool is_left = node_commands_have_ended(node) && node_has_work(node);
    if (!is_left || !number || !node->gen.died_asked || node->gen.has_handed_on)
        return;
    bool is_ask = node->gen.end.manner == MANNER_ASK;
    node->gen.has_handed_on = true;
    out_log(node->out, LOG_NOTICE, "save",
            "the dead command has left processes behind: they have until the deadline to save");
    if (is_ask || !node->params->signals_group)
        out_signal(node->out, number, is_ask ? TARGET_RANKS : TARGET_TREE);
}

static void look_what_is_left(struct node *node)
{
    node_judge_silence(node);
    hand_on(node);
    node_sweep_if_last(node);
    node_check_gone(node);
}

/* --- commands that die of a notice ---
 *
 * Schedulers signal every process of a job, often pchrun last. For attached ranks the signal is a
 * notice: they live on and save. A shell around them dies of the signal, and so does a command that
 * has not attached yet. This is no failure if pchrun gets the notice, too. */

/* `alive`: only the ranks that are attached now count. */
static bool has_ranks_below(const struct node *node, bool alive)
{
    for (int i = 0; i < node->gen.ranks.n; i++) {
        const struct member *m = &node->gen.ranks.members[i];
        if ((m->slot >= 0 || !alive) && !node_child_of(node, m->pid))
            return true;
    }
    return false;
}

/* The ranks below a shell may end by themselves until the ladder signals the whole tree. */
static bool may_end_by_themselves(const struct node *node)
{
    bool is_ending = node->state == NODE_STOPPING && ladder_is_active(&node->gen.ladder) &&
                     !node->gen.has_signalled_tree;
    return (node->state == NODE_RUNNING || is_ending) && has_ranks_below(node, true);
}

/* The signal that killed the command may be a notice that has not reached us yet. */
static bool may_be_notice(const struct node *node, int status)
{
    int number = verdict_signal_of(status);
    bool may_follow = node->state == NODE_RUNNING && !node_notice_is_near(node);
    return number && node->params->signals[number].rule == SIGNAL_PREEMPT &&
           (may_follow || may_end_by_themselves(node));
}

static void await_notice(struct node *node, struct child *child)
{
    child->may_be_noticed = true;
    child->died_at = node->out->now;
    out_log(node->out, LOG_INFO, "notice",
            "process %d has died of %s, perhaps a notice to all processes; %s", child->pid,
            SIGTEXT(verdict_signal_of(child->status)),
            has_ranks_below(node, true) ? "its ranks still run"
                                        : "without a notice within a second it has failed");
}

/* A command has exited, and the node does not know yet whether that is a failure. */
static void keep_exit(struct node *node, struct child *child, const struct death *death)
{
    child->state = CHILD_LEFT;
    if (node->gen.left_pid)
        return;
    node->gen.left_pid = child->pid;
    node->gen.left_death = death ? *death : (struct death){0};
}

/* The node waits a second for the notice. It does not wait if another command has failed, because
 * this death may be the earlier failure. */
int64_t node_misses_notice_at(const struct node *node)
{
    int64_t at = CLOCK_NEVER;
    bool is_near = node_notice_is_near(node);
    for (int i = 0; i < node->params->children; i++)
        if (node->gen.children[i].may_be_noticed)
            at = clock_min(at, node->gen.children[i].died_at + NOTICE_NS);
    if (at == CLOCK_NEVER)
        return CLOCK_NEVER;
    if (may_end_by_themselves(node))
        return is_near ? CLOCK_NEVER : at;
    bool waits = node->state == NODE_RUNNING && !is_near && node->gen.fault.kind == FAULT_NONE;
    return waits ? at : node->out->now;
}

/* Near a notice, a shell's end says nothing: its ranks save or fail by themselves. The death of any
 * other command is a failure that belongs to the preemption. */
void node_judge_those_who_left(struct node *node)
{
    bool is_near = node_notice_is_near(node);
    bool is_shell = is_near && has_ranks_below(node, false);
    for (int i = 0; i < node->params->children; i++) {
        struct child *child = &node->gen.children[i];
        if (!child->may_be_noticed)
            continue;
        child->may_be_noticed = false;
        if (child->state == CHILD_LEFT)
            end_child(node, child);
        if (is_shell)
            continue;
        node->gen.died_asked = node->gen.died_asked || is_near;
        node->gen.has_handed_on = node->gen.died_asked; /* the signal went to all processes */
        record_death(node, i, child->pid == node->gen.left_pid ? &node->gen.left_death : NULL);
    }
    node->gen.left_pid = 0;
    look_what_is_left(node);
}

/* A command has failed. An earlier death that waits for a notice is judged at once. */
static void fail(struct node *node, int index, const struct death *death)
{
    record_death(node, index, death);
    if (node_misses_notice_at(node) <= node->out->now)
        node_judge_those_who_left(node);
}

/* The failure is certain, so the node reports it before the process has ended. */
void node_on_child_dying(struct node *node, const struct event *event)
{
    struct child *child = &node->gen.children[event->child.index];
    if (child->state != CHILD_RUNNING || child->died_at || node->state > NODE_RUNNING)
        return;
    child->status = event->child.status;
    if (may_be_notice(node, child->status)) {
        await_notice(node, child);
        return;
    }
    child->died_at = node->out->now;
    fail(node, event->child.index, NULL);
}

/* The command may run on, and even end with success, but its user calls this a failure. */
void node_on_child_bad(struct node *node, const struct event *event)
{
    const struct child *child = &node->gen.children[event->child.index];
    struct node_fault fault = {.kind = FAULT_EXIT,
                               .rank = rank_of(node, event->child.index),
                               .pid = child->pid,
                               .code = EXIT_FAILURE};
    if (child->state != CHILD_RUNNING || node->state > NODE_RUNNING)
        return;
    snprintf(fault.text, sizeof fault.text,
             "process %d printed a line that watchdog.log_failure matches: %s", child->pid,
             event->child.line);
    out_log(node->out, LOG_ERROR, "process", "%s", fault.text);
    node_record_fault(node, &fault);
}

/* The program has no handler for that signal, or a shell without one is around the program. The
 * signal asks for a save only if the user says so. */
static void note_if_died_asked(struct node *node, const struct child *child)
{
    int number = node->gen.asked_with;
    if (node->state != NODE_STOPPING || !number || verdict_signal_of(child->status) != number)
        return;
    node->gen.died_asked = true;
    if (node->params->save_mode != SAVE_ATTACH)
        out_log(node->out, LOG_WARN, "save",
                "process %d has died of %s, the signal that asked it to save", child->pid,
                SIGTEXT(number));
    else
        out_log(node->out, LOG_INFO, "save", "process %d has died of %s%s", child->pid,
                SIGTEXT(number), node->gen.ranks.n == 0 ? ", before it had attached" : "");
}

void node_on_child_exited(struct node *node, const struct event *event)
{
    struct child *child = &node->gen.children[event->child.index];
    if (child->state != CHILD_RUNNING)
        return;
    child->status = event->child.status;
    if (!child->died_at && may_be_notice(node, child->status))
        await_notice(node, child);
    if (child->may_be_noticed) {
        keep_exit(node, child, event->child.death);
        return;
    }
    note_if_died_asked(node, child);
    end_child(node, child);
    fail(node, event->child.index, event->child.death);
    look_what_is_left(node);
}

void node_settle(struct node *node)
{
    node->gen.settle_at = 0;
    node->gen.end_wants_steps = true;
    out_simple(node->out, ACT_READ_STEPS);
}

void node_on_tree_empty(struct node *node, const struct event *event)
{
    node->is_tree_empty = true;
    node->is_dirty = true;
    if (node->state == NODE_RUNNING)
        ladder_stop(&node->gen.ladder);
    node_judge_silence(node);
    node_check_gone(node);
}

/* --- their end --- */

/* With LEFTOVERS_LEAVE a signal for the whole tree goes only to the commands. */
static enum signal_target target_of(const struct node *node, const struct ladder_rung *rung)
{
    bool leaves = node->params->leftovers == LEFTOVERS_LEAVE;
    return leaves && rung->target == TARGET_TREE ? TARGET_CHILDREN : rung->target;
}

/* A process that the signal would reach. Attached processes may live outside our tree. */
static bool has_target(const struct node *node, enum signal_target target)
{
    if (target == TARGET_RANKS && node->gen.ranks.nconnected > 0)
        return true;
    return !node->is_tree_empty && (target != TARGET_CHILDREN || node->gen.nrunning > 0);
}

/* All nodes send the same signals at the same time, so only node 0 logs them. But every node logs
 * its SIGKILL. */
static void log_rung(struct node *node, int number, enum signal_target target)
{
    static const char *const targets[] = {[TARGET_CHILDREN] = "the commands",
                                          [TARGET_RANKS] = "the ranks",
                                          [TARGET_TREE] = "all processes that are left"};
    enum log_level level = node->uplink.is_member ? LOG_DEBUG : LOG_INFO;
    out_log(node->out, number == SIGKILL ? LOG_WARN : level, "stop", "sending %s to %s",
            SIGTEXT(number), targets[target]);
}

static void send_signal(struct node *node, const struct ladder_rung *rung)
{
    enum signal_target target = target_of(node, rung);
    if (!has_target(node, target))
        return;
    log_rung(node, rung->signal, target);
    out_signal(node->out, rung->signal, target);
    node->gen.has_signalled_tree = node->gen.has_signalled_tree || rung->target == TARGET_TREE;
    node->gen.has_killed = node->gen.has_killed || rung->signal == SIGKILL;
}

/* A signal that is sent during a start would miss the commands that are just starting. */
int64_t node_climb_at(const struct node *node)
{
    return node->gen.nstarting > 0 ? CLOCK_NEVER : ladder_wake_at(&node->gen.ladder);
}

void node_climb(struct node *node)
{
    struct ladder_rung rung;
    while (ladder_climb(&node->gen.ladder, node->out->now, &rung)) {
        if (rung.signal) {
            send_signal(node, &rung);
            continue;
        }
        out_log(node->out, LOG_ERROR, "stop", "processes that cannot be killed are left behind");
        node->gen.has_given_up = true;
        node->is_dirty = true;
        node_judge_silence(node);
    }
    node_check_gone(node);
}
