/* SPDX-License-Identifier: Apache-2.0
 *
 * test_core_walk: short walks through the core: events in, the actions that follow compared as
 * text.
 *
 * What one node does by itself, and a whole round of two nodes. That the promises hold whatever
 * happens is for tests/sim; here stands what is done, in which order.
 */
#include "core/core.h"

#include "unit.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/sigtext.h"
#include "base/str.h"
#include "core/verdict.h"
#include "wire/gate.h"

#include <signal.h>
#include <stdio.h>

#define MS NS_PER_MS
#define S  NS_PER_S

enum { NODES = 2, QUEUE = 64 };

struct walk {
    struct core *core;
    char acts[2048]; /* since the last took() */
    char log[4096];
    int quietest; /* the most important level of a log line */
};

static struct walk walks[NODES];
static int64_t now;
static uint64_t steps[CORE_SLOTS_MAX];
static struct letter {
    int to;
    struct peermsg msg;
} queue[QUEUE];
static int nqueue;

/* --- what the core does, as text --- */

static void note(struct walk *w, const char *fmt, ...) PRINTF_LIKE(2, 3);

static void note(struct walk *w, const char *fmt, ...)
{
    char text[128];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    cr_assert(str_addf(w->acts, sizeof w->acts, "%s%s", w->acts[0] ? "; " : "", text));
}

static void note_gate(struct walk *w, uint64_t word)
{
    unsigned long long step = gate_step(word);
    if (gate_tag(word) == GATE_TAG_LEAVE)
        note(w, "gate leave");
    else if (step == GATE_OPEN)
        note(w, "gate open");
    else
        note(w, "gate %llu%s%s", step, gate_is_decided(word) ? " decided" : "",
             gate_ends_run(word) ? " last" : "");
}

static void note_message(struct walk *w, int slot, const struct procmsg *msg)
{
    if (msg->type == PROCMSG_ANSWER)
        note(w, "%d: %s, %s", slot, msg->action == PROC_EXIT ? "leave" : "go on",
             msg->committed ? "committed" : "not committed");
    else
        note(w, "%d: %s", slot, procmsg_name(msg->type));
}

static void note_log(struct walk *w, const struct action *a)
{
    if (a->log.level < w->quietest)
        w->quietest = a->log.level;
    cr_assert_str_neq(a->log.topic, "bug", "%s", a->log.text);
    if (a->log.level <= LOG_INFO)
        str_addf(w->log, sizeof w->log, "%s: %s\n", a->log.topic, a->log.text);
}

/* The shell says at last why it ended, alone only of what was no success. */
static void note_exit(struct walk *w, const struct action *a)
{
    note(w, "exit %d %s", a->exit.code, verdict_name(a->exit.outcome));
    if (a->exit.outcome != OUTCOME_COMPLETED)
        str_addf(w->log, sizeof w->log, "end: %s\n", a->exit.text);
}

static void post(struct walk *w, const struct peermsg *msg)
{
    cr_assert(nqueue < QUEUE);
    queue[nqueue++] = (struct letter){.to = w == &walks[0] ? 1 : 0, .msg = *msg};
}

static void perform(void *shell, const struct action *a)
{
    static const char *const targets[] = {
        [TARGET_CHILDREN] = "children", [TARGET_RANKS] = "ranks", [TARGET_TREE] = "tree"};
    static const char *const plain[ACT__COUNT] = {
        [ACT_START] = "start", [ACT_READ_STEPS] = "read", [ACT_CONNECT] = "connect"};
    static const char *const with_step[ACT__COUNT] = {
        [ACT_PREPARE] = "prepare", [ACT_COMMIT] = "commit", [ACT_COMMITTED] = "committed"};
    struct walk *w = shell;
    if (plain[a->type])
        note(w, "%s", plain[a->type]);
    else if (with_step[a->type])
        note(w, "%s %llu", with_step[a->type], (unsigned long long)a->step);
    else if (a->type == ACT_SIGNAL)
        note(w, "%s to %s", SIGTEXT(a->signal.number), targets[a->signal.target]);
    else if (a->type == ACT_GATE)
        note_gate(w, a->gate);
    else if (a->type == ACT_PROC_SEND)
        note_message(w, a->proc.slot, a->proc.msg);
    else if (a->type == ACT_PROC_CLOSE)
        note(w, "%d: closed", a->proc.slot);
    else if (a->type == ACT_SEND)
        post(w, a->peer.msg);
    else if (a->type == ACT_EXIT)
        note_exit(w, a);
    else if (a->type == ACT_LOG)
        note_log(w, a);
}

static void assert_acts(struct walk *w, const char *expected)
{
    cr_assert_str_eq(w->acts, expected, "did \"%s\", not \"%s\"", w->acts, expected);
    w->acts[0] = '\0';
}

static void assert_said(const struct walk *w, const char *text)
{
    cr_assert_not_null(strstr(w->log, text), "\"%s\" is not in:\n%s", text, w->log);
}

/* --- events --- */

static void feed(struct walk *w, struct event event)
{
    event.now = now;
    core_handle(w->core, &event);
}

static struct core_params params_of(int node, int nnodes, int children)
{
    struct core_params p = {.node_rank = node,
                            .nnodes = nnodes,
                            .children = children,
                            .expected_procs = children,
                            .attempt = 1,
                            .incarnation = 7 + (uint64_t)node,
                            .job = "walk",
                            .join_timeout_ns = 60 * S,
                            .heartbeat_interval_ns = S,
                            .heartbeat_timeout_ns = 15 * S,
                            .reconnect_ns = 2 * S,
                            .exit_wait_ns = 10 * S,
                            .term_wait_ns = 10 * S,
                            .kill_wait_ns = 5 * S,
                            .commit_wait_ns = 30 * S,
                            .exit = {42, 42, 42, 42, 43}};
    p.signals[SIGTERM] = (struct signal_plan){SIGNAL_PREEMPT, 25 * S};
    p.signals[SIGUSR2] = (struct signal_plan){SIGNAL_CHECKPOINT, 0};
    return p;
}

static struct walk *begin(const struct core_params *params)
{
    struct walk *w = &walks[params->node_rank];
    *w = (struct walk){.quietest = LOG_DEBUG};
    if (now == 0)
        now = 100 * S;
    w->core = core_new(params, perform, w);
    feed(w, (struct event){.type = EV_START});
    return w;
}

static void started(struct walk *w, int index)
{
    feed(w,
         (struct event){.type = EV_CHILD_STARTED, .child = {.index = index, .pid = 1000 + index}});
}

static void exited(struct walk *w, int index, int status)
{
    feed(w, (struct event){.type = EV_CHILD_EXITED,
                           .child = {.index = index, .pid = 1000 + index, .status = status}});
}

static void tree_empty(struct walk *w)
{
    feed(w, (struct event){.type = EV_TREE_EMPTY});
}

static void signalled(struct walk *w, int number)
{
    feed(w, (struct event){.type = EV_SIGNAL, .signal = {.number = number}});
}

/* A message of a process; an attaching one says its rank, if it is told one. */
static void says(struct walk *w, int slot, struct procmsg msg)
{
    enum event_type type = msg.type == PROCMSG_ATTACH ? EV_PROC_ATTACHED : EV_PROC_MESSAGE;
    feed(w, (struct event){.type = type, .proc = {.slot = slot, .pid = 1000 + slot, .msg = &msg}});
}

static void attaches(struct walk *w, int slot, int rank, int world_size)
{
    says(w, slot,
         (struct procmsg){.type = PROCMSG_ATTACH,
                          .rank = rank,
                          .local_rank = PROCMSG_UNKNOWN,
                          .world_size = world_size,
                          .local_world_size = PROCMSG_UNKNOWN,
                          .stride = 1});
}

static void gone(struct walk *w, int slot)
{
    feed(w, (struct event){.type = EV_PROC_GONE, .proc = {.slot = slot, .step = steps[slot]}});
}

static void closes(struct walk *w, int slot)
{
    says(w, slot, (struct procmsg){.type = PROCMSG_CLOSE, .step = steps[slot]});
}

static void steps_are_read(struct walk *w)
{
    feed(w, (struct event){.type = EV_STEPS, .steps = {.by_slot = steps}});
}

static void written(struct walk *w, enum event_type type, uint64_t step)
{
    feed(w, (struct event){.type = type, .written = {.step = step}});
}

/* Time passes up to what the core wants to be woken for. */
static void wake(struct walk *w)
{
    int64_t at = core_wake_at(w->core);
    cr_assert_neq(at, CLOCK_NEVER, "it waits for nothing");
    now = at > now ? at : now;
    feed(w, (struct event){.type = EV_TIMER});
}

static void end(struct walk *w)
{
    core_free(w->core);
    w->core = NULL;
}

static struct walk *begin_alone(int children)
{
    struct core_params p = params_of(0, 1, children);
    struct walk *w = begin(&p);
    assert_acts(w, "start");
    for (int i = 0; i < children; i++)
        started(w, i);
    assert_acts(w, "");
    return w;
}

/* --- a plain command --- */

Test(core_walk, a_command_that_succeeds)
{
    struct walk *w = begin_alone(1);
    cr_assert_eq(core_wake_at(w->core), CLOCK_NEVER, "idle costs nothing");
    tree_empty(w);
    exited(w, 0, 0);
    assert_acts(w, "gate leave; exit 0 completed");
    cr_assert_str_eq(w->log, "", "a wrapper of a success says nothing");
    end(w);
}

Test(core_walk, a_command_that_fails)
{
    struct core_report report;
    struct walk *w = begin_alone(2);
    exited(w, 1, 7 << 8);
    assert_acts(w, "gate leave; SIGTERM to tree");
    assert_said(w, "sending SIGTERM to all that is left");
    tree_empty(w);
    exited(w, 0, SIGTERM);
    assert_acts(w, "exit 7 failed");
    core_report(w->core, &report);
    cr_assert(report.first_cause.is_known && report.first_cause.code == 7);
    cr_assert_eq(report.first_cause.rank, 1, "its place says which rank it is");
    end(w);
}

Test(core_walk, the_rank_of_a_command_is_not_made_up)
{
    struct core_report report;
    struct core_params p = params_of(0, 1, 1);
    p.expected_procs = 8; /* the command is a launcher */
    struct walk *w = begin(&p);
    started(w, 0);
    exited(w, 0, 1 << 8);
    core_report(w->core, &report);
    cr_assert_eq(report.first_cause.rank, -1);
    end(w);
}

Test(core_walk, equal_signals_within_a_second_are_one)
{
    struct walk *w = begin_alone(1);
    signalled(w, SIGINT);
    now += S;
    signalled(w, SIGINT);
    assert_acts(w, "SIGINT to children");
    signalled(w, SIGHUP);
    assert_acts(w, "SIGHUP to children");
    now += 1;
    signalled(w, SIGINT);
    assert_acts(w, "SIGINT to children");
    signalled(w, SIGUSR1);
    signalled(w, SIGUSR1);
    signalled(w, SIGWINCH);
    signalled(w, SIGWINCH);
    assert_acts(w, "SIGUSR1 to children; SIGUSR1 to children; SIGWINCH to children; "
                   "SIGWINCH to children");
    end(w);
}

/* --- leftovers --- */

Test(core_walk, leftovers_are_swept)
{
    struct walk *w = begin_alone(1);
    exited(w, 0, 0);
    assert_acts(w, "");
    wake(w);
    assert_acts(w, "SIGTERM to tree");
    wake(w);
    assert_acts(w, "SIGKILL to tree");
    wake(w);
    assert_acts(w, "gate leave; exit 0 completed");
    assert_said(w, "processes that cannot be killed are left behind");
    end(w);
}

Test(core_walk, leftovers_are_left)
{
    struct core_params p = params_of(0, 1, 2);
    p.leftovers = LEFTOVERS_LEAVE;
    struct walk *w = begin(&p);
    started(w, 0);
    started(w, 1);
    assert_acts(w, "start");
    exited(w, 0, 3 << 8);
    assert_acts(w, "gate leave; SIGTERM to children");
    exited(w, 1, SIGTERM);
    assert_acts(w, "exit 3 failed");
    end(w);
}

Test(core_walk, a_notice_after_the_success_is_too_late)
{
    struct walk *w = begin_alone(1);
    exited(w, 0, 0);
    wake(w);
    assert_acts(w, "SIGTERM to tree");
    signalled(w, SIGTERM);
    steps_are_read(w);
    assert_acts(w, "read");
    tree_empty(w);
    assert_acts(w, "gate leave; exit 0 completed");
    end(w);
}

Test(core_walk, a_late_notice_limits_the_sweep)
{
    struct walk *w = begin_alone(1);
    struct core_params p = params_of(0, 1, 1);
    exited(w, 0, 0);
    wake(w);
    int64_t swept_at = now;
    now += S;
    end(w);
    p.signals[SIGTERM].grace_ns = 2 * S;
    w = begin(&p);
    started(w, 0);
    exited(w, 0, 0);
    wake(w);
    assert_acts(w, "start; SIGTERM to tree");
    signalled(w, SIGTERM);
    steps_are_read(w);
    wake(w);
    assert_acts(w, "read; SIGKILL to tree");
    cr_assert_lt(now - swept_at, 4 * S, "the platform would have come first");
    end(w);
}

/* `sh -c` dies of the signal that is forwarded to it, and its children do not hear of it. */
Test(core_walk, what_a_stopped_command_leaves_is_swept_at_once)
{
    struct walk *w = begin_alone(1);
    signalled(w, SIGTERM);
    assert_acts(w, "read");
    steps_are_read(w);
    assert_acts(w, "gate leave; SIGTERM to children");
    exited(w, 0, SIGTERM);
    assert_acts(w, "");
    int64_t ended_at = now;
    wake(w);
    assert_acts(w, "SIGTERM to tree");
    cr_assert_leq(now - ended_at, 10 * MS, "it waited for the deadline");
    tree_empty(w);
    assert_acts(w, "exit 42 preempted_unknown");
    end(w);
}

/* --- processes that attach --- */

Test(core_walk, a_preemption_from_notice_to_exit)
{
    struct core_report report;
    struct walk *w = begin_alone(1);
    attaches(w, 0, PROCMSG_UNKNOWN, PROCMSG_UNKNOWN);
    assert_acts(w, "0: WELCOME");
    steps[0] = 4;
    signalled(w, SIGTERM);
    assert_acts(w, "read");
    steps_are_read(w);
    assert_acts(w, "gate 5; read");
    steps[0] = 5; /* it was faster */
    says(w, 0,
         (struct procmsg){
             .type = PROCMSG_WAITING, .step = 5, .word = gate_make(5, 1, false, false)});
    steps_are_read(w);
    assert_acts(w, "gate 6; 0: LOOK; read");
    steps_are_read(w);
    assert_acts(w, "gate 6 decided last");
    steps[0] = 6;
    says(w, 0, (struct procmsg){.type = PROCMSG_SERVING, .step = 6, .tag = 1});
    assert_acts(w, "gate open");
    says(w, 0, (struct procmsg){.type = PROCMSG_SAVED, .step = 6, .tag = 1, .wants_answer = true});
    assert_acts(w, "prepare 6");
    written(w, EV_PREPARED, 6);
    assert_acts(w, "commit 6");
    core_report(w->core, &report);
    cr_assert_eq(report.commit_step, 0, "not before it is on disk");
    written(w, EV_COMMITTED, 6);
    assert_acts(w, "committed 6; 0: leave, committed; gate leave");
    core_report(w->core, &report);
    cr_assert_eq(report.commit_step, 6);
    gone(w, 0);
    tree_empty(w);
    exited(w, 0, 0);
    assert_acts(w, "exit 42 preempted");
    end(w);
}

/* However late it is: it does not leave them behind. */
Test(core_walk, who_was_away_ends_its_processes_before_it_leaves)
{
    struct walk *w = begin_alone(2);
    exited(w, 0, SIGABRT);
    assert_acts(w, "gate leave; SIGTERM to tree");
    now += 1000 * S;
    feed(w, (struct event){.type = EV_TIMER});
    assert_acts(w, "SIGKILL to tree");
    now += 1000 * S;
    feed(w, (struct event){.type = EV_TIMER});
    assert_acts(w, ""); /* they may have stood still, too, or their end is yet to be seen */
    tree_empty(w);
    exited(w, 1, SIGKILL);
    assert_acts(w, "exit 134 failed");
    end(w);
}

Test(core_walk, a_success_without_a_word_is_none)
{
    struct walk *w = begin_alone(2);
    attaches(w, 0, 0, 2);
    attaches(w, 1, 1, 2);
    closes(w, 0);
    exited(w, 0, 0);
    steps[1] = 3;
    gone(w, 1);
    assert_said(w, "rank 1 (process 1001) has gone at step 3, without pch_done or pch_close");
    assert_acts(w, "0: WELCOME; 1: WELCOME; 0: closed");
    tree_empty(w);
    exited(w, 1, 0);
    assert_acts(w, "gate leave; exit 125 failed");
    assert_said(w, "process 1001 ended at step 3 without pch_done or pch_close");
    end(w);
}

/* Behind a shell that ends with `|| true`: the rank has said itself that it failed. */
Test(core_walk, a_failure_that_the_command_hides_is_one)
{
    struct walk *w = begin_alone(1);
    attaches(w, 0, 0, 1);
    tree_empty(w);
    says(w, 0, (struct procmsg){.type = PROCMSG_CLOSE, .step = 5, .number = 3});
    assert_said(w, "rank 0 (process 1000) has exited with 3 at step 5");
    exited(w, 0, 0);
    assert_acts(w, "0: WELCOME; 0: closed; gate leave; exit 3 failed");
    assert_said(w, "rank 0, process 1000 exited with 3 at step 5, and its command with 0");
    end(w);
}

/* The same, read after the end of the command; and a number that no program exits with. */
Test(core_walk, a_failure_that_is_told_late)
{
    struct walk *w = begin_alone(1);
    attaches(w, 0, 0, 1);
    tree_empty(w);
    exited(w, 0, 0);
    assert_acts(w, "0: WELCOME");
    says(w, 0, (struct procmsg){.type = PROCMSG_CLOSE, .step = 5, .number = INT64_MIN});
    assert_acts(w, "0: closed; gate leave; exit 255 failed");
    end(w);
}

Test(core_walk, a_command_that_fails_is_the_one_that_counts)
{
    struct walk *w = begin_alone(1);
    attaches(w, 0, 0, 1);
    says(w, 0, (struct procmsg){.type = PROCMSG_CLOSE, .step = 5, .number = 3});
    tree_empty(w);
    exited(w, 0, 7 << 8);
    assert_acts(w, "0: WELCOME; 0: closed; gate leave; exit 7 failed");
    end(w);
}

static void says_why(struct walk *w, int slot, int code, const char *why)
{
    struct procmsg msg = {.type = PROCMSG_ERROR, .number = code};
    str_copy(msg.text, sizeof msg.text, why);
    says(w, slot, msg);
}

/* Its exit code is its own, and comes when it is ready. */
Test(core_walk, a_reason_is_kept_until_the_failure)
{
    struct walk *w = begin_alone(1);
    attaches(w, 0, 0, 1);
    says_why(w, 0, 9, "bad loss");
    assert_said(w, "process: rank 0 says why it fails: bad loss");
    assert_acts(w, "0: WELCOME");
    tree_empty(w);
    exited(w, 0, 3 << 8);
    assert_acts(w, "gate leave; exit 3 failed");
    assert_said(w, "rank 0, process 1000 ended with exit code 3: bad loss");
    end(w);
}

Test(core_walk, a_reason_is_forgotten_by_who_is_done)
{
    struct walk *w = begin_alone(1);
    attaches(w, 0, 0, 1);
    says_why(w, 0, 9, "");
    assert_said(w, "rank 0 says why it fails: no reason given");
    says(w, 0, (struct procmsg){.type = PROCMSG_DONE, .step = 4});
    closes(w, 0);
    tree_empty(w);
    exited(w, 0, 0);
    assert_acts(w, "0: WELCOME; 0: closed; gate leave; exit 0 completed");
    end(w);
}

Test(core_walk, a_reason_of_who_goes_without_a_word)
{
    struct walk *w = begin_alone(1);
    attaches(w, 0, 0, 1);
    says_why(w, 0, 9, "bad loss");
    gone(w, 0);
    tree_empty(w);
    exited(w, 0, 0);
    assert_acts(w, "0: WELCOME; gate leave; exit 9 failed");
    assert_said(w, "process 1000 ended at step 0, and its command with 0: bad loss");
    end(w);
}

/* The launcher fails since its ranks do: the first that said why is the cause. */
Test(core_walk, a_reason_below_a_launcher)
{
    struct core_params p = params_of(0, 1, 1);
    p.expected_procs = PROCMSG_UNKNOWN;
    struct walk *w = begin(&p);
    started(w, 0);
    for (int rank = 0; rank < 3; rank++)
        says(w, rank + 10,
             (struct procmsg){.type = PROCMSG_ATTACH,
                              .rank = rank,
                              .local_rank = rank,
                              .world_size = 3,
                              .local_world_size = 3,
                              .stride = 1});
    says_why(w, 10, 1, "over it");
    closes(w, 10);
    now += S;
    says_why(w, 12, 1, "out of memory");
    now += S;
    says_why(w, 11, 1, "lost my peer");
    w->acts[0] = '\0';
    tree_empty(w);
    exited(w, 0, 2 << 8);
    assert_acts(w, "gate leave; exit 2 failed");
    assert_said(w, "rank 2, process 1000 ended with exit code 2: out of memory");
    end(w);
}

Test(core_walk, who_cannot_resume_fails_at_once)
{
    struct walk *w = begin_alone(1);
    struct procmsg why = {.type = PROCMSG_REFUSED, .text = "its record is gone"};
    attaches(w, 0, 0, 1);
    feed(w, (struct event){.type = EV_PROC_LOST, .proc = {.slot = 0, .msg = &why}});
    assert_acts(w, "0: WELCOME; gate leave; SIGTERM to tree");
    assert_said(w, "rank 0 cannot resume: its record is gone");
    tree_empty(w);
    exited(w, 0, SIGTERM);
    assert_acts(w, "exit 125 failed");
    end(w);
}

Test(core_walk, who_leaves_early_is_told_of)
{
    struct walk *w = begin_alone(1);
    attaches(w, 0, 0, 1);
    says(w, 0, (struct procmsg){.type = PROCMSG_CLOSE, .step = 5});
    assert_said(w, "attach: rank 0 (process 1000) has left at step 5 without pch_done");
    attaches(w, 0, 0, 1);
    w->log[0] = '\0';
    says(w, 0, (struct procmsg){.type = PROCMSG_DONE, .step = 9});
    says(w, 0, (struct procmsg){.type = PROCMSG_CLOSE, .step = 9});
    cr_assert_str_eq(w->log, "");
    w->acts[0] = '\0';
    tree_empty(w);
    exited(w, 0, 0);
    assert_acts(w, "gate leave; exit 0 completed");
    end(w);
}

/* Its end is read a moment after that of its command, or of the shell that started it. */
Test(core_walk, the_word_of_who_is_still_attached_is_waited_for)
{
    struct walk *w = begin_alone(1);
    attaches(w, 0, 0, 1);
    tree_empty(w);
    exited(w, 0, 0);
    assert_acts(w, "0: WELCOME");
    closes(w, 0);
    assert_acts(w, "0: closed; gate leave; exit 0 completed");
    end(w);
}

/* It may be in the middle of its training: that its command has ended with 0 is no success of its.
 */
Test(core_walk, who_stays_attached_lives_elsewhere)
{
    struct walk *w = begin_alone(1);
    attaches(w, 0, 0, 1);
    tree_empty(w);
    exited(w, 0, 0);
    assert_acts(w, "0: WELCOME");
    wake(w);
    assert_acts(w, "read");
    steps[0] = 7;
    steps_are_read(w);
    assert_acts(w, "gate leave; exit 125 failed");
    assert_said(w, "process 1000 is still attached at step 7 and has not said that it is done");
    end(w);
}

Test(core_walk, who_stays_attached_and_is_done_is_left)
{
    struct walk *w = begin_alone(1);
    attaches(w, 0, 0, 1);
    says(w, 0, (struct procmsg){.type = PROCMSG_DONE, .step = 7});
    tree_empty(w);
    exited(w, 0, 0);
    wake(w);
    steps_are_read(w);
    assert_acts(w, "0: WELCOME; read; gate leave; exit 0 completed");
    end(w);
}

/* Its end is under way: there is time for its word until then. */
Test(core_walk, who_is_being_swept_may_still_be_done)
{
    struct walk *w = begin_alone(1);
    attaches(w, 0, 0, 1);
    exited(w, 0, 0);
    wake(w);
    assert_acts(w, "0: WELCOME; SIGTERM to tree");
    wake(w);
    assert_acts(w, "read");
    steps_are_read(w);
    assert_acts(w, "");
    closes(w, 0);
    tree_empty(w);
    assert_acts(w, "0: closed; gate leave; exit 0 completed");
    end(w);
}

Test(core_walk, a_second_process_for_a_rank_while_the_others_train)
{
    struct walk *w = begin_alone(1);
    attaches(w, 0, 0, 1);
    steps[0] = 3;
    attaches(w, 5, 0, 1);
    assert_acts(w, "0: WELCOME; 5: REFUSED; 5: closed; read");
    steps_are_read(w);
    assert_acts(w, "");
    assert_said(w, "refused process 1005: rank 0 is attached already, by process 1000");
    closes(w, 0);
    tree_empty(w);
    exited(w, 0, 0);
    assert_acts(w, "0: closed; gate leave; exit 0 completed");
    end(w);
}

Test(core_walk, a_second_process_for_a_rank_before_the_training)
{
    struct walk *w = begin_alone(1);
    attaches(w, 0, 0, 1);
    steps[0] = 0;
    attaches(w, 5, 0, 1);
    steps_are_read(w);
    assert_acts(w, "0: WELCOME; 5: REFUSED; 5: closed; read; gate leave; SIGTERM to tree");
    tree_empty(w);
    exited(w, 0, SIGTERM);
    assert_acts(w, "exit 125 failed");
    end(w);
}

Test(core_walk, a_checkpoint_waits_for_the_ranks)
{
    struct walk *w = begin_alone(2);
    signalled(w, SIGUSR2);
    assert_said(w, "checkpoint: asked for; it is made when every rank has attached");
    w->log[0] = '\0';
    attaches(w, 0, 0, 2);
    cr_assert_null(strstr(w->log, "checkpoint"), "said again");
    attaches(w, 1, 1, 2);
    assert_acts(w, "0: WELCOME; 1: WELCOME; gate 1; read");
    end(w);
}

Test(core_walk, a_checkpoint_that_cannot_be_made)
{
    struct walk *w = begin_alone(2);
    attaches(w, 0, 0, 2);
    attaches(w, 1, 1, 2);
    gone(w, 1);
    signalled(w, SIGUSR2);
    assert_said(w, "asked for, and not made: a rank has ended");
    attaches(w, 2, 1, 2); /* its successor is not asked for what is forgotten */
    assert_acts(w, "0: WELCOME; 1: WELCOME; 2: WELCOME");
    end(w);
}

/* The record of one round is written for so long that the next has begun: it is not the next's. */
Test(core_walk, a_record_that_comes_after_its_round)
{
    struct walk *w = begin_alone(1);
    attaches(w, 0, 0, 1);
    steps[0] = 8;
    signalled(w, SIGUSR2);
    steps_are_read(w);
    steps_are_read(w);
    says(w, 0, (struct procmsg){.type = PROCMSG_SAVED, .step = 9, .tag = 1});
    assert_acts(w, "0: WELCOME; gate 1; read; gate 9; read; gate 9 decided; gate open; prepare 9");
    now += 31 * S;
    feed(w, (struct event){.type = EV_TIMER});
    assert_said(w, "round: 1: failed");
    steps[0] = 20;
    signalled(w, SIGTERM);
    steps_are_read(w);
    steps_are_read(w);
    says(w, 0, (struct procmsg){.type = PROCMSG_SAVED, .step = 21, .tag = 2});
    w->acts[0] = '\0';
    written(w, EV_PREPARED, 9);
    assert_acts(w, "prepare 21");
    written(w, EV_PREPARED, 21);
    assert_acts(w, "commit 21");
    end(w);
}

Test(core_walk, an_absurd_save_is_a_failed_one)
{
    struct walk *w = begin_alone(1);
    attaches(w, 0, 0, 1);
    says(w, 0, (struct procmsg){.type = PROCMSG_SAVED, .step = UINT64_MAX, .wants_answer = true});
    assert_acts(w, "0: WELCOME; 0: go on, not committed");
    assert_said(w, "could not save step 18446744073709551615: there is no such step");
    end(w);
}

/* --- two nodes --- */

/* Delivers all that is in flight, and what follows from it. */
static void deliver(void)
{
    while (nqueue > 0) {
        struct letter letter = queue[0];
        nqueue--;
        memmove(queue, queue + 1, (size_t)nqueue * sizeof queue[0]);
        struct walk *to = &walks[letter.to];
        feed(to, (struct event){.type = EV_PEER_MESSAGE,
                                .peer = {.conn = letter.to == 0 ? CONN_FIRST : CONN_CHIEF,
                                         .msg = &letter.msg}});
    }
}

static void begin_two(void)
{
    for (int i = 0; i < NODES; i++) {
        struct core_params p = params_of(i, NODES, 1);
        begin(&p);
    }
    assert_acts(&walks[0], "read"); /* its heartbeat */
    assert_acts(&walks[1], "connect");
    feed(&walks[1], (struct event){.type = EV_CHIEF_UP, .peer = {.conn = CONN_CHIEF}});
    deliver();
    for (int i = 0; i < NODES; i++) {
        cr_assert_not_null(strstr(walks[i].acts, "start"));
        started(&walks[i], 0);
        attaches(&walks[i], 0, i, NODES);
        steps_are_read(&walks[i]);
        walks[i].acts[0] = '\0';
    }
    deliver();
}

static void end_two(void)
{
    for (int i = 0; i < NODES; i++)
        end(&walks[i]);
}

Test(core_walk, two_nodes_save_one_step_and_leave_together)
{
    begin_two();
    steps[0] = 8;
    signalled(&walks[1], SIGTERM);
    assert_acts(&walks[1], "read");
    steps_are_read(&walks[1]);
    deliver();
    assert_acts(&walks[0], "read; gate 9; read");
    assert_acts(&walks[1], "gate 9; read");
    steps_are_read(&walks[0]);
    deliver();
    assert_acts(&walks[0], "");
    steps_are_read(&walks[1]);
    deliver();
    for (int i = 0; i < NODES; i++) {
        assert_acts(&walks[i], "gate 9 decided last");
        says(&walks[i], 0,
             (struct procmsg){.type = PROCMSG_SAVED, .step = 9, .tag = 1, .wants_answer = true});
        assert_acts(&walks[i], "gate open; prepare 9");
    }
    written(&walks[0], EV_PREPARED, 9);
    deliver();
    assert_acts(&walks[0], "");
    written(&walks[1], EV_PREPARED, 9);
    deliver();
    assert_acts(&walks[0], "commit 9");
    written(&walks[0], EV_COMMITTED, 9);
    deliver();
    for (int i = 0; i < NODES; i++) {
        assert_acts(&walks[i], "committed 9; 0: leave, committed; gate leave");
        gone(&walks[i], 0);
        tree_empty(&walks[i]);
        exited(&walks[i], 0, 0);
    }
    assert_acts(&walks[0], "");
    deliver();
    assert_acts(&walks[0], "exit 42 preempted");
    assert_acts(&walks[1], "exit 42 preempted");
    end_two();
}

static void saves_own(struct walk *w, uint64_t step)
{
    char expected[32];
    says(w, 0, (struct procmsg){.type = PROCMSG_SAVED, .step = step});
    snprintf(expected, sizeof expected, "prepare %llu", (unsigned long long)step);
    assert_acts(w, expected);
    written(w, EV_PREPARED, step);
}

static void expect_own_commit(uint64_t step, const char *then)
{
    char text[64];
    deliver();
    snprintf(text, sizeof text, "commit %llu", (unsigned long long)step);
    assert_acts(&walks[0], text);
    written(&walks[0], EV_COMMITTED, step);
    deliver();
    snprintf(text, sizeof text, "committed %llu%s", (unsigned long long)step, then);
    assert_acts(&walks[0], text);
    snprintf(text, sizeof text, "committed %llu", (unsigned long long)step);
    assert_acts(&walks[1], text);
}

/* One is always a save ahead: what both have is committed all the same. */
Test(core_walk, nodes_that_save_at_their_own_pace)
{
    begin_two();
    saves_own(&walks[0], 10);
    says(&walks[0], 0, (struct procmsg){.type = PROCMSG_SAVED, .step = 20});
    deliver();
    saves_own(&walks[1], 10);
    expect_own_commit(10, "; prepare 20");
    written(&walks[0], EV_PREPARED, 20);
    says(&walks[0], 0, (struct procmsg){.type = PROCMSG_SAVED, .step = 30});
    deliver();
    saves_own(&walks[1], 20);
    expect_own_commit(20, "; prepare 30");
    end_two();
}

/* What one of them has not saved is passed over at once, and keeps nobody waiting. */
Test(core_walk, nodes_that_save_at_different_steps)
{
    begin_two();
    saves_own(&walks[0], 10);
    saves_own(&walks[1], 15);
    deliver();
    assert_said(&walks[0], "step 10 is not committed: not every rank has saved it");
    assert_acts(&walks[0], "");
    saves_own(&walks[0], 15);
    expect_own_commit(15, "");
    end_two();
}

/* Nobody waits for a save that a rank which has ended did not make: on its node or on another. */
Test(core_walk, a_save_that_an_ended_rank_did_not_make)
{
    begin_two();
    closes(&walks[1], 0);
    deliver();
    walks[1].acts[0] = '\0';
    says(&walks[0], 0, (struct procmsg){.type = PROCMSG_SAVED, .step = 10, .wants_answer = true});
    assert_acts(&walks[0], "prepare 10");
    written(&walks[0], EV_PREPARED, 10);
    assert_acts(&walks[0], "0: go on, not committed");
    assert_said(&walks[0], "step 10 is not committed: a rank has ended without having saved it");
    end_two();
}

Test(core_walk, a_save_that_an_ended_neighbour_did_not_make)
{
    struct walk *w = begin_alone(2);
    attaches(w, 0, 0, 2);
    attaches(w, 1, 1, 2);
    says(w, 0, (struct procmsg){.type = PROCMSG_SAVED, .step = 10, .wants_answer = true});
    assert_acts(w, "0: WELCOME; 1: WELCOME");
    closes(w, 1);
    assert_acts(w, "1: closed; 0: go on, not committed");
    says(w, 0, (struct procmsg){.type = PROCMSG_SAVED, .step = 20, .wants_answer = true});
    assert_acts(w, "0: go on, not committed");
    end(w);
}

/* The answer is known, so nobody waits for it. */
Test(core_walk, own_saves_up_to_the_commit)
{
    struct walk *w = begin_alone(1);
    attaches(w, 0, 0, 1);
    says(w, 0, (struct procmsg){.type = PROCMSG_SAVED, .step = 10, .wants_answer = true});
    written(w, EV_PREPARED, 10);
    written(w, EV_COMMITTED, 10);
    assert_acts(w, "0: WELCOME; prepare 10; commit 10; committed 10; 0: go on, committed");
    says(w, 0, (struct procmsg){.type = PROCMSG_SAVED, .step = 10, .wants_answer = true});
    assert_acts(w, "0: go on, committed");
    cr_assert_null(strstr(w->log, "gone back"));
    says(w, 0, (struct procmsg){.type = PROCMSG_SAVED, .step = 7, .wants_answer = true});
    assert_said(w, "rank 0 saves step 7, below the last commit at step 10");
    assert_acts(w, "0: go on, committed");
    end(w);
}

Test(core_walk, a_long_wait_for_a_commit_is_told)
{
    struct walk *w = begin_alone(2);
    attaches(w, 0, 0, 2);
    attaches(w, 1, 1, 2);
    says(w, 0, (struct procmsg){.type = PROCMSG_SAVED, .step = 10, .wants_answer = true});
    now += 10 * S;
    feed(w, (struct event){.type = EV_TIMER});
    assert_said(w, "rank 0 has waited 10 s in pch_saved for the commit of step 10; the save of "
                   "rank 1 is missing");
    end(w);
}

/* What comes between two readings of the steps says nothing about the pace. */
Test(core_walk, the_save_step_is_near)
{
    unsigned long long step = 0;
    begin_two();
    for (uint64_t second = 1; second <= 4; second++) {
        now += 980 * MS;
        says(&walks[0], 0, (struct procmsg){.type = PROCMSG_SAVED, .step = second});
        now += 20 * MS;
        steps[0] = 60 * second;
        feed(&walks[0], (struct event){.type = EV_TIMER});
        steps_are_read(&walks[0]);
    }
    walks[0].acts[0] = '\0';
    now += 30 * MS;
    signalled(&walks[1], SIGTERM);
    steps_are_read(&walks[1]);
    deliver();
    cr_assert_eq(sscanf(walks[0].acts, "read; gate %llu", &step), 1, "%s", walks[0].acts);
    cr_assert(step > 240 && step <= 300, "%llu is more than a second away", step);
    end_two();
}

Test(core_walk, a_notice_on_a_node_that_has_finished_reaches_the_others)
{
    begin_two();
    steps[0] = 8;
    closes(&walks[1], 0);
    tree_empty(&walks[1]);
    exited(&walks[1], 0, 0);
    signalled(&walks[1], SIGTERM);
    steps_are_read(&walks[1]);
    deliver();
    struct core_report report;
    core_report(walks[0].core, &report);
    cr_assert(report.notice.is_live);
    cr_assert_eq(report.notice.node_rank, 1);
    end_two();
}

/* What cannot be so is said by a peer: nothing overflows (UBSan looks), and all waits end. */
Test(core_walk, absurd_numbers_of_a_peer)
{
    struct core_report report;
    begin_two();
    struct peermsg msg = {.type = PEERMSG_STATUS,
                          .stamp = {.attempt = 1, .seq = UINT64_MAX},
                          .status = {.life = LIFE_RUNNING,
                                     .expected = 1,
                                     .attached = 1,
                                     .live = 1,
                                     .stepped = 1,
                                     .highest = UINT64_MAX,
                                     .lowest = UINT64_MAX,
                                     .own_step = UINT64_MAX,
                                     .last_step = UINT64_MAX,
                                     .saved_step = UINT64_MAX,
                                     .rtt_ns = UINT64_MAX,
                                     .has_notice = 1,
                                     .notice_left_ns = INT64_MAX,
                                     .fault_ago_ns = INT64_MAX}};
    feed(&walks[0],
         (struct event){.type = EV_PEER_MESSAGE, .peer = {.conn = CONN_FIRST, .msg = &msg}});
    steps_are_read(&walks[0]);
    core_report(walks[0].core, &report);
    cr_assert(report.notice.is_live);
    cr_assert_leq(report.notice.deadline, now + 367 * 24 * 3600 * S);
    msg.stamp.seq = 0;
    feed(&walks[0],
         (struct event){.type = EV_PEER_MESSAGE, .peer = {.conn = CONN_FIRST, .msg = &msg}});
    cr_assert_leq(core_wake_at(walks[0].core), now + 367 * 24 * 3600 * S);
    end_two();
}

/* Told to start and to stop in one breath: the signals wait for whom they are meant. */
Test(core_walk, who_is_being_started_is_not_missed)
{
    struct core_params p = params_of(1, NODES, 1);
    struct walk *w = begin(&p);
    feed(w, (struct event){.type = EV_CHIEF_UP, .peer = {.conn = CONN_CHIEF}});
    struct peermsg msg = {.type = PEERMSG_WELCOME, .stamp = {.attempt = 1}};
    struct event event = {.type = EV_PEER_MESSAGE, .peer = {.conn = CONN_CHIEF, .msg = &msg}};
    feed(w, event);
    msg = (struct peermsg){.type = PEERMSG_ORDER,
                           .stamp = {.attempt = 1, .seq = 2},
                           .order = {.start = true, .end_left_ms = -1}};
    feed(w, event);
    assert_acts(w, "connect; read; start");
    msg.stamp.seq = 3;
    msg.order = (struct peer_order){.start = true,
                                    .end = END_STOP,
                                    .manner = MANNER_STOP,
                                    .outcome = OUTCOME_PREEMPTED,
                                    .exit_code = 42};
    feed(w, event);
    assert_acts(w, "gate leave");
    started(w, 0);
    assert_acts(w, "SIGKILL to tree");
    nqueue = 0;
    end(w);
}
