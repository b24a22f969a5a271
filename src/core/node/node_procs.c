/* SPDX-License-Identifier: Apache-2.0
 * The messages and the steps of a node's training processes. See node_parts.h.
 */
#include "base/clock.h"
#include "base/sigtext.h"
#include "base/str.h"
#include "core/common/gaveup.h"
#include "core/common/slowness.h"
#include "core/common/verdict.h"
#include "core/node/node_parts.h"
#include "wire/gate.h"

#include <stdio.h>

/* The signals that may reach every process of a job, but must end none of them. */
static uint64_t meant_for_us(const struct core_params *params)
{
    uint64_t set = 0;
    for (int number = 1; number <= 64; number++) {
        enum signal_rule rule = params->signals[number].rule;
        if (rule == SIGNAL_PREEMPT || rule == SIGNAL_CHECKPOINT)
            set |= UINT64_C(1) << (number - 1);
    }
    return set;
}

static void welcome(struct node *node, const struct member *m)
{
    struct procmsg msg = {.type = PROCMSG_WELCOME,
                          .rank = m->rank,
                          .local_rank = m->local_rank,
                          .world_size = node->gen.ranks.world_size,
                          .local_world_size = node->gen.ranks.expected,
                          .step = node->commit_step,
                          .word = meant_for_us(node->params),
                          .tag = gate_tag_of(m->served_round),
                          .number = node->uplink.attempt,
                          .generation = node->uplink.generation};
    out_proc(node->out, m->slot, &msg);
}

/* A rank that does not fit the world never will, so the whole job fails. But a process may claim a
 * taken rank while the ranks train. It is then a worker that runs the training script again. The
 * steps, read first, show whether the ranks train. A counter takes no part in the agreement, so it
 * trains on. */
static void refuse(struct node *node, const struct event *event, const struct err *err)
{
    bool counts = event->proc.msg->flags & PROCMSG_FLAG_COUNTS, is_taken = err->code == ERR_TAKEN;
    struct procmsg msg = {.type = PROCMSG_REFUSED};
    str_copy(msg.text, sizeof msg.text, err->text);
    out_proc(node->out, event->proc.slot, &msg);
    out_close_proc(node->out, event->proc.slot);
    out_log(node->out, is_taken || counts ? LOG_WARN : LOG_ERROR, "attach",
            "refused process %d: %s", event->proc.pid, err->text);
    if (counts)
        return;
    struct node_fault fault = {
        .kind = FAULT_RANKS, .rank = -1, .pid = event->proc.pid, .code = EXIT_OWN_ERROR};
    str_copy(fault.text, sizeof fault.text, err->text);
    if (!is_taken) {
        node_record_fault(node, &fault);
        return;
    }
    node->gen.doubt = fault;
    out_simple(node->out, ACT_READ_STEPS);
}

static void settle_doubt(struct node *node)
{
    if (node->gen.doubt.kind != FAULT_NONE && !ranks_steps_of(&node->gen.ranks).have_stepped)
        node_record_fault(node, &node->gen.doubt);
    node->gen.doubt.kind = FAULT_NONE;
}

void node_on_proc_attached(struct node *node, const struct event *event)
{
    struct err err;
    bool counts = event->proc.msg->flags & PROCMSG_FLAG_COUNTS;
    struct member *m = counts ? ranks_count(&node->gen.ranks, node->params, event, &err)
                              : ranks_attach(&node->gen.ranks, node->params, event, &err);
    if (!m) {
        refuse(node, event, &err);
        return;
    }
    if (!counts) {
        round_attached(&node->gen.round, m);
        node->gen.has_roster = false;
    }
    watchdog_heard(&node->watchdog, m);
    welcome(node, m);
    if (counts)
        out_log(node->out, LOG_DEBUG, "attach",
                "process %d counts its steps, as rank %d; it saves nothing", m->pid, m->rank);
    else
        out_log(node->out, LOG_DEBUG, "attach", "rank %d of %d is process %d", m->rank,
                node->gen.ranks.world_size, m->pid);
    node->is_dirty = true;
}

/* The reason is kept until the process fails. The process may still save or tell other ranks, and
 * its exit code counts. */
static void on_proc_error(struct node *node, struct member *m, const struct procmsg *msg)
{
    str_copy(m->reason, sizeof m->reason, msg->text[0] ? msg->text : "no reason given");
    str_one_line(m->reason);
    m->reason_code = msg->number > 0 && msg->number < 256 ? (int)msg->number : 1;
    m->reason_at = node->out->now;
    m->gave_up = gaveup_is_told(m->reason);
    out_log(node->out, LOG_ERROR, "process", "rank %d says why it fails: %s", m->rank, m->reason);
}

/* The process would train on without pchrun, so no save could ever hold all ranks. */
void node_on_proc_unattached(struct node *node, const struct event *event)
{
    struct node_fault fault = {
        .kind = FAULT_RANKS, .rank = -1, .pid = event->proc.pid, .code = EXIT_OWN_ERROR};
    char text[sizeof((struct err *)0)->text + 64];
    snprintf(text, sizeof text, "process %d could not be attached: %s", event->proc.pid,
             event->proc.why);
    str_fit(fault.text, sizeof fault.text, text);
    out_log(node->out, LOG_ERROR, "attach", "%s", fault.text);
    node_record_fault(node, &fault);
}

/* The process's checkpoint is unknown, so neither it nor the job can continue. */
void node_on_proc_lost(struct node *node, const struct event *event)
{
    const struct member *m = ranks_of_slot(&node->gen.ranks, event->proc.slot);
    if (!m || m->is_counter)
        return;
    struct node_fault fault = {
        .kind = FAULT_EXIT, .rank = m->rank, .pid = m->pid, .code = EXIT_OWN_ERROR};
    str_copy(fault.text, sizeof fault.text, event->proc.why);
    out_log(node->out, LOG_ERROR, "attach", "rank %d cannot resume: %s", m->rank, fault.text);
    node_record_fault(node, &fault);
}

static void add_reason(struct node_fault *fault, const struct member *m)
{
    node_add_words(fault, m->reason, m->reason_at, m->reason_code);
}

static void on_done(struct node *node, struct member *m, const struct procmsg *msg)
{
    m->is_done = true;
    m->reason[0] = '\0';
    m->step = msg->step > m->step && msg->step <= RANKS_STEP_MAX ? msg->step : m->step;
    m->is_ended = true;
    round_ended(&node->gen.round);
}

/* A launcher may hide a failure, so the node logs it. An early end without failure may be intended.
 */
static void log_close(struct node *node, const struct member *m)
{
    bool is_told_to = node_notice_is_near(node);
    unsigned long long step = m->step;
    if (node->state != NODE_RUNNING || m->is_done)
        return;
    if (m->status)
        out_log(node->out, LOG_WARN, "attach",
                "rank %d (process %d) has exited with %d at step %llu", m->rank, m->pid, m->status,
                step);
    else if (m->step > m->first_step && !is_told_to)
        out_log(node->out, LOG_INFO, "attach",
                "rank %d (process %d) has detached at step %llu without pch_done (in Python: done)",
                m->rank, m->pid, step);
}

/* A step that no reading has shown before the process ends is a move, too. */
static void end_connection(struct node *node, struct member *m, uint64_t step)
{
    uint64_t known = m->step;
    ranks_gone(&node->gen.ranks, m, step);
    if (m->step > known)
        watchdog_heard(&node->watchdog, m);
}

/* The page is newer than its last reading, which may have been the last of all. */
static void hear_loading(struct member *m, const struct event *event)
{
    if (event->proc.loading_ns > m->pace.loading_ns)
        m->pace.loading_ns = event->proc.loading_ns;
}

/* The node closes the connection now, so that the next worker can take the rank at once. */
static void on_close(struct node *node, struct member *m, const struct procmsg *msg)
{
    bool is_asked = round_asks(&node->gen.round, m);
    m->status = msg->number >= 0 && msg->number < 256 ? (int)msg->number : 255;
    m->is_closed = m->status == 0;
    m->gone_at = m->status ? node->out->now : 0;
    out_close_proc(node->out, m->slot);
    ranks_gone(&node->gen.ranks, m, msg->step);
    m->has_returned = m->is_closed && !is_asked && m->step >= m->last_step;
    log_close(node, m);
    round_ended(&node->gen.round);
    node_judge_silence(node);
    node_check_gone(node);
}

static void end_counter(struct node *node, struct member *counter, uint64_t step)
{
    node->is_dirty = true;
    end_connection(node, counter, step);
    counter->gone_at = ranks_is_silent(counter) ? node->out->now : 0;
    node_check_gone(node);
}

/* A process that only counts its steps decides nothing: its command tells how it ends. */
static void on_counter_message(struct node *node, struct member *m, const struct procmsg *msg)
{
    if (msg->type == PROCMSG_CLOSE) {
        m->is_closed = msg->number == 0;
        m->status = m->is_closed ? 0 : 1;
        out_close_proc(node->out, m->slot);
        end_counter(node, m, msg->step);
    } else if (msg->type == PROCMSG_DONE) {
        m->is_done = m->is_ended = true; /* the rank will finish no further step */
    } else if (msg->type == PROCMSG_ERROR) {
        on_proc_error(node, m, msg);
    }
}

static bool has_lost_a_rank(const struct node *node)
{
    for (int i = 0; i < node->gen.ranks.n; i++)
        if (ranks_is_silent(&node->gen.ranks.members[i]))
            return true;
    return false;
}

/* A rank got a signal and lives, because libpch caught it. Either a scheduler sent a notice, or a
 * launcher ends its workers because one of them died. Near a notice it is never the launcher's end:
 * a rank that has saved may fail, and the others must finish their saves. */
static void on_shield(struct node *node, int number)
{
    const struct signal_plan *plan = &node->params->signals[number];
    if (!node_notice_is_near(node) && has_lost_a_rank(node)) {
        out_log(node->out, LOG_INFO, "stop",
                "a rank got %s after another rank had ended: sending it to all ranks",
                SIGTEXT(number));
        out_signal(node->out, number, TARGET_RANKS);
    } else if (plan->rule == SIGNAL_PREEMPT) {
        node_take_notice(node,
                         grace_shield(&node->grace, number, node->out->now,
                                      (struct grace_left){plan->grace_ns, plan->is_guess}),
                         number);
    }
}

/* Such a save ends while the rank stands in a later step. A rank that wants an answer has come
 * there. */
static bool is_of_background_save(const struct member *m, const struct procmsg *msg)
{
    return (msg->type == PROCMSG_SAVED || msg->type == PROCMSG_SAVE_FAILED) && !msg->wants_answer &&
           msg->step < m->stand.step;
}

void node_on_proc_message(struct node *node, const struct event *event)
{
    struct member *m = ranks_of_slot(&node->gen.ranks, event->proc.slot);
    const struct procmsg *msg = event->proc.msg;
    if (!m)
        return;
    node->is_dirty = true;
    hear_loading(m, event);
    if (msg->type == PROCMSG_TIMEOUT) {
        bool is_known = msg->number > 0 && msg->number < INT64_MAX / NS_PER_MS;
        watchdog_take_timeout(&node->watchdog, m,
                              is_known ? grace_clamp(msg->number * NS_PER_MS) : 0);
    } else if (m->is_counter) {
        on_counter_message(node, m, msg);
    } else if (msg->type == PROCMSG_DONE) {
        on_done(node, m, msg);
    } else if (msg->type == PROCMSG_CLOSE) {
        on_close(node, m, msg);
    } else if (msg->type == PROCMSG_NOTICE && msg->number > 0 && msg->number < 65) {
        on_shield(node, (int)msg->number);
    } else if (msg->type == PROCMSG_ERROR) {
        on_proc_error(node, m, msg);
    } else {
        round_message(&node->gen.round, m, msg);
    }
    /* A notice comes from a signal handler. A rank that gives up its wait has not moved. */
    if (msg->type != PROCMSG_NOTICE && !m->gave_up && !is_of_background_save(m, msg))
        watchdog_heard(&node->watchdog, m);
}

/* --- ends without a report --- */

/* The first of a launcher's ranks that gave a reason and did not leave with success afterwards. */
static const struct member *first_to_say(const struct node *node)
{
    const struct member *m, *first = NULL;
    for (int i = 0; (m = ranks_at(&node->gen.ranks, i)); i++)
        if (m->reason[0] && !m->is_closed && !node_child_of(node, m->pid) &&
            (!first || m->reason_at < first->reason_at))
            first = m;
    return first;
}

bool node_add_reason(const struct node *node, struct node_fault *fault)
{
    const struct ranks *ranks = &node->gen.ranks;
    const struct member *m =
        fault->rank < 0 ? first_to_say(node) : ranks_of_rank(ranks, fault->rank);
    if (!m)
        m = ranks_of_pid(ranks, fault->pid, true);
    if (!m || !m->reason[0])
        return false;
    fault->rank = m->rank;
    add_reason(fault, m);
    return true;
}

/* A rank below a shell or a launcher is over when all commands have ended. */
static bool is_over(const struct node *node, const struct member *m)
{
    const struct child *child = node_child_of(node, m->pid);
    return child ? child->state == CHILD_ENDED : node_commands_have_ended(node);
}

static void record_silence(struct node *node, const struct member *m)
{
    struct node_fault fault = {.kind = FAULT_SILENT,
                               .rank = m->rank,
                               .pid = m->pid,
                               .code = m->status ? m->status : EXIT_OWN_ERROR};
    unsigned long long step = m->step;
    bool is_attached = m->slot >= 0;
    if (m->reason[0] && !m->status && !is_attached)
        fault.code = m->reason_code;
    if (is_attached)
        snprintf(fault.text, sizeof fault.text,
                 "process %d is still attached at step %llu without pch_done, although its command "
                 "exited with 0",
                 m->pid, step);
    else if (m->status)
        snprintf(fault.text, sizeof fault.text,
                 "process %d exited with %d at step %llu, and its command with 0", m->pid,
                 m->status, step);
    else if (m->reason[0])
        snprintf(fault.text, sizeof fault.text,
                 "process %d ended at step %llu, and its command with 0", m->pid, step);
    else
        snprintf(fault.text, sizeof fault.text,
                 "process %d ended at step %llu without pch_done or pch_close (in Python: done or "
                 "close), and its command with 0: it may not have trained to its end",
                 m->pid, step);
    add_reason(&fault, m);
    node_record_fault(node, &fault);
}

void node_judge_silence(struct node *node)
{
    bool is_finished = node_is_finished(node);
    for (int i = 0; i < node->gen.ranks.n; i++) {
        const struct member *m = &node->gen.ranks.members[i];
        bool stays = m->slot >= 0 && !m->is_done && is_finished;
        if (stays || (ranks_is_silent(m) && is_over(node, m)))
            record_silence(node, m);
    }
}

void node_on_proc_gone(struct node *node, const struct event *event)
{
    struct member *m = ranks_of_slot(&node->gen.ranks, event->proc.slot);
    if (!m)
        return;
    if (m->is_counter) {
        end_counter(node, m, event->proc.step);
        return;
    }
    end_connection(node, m, event->proc.step);
    hear_loading(m, event);
    m->gone_at = ranks_is_silent(m) ? node->out->now : 0;
    if (ranks_is_silent(m) && node->state == NODE_RUNNING)
        out_log(node->out, LOG_WARN, "attach",
                "rank %d (process %d) has ended at step %llu without pch_done or pch_close (in "
                "Python: done or close)",
                m->rank, m->pid, ull(m->step));
    round_ended(&node->gen.round);
    node_judge_silence(node);
    node->is_dirty = true;
    node_check_gone(node);
}

/* --- do the ranks make progress? --- */

static struct watchdog_node facts_of(const struct node *node)
{
    return (struct watchdog_node){.is_running = node->state == NODE_RUNNING &&
                                                !node_commands_have_ended(node),
                                  .is_quiet = node_notice_is_near(node),
                                  .round = node->gen.round.is_closed ? 0 : node->gen.round.id};
}

/* Must run before ranks_read_steps(). */
static void note_steps(struct node *node, const struct event *event)
{
    struct watchdog *dog = &node->watchdog;
    struct watchdog_node facts = facts_of(node);
    uint32_t examined = dog->examined;
    watchdog_read(dog, event, &facts);
    if (watchdog_view(dog, &facts).motion != dog->told || examined != dog->examined)
        node->is_dirty = true;
}

void node_on_examined(struct node *node, const struct event *event)
{
    watchdog_examined(&node->watchdog, event);
}

void node_fill_motion(struct node *node, struct peer_status *status)
{
    struct watchdog_node facts = facts_of(node);
    status->watch = watchdog_view(&node->watchdog, &facts);
    node->watchdog.told = status->watch.motion;
}

void node_watch(struct node *node)
{
    watchdog_look(&node->watchdog);
}

int64_t node_watches_at(const struct node *node)
{
    struct watchdog_node facts = facts_of(node);
    return watchdog_wake_at(&node->watchdog, &facts);
}

/* --- steps and records --- */

void node_on_steps(struct node *node, const struct event *event)
{
    struct err err;
    struct node_generation *gen = &node->gen;
    bool had_stepped = ranks_steps_of(&gen->ranks).have_stepped;
    note_steps(node, event);
    bool ok = ranks_read_steps(&gen->ranks, event->steps.by_slot, &err);
    bool steps_first = !had_stepped && ranks_steps_of(&gen->ranks).have_stepped;
    slowness_read(&gen->ranks, event, gen->own_ns);
    bool had_to_vote = round_wants_steps(&gen->round);
    round_steps_read(&gen->round, ok ? NULL : &err);
    bool ends = gen->end_wants_steps, has_heartbeat = uplink_steps_read(&node->uplink);
    const struct core_params *p = node->params; /* for chief_first_read_at(): */
    bool shows_first = p->least_world > 0 || (!p->has_record && p->attempts_without_commit > 0);
    if (had_to_vote || has_heartbeat || gen->notice_wants_steps || gen->fault_wants_steps || ends ||
        shows_first || steps_first || slowness_is_known(&gen->ranks))
        node->is_dirty = true;
    gen->fault_wants_steps = gen->end_wants_steps = gen->notice_wants_steps = false;
    if (ends)
        node_judge_silence(node);
    settle_doubt(node);
}

void node_on_prepared(struct node *node, const struct event *event)
{
    node_judge_record(node, event->unwritten);
    round_prepared(&node->gen.round, event->unwritten);
    node->gen.paths = event->paths;
    node->is_dirty = true;
    node_check_gone(node);
}

/* Only node 0 writes commit records. */
void node_on_committed(struct node *node, const struct event *event)
{
    node_judge_record(node, event->unwritten);
}
