/* SPDX-License-Identifier: Apache-2.0
 * See walk.h.
 */
#include "walk.h"

#include "base/log.h"
#include "base/sigtext.h"
#include "base/str.h"
#include "core/common/verdict.h"
#include "wire/gate.h"

#include <stdio.h>

enum { QUEUE = 64 };

struct walk walks[WALK_NODES];
int64_t now;
uint64_t steps[CORE_SLOTS_MAX];
struct page_own own[CORE_SLOTS_MAX];
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
    cr_assert(w->may_break || !str_is(a->log.topic, "bug"), "%s", a->log.text);
    if (a->log.level <= LOG_INFO)
        str_addf(w->log, sizeof w->log, "%s: %s\n", a->log.topic, a->log.text);
}

/* The last log line says why the node ended, except after a success. */
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

/* With the step; a mark of the past with its age, too. */
static void note_mark(struct walk *w, const struct action *a)
{
    static const char *const names[MARK__COUNT] = {
        [MARK_STARTING] = "starting",     [MARK_WAITING] = "waiting",   [MARK_UNATTACHED] = "blind",
        [MARK_TRAINING] = "training",     [MARK_SAVING] = "saving",     [MARK_HUNG] = "hung",
        [MARK_RESTARTING] = "restarting", [MARK_STOPPING] = "stopping", [MARK_COMMIT] = "commit"};
    str_addf(w->marks, sizeof w->marks, "%s%s %llu", w->marks[0] ? "; " : "", names[a->mark.kind],
             (unsigned long long)a->mark.step);
    if (a->mark.at < now)
        str_addf(w->marks, sizeof w->marks, " for %lld s", (long long)((now - a->mark.at) / S));
}

/* "20: standby -1": over this connection, counted from CONN_FIRST. */
static void note_standby(struct walk *w, int conn, const struct peer_standby *standby)
{
    note(w, "%d: standby %d", conn - CONN_FIRST, standby->place);
    if (standby->is_over)
        note(w, "over with %d", standby->exit_code);
}

static void perform(void *shell, const struct action *a)
{
    static const char *const targets[] = {
        [TARGET_CHILDREN] = "children", [TARGET_RANKS] = "ranks", [TARGET_TREE] = "tree"};
    static const char *const plain[ACT__COUNT] = {[ACT_START] = "start",
                                                  [ACT_READ_STEPS] = "read",
                                                  [ACT_CONNECT] = "connect",
                                                  [ACT_CHECK] = "check",
                                                  [ACT_EXAMINE] = "examine"};
    static const char *const with_step[ACT__COUNT] = {
        [ACT_PREPARE] = "prepare", [ACT_COMMIT] = "commit", [ACT_COMMITTED] = "committed"};
    struct walk *w = shell;
    if (a->type == ACT_COMMIT)
        w->commit = *a;
    if (a->type == ACT_GATE)
        w->gate = a->gate;
    w->states += a->type == ACT_STATE;
    if (plain[a->type])
        note(w, "%s", plain[a->type]);
    else if (with_step[a->type])
        note(w, "%s %llu", with_step[a->type], (unsigned long long)a->step);
    else if (a->type == ACT_SIGNAL)
        note(w, "%s to %s", SIGTEXT(a->signal.number), targets[a->signal.target]);
    else if (a->type == ACT_GATE)
        note_gate(w, a->gate);
    else if (a->type == ACT_SEEK_DIR)
        note(w, "seek %llu", (unsigned long long)a->chief);
    else if (a->type == ACT_MEASURE && a->measure->begins)
        note(w, "sends to %s", a->measure->next.at);
    else if (a->type == ACT_MEASURE && a->measure->next.at[0])
        note(w, "measure %u, node 0 at %s", a->measure->number, a->measure->next.at);
    else if (a->type == ACT_MEASURE)
        note(w, "measure %u", a->measure->number);
    else if (a->type == ACT_PROC_SEND)
        note_message(w, a->proc.slot, a->proc.msg);
    else if (a->type == ACT_PROC_CLOSE)
        note(w, "%d: closed", a->proc.slot);
    else if (a->type == ACT_SEND && a->peer.msg->type == PEERMSG_STANDBY)
        note_standby(w, a->peer.conn, &a->peer.msg->standby);
    else if (a->type == ACT_SEND)
        post(w, a->peer.msg);
    else if (a->type == ACT_UNCOUNT)
        str_addf(w->log, sizeof w->log, "this attempt does not count\n");
    else if (a->type == ACT_STRIKE)
        note(w, "strike %s: %s", a->strike.host, a->strike.text);
    else if (a->type == ACT_NOTE_END)
        str_addf(w->log, sizeof w->log, "the end took %lld ms\n",
                 (long long)(a->end_ns / NS_PER_MS));
    else if (a->type == ACT_EXIT)
        note_exit(w, a);
    else if (a->type == ACT_MARK)
        note_mark(w, a);
    else if (a->type == ACT_LOG)
        note_log(w, a);
}

void assert_acts(struct walk *w, const char *expected)
{
    cr_assert_str_eq(w->acts, expected, "did \"%s\", not \"%s\"", w->acts, expected);
    w->acts[0] = '\0';
}

void assert_did(const struct walk *w, const char *text)
{
    cr_assert_not_null(strstr(w->acts, text), "node %d did \"%s\", not \"%s\", and said:\n%s",
                       (int)(w - walks), w->acts, text, w->log);
}

void assert_did_not(const struct walk *w, const char *text)
{
    cr_assert_null(strstr(w->acts, text), "node %d did \"%s\"", (int)(w - walks), w->acts);
}

void assert_both_did(const char *text)
{
    for (int i = 0; i < WALK_NODES; i++)
        assert_did(&walks[i], text);
}

void assert_not_said(const struct walk *w, const char *text)
{
    cr_assert_null(strstr(w->log, text), "\"%s\" is in:\n%s", text, w->log);
}

void assert_said(const struct walk *w, const char *text)
{
    cr_assert_not_null(strstr(w->log, text), "\"%s\" is not in:\n%s", text, w->log);
}

/* --- events --- */

void feed(struct walk *w, struct event event)
{
    event.now = now;
    core_handle(w->core, &event);
}

struct core_params params_of(int node, int nnodes, int children)
{
    struct core_params p = {.node_rank = node,
                            .nnodes = nnodes,
                            .children = children,
                            .expected_procs = children,
                            .attempt = 1,
                            .incarnation = 7 + (uint64_t)node,
                            .identity = "walk",
                            .grace_ns = 25 * S,
                            .join_timeout_ns = 60 * S,
                            .heartbeat_interval_ns = S,
                            .heartbeat_timeout_ns = 15 * S,
                            .tell_ns = 30 * S,
                            .reconnect_ns = 2 * S,
                            .exit_wait_ns = 10 * S,
                            .term_wait_ns = 10 * S,
                            .kill_wait_ns = 5 * S,
                            .commit_wait_ns = 30 * S,
                            .exit = {42, 42, 42, 42, 43, 44, 45, 0}};
    p.signals[SIGTERM] = (struct signal_plan){SIGNAL_PREEMPT, 25 * S};
    p.signals[SIGUSR2] = (struct signal_plan){SIGNAL_CHECKPOINT, 0};
    return p;
}

struct walk *walk_begin(const struct core_params *params)
{
    struct walk *w = &walks[params->node_rank];
    core_free(w->core);
    *w = (struct walk){.quietest = LOG_DEBUG};
    if (now == 0)
        now = 100 * S;
    w->core = core_new(params, perform, w);
    feed(w, (struct event){.type = EV_START});
    return w;
}

void started(struct walk *w, int index)
{
    feed(w,
         (struct event){.type = EV_CHILD_STARTED, .child = {.index = index, .pid = 1000 + index}});
}

void exited(struct walk *w, int index, int status)
{
    feed(w, (struct event){.type = EV_CHILD_EXITED, .child = {.index = index, .status = status}});
}

void dying(struct walk *w, int index, int status)
{
    feed(w, (struct event){.type = EV_CHILD_DYING, .child = {.index = index, .status = status}});
}

void tree_empty(struct walk *w)
{
    feed(w, (struct event){.type = EV_TREE_EMPTY});
}

void ends(struct walk *w, int status)
{
    tree_empty(w);
    exited(w, 0, status);
}

void exits(struct walk *w, int status)
{
    exited(w, 0, status);
    tree_empty(w);
}

void signalled(struct walk *w, int number)
{
    feed(w, (struct event){.type = EV_SIGNAL, .signal = {.number = number}});
}

void terminated(struct walk *w)
{
    signalled(w, SIGTERM);
    steps_are_read(w);
}

void noticed(struct walk *w, const char *source, int64_t left)
{
    struct notice notice = {.type = NOTICE_TERMINATE, .source = "", .left_ns = left};
    str_copy(notice.source, sizeof notice.source, source);
    feed(w, (struct event){.type = EV_NOTICE, .notice = &notice});
}

void says(struct walk *w, int slot, struct procmsg msg)
{
    enum event_type type = msg.type == PROCMSG_ATTACH ? EV_PROC_ATTACHED : EV_PROC_MESSAGE;
    feed(w, (struct event){.type = type, .proc = {.slot = slot, .pid = 1000 + slot, .msg = &msg}});
}

void attaches(struct walk *w, int slot, int rank, int world_size)
{
    says(w, slot,
         (struct procmsg){.type = PROCMSG_ATTACH,
                          .rank = rank,
                          .local_rank = PROCMSG_UNKNOWN,
                          .world_size = world_size,
                          .local_world_size = PROCMSG_UNKNOWN,
                          .stride = 1});
}

void attaches_alone(struct walk *w, struct procmsg msg)
{
    msg.type = PROCMSG_ATTACH;
    msg.world_size = msg.local_world_size = 1;
    msg.stride = 1;
    says(w, 0, msg);
}

void gone(struct walk *w, int slot)
{
    feed(w, (struct event){.type = EV_PROC_GONE, .proc = {.slot = slot, .step = steps[slot]}});
}

void closes(struct walk *w, int slot)
{
    says(w, slot, (struct procmsg){.type = PROCMSG_CLOSE, .step = steps[slot]});
}

void saves(struct walk *w, int slot, uint64_t step, uint32_t tag)
{
    says(w, slot, (struct procmsg){.type = PROCMSG_SAVED, .step = step, .tag = tag});
}

void saves_and_waits(struct walk *w, int slot, uint64_t step, uint32_t tag)
{
    says(w, slot,
         (struct procmsg){.type = PROCMSG_SAVED, .step = step, .tag = tag, .wants_answer = true});
}

void serves(struct walk *w, int slot, uint64_t step, uint32_t tag)
{
    says(w, slot, (struct procmsg){.type = PROCMSG_SERVING, .step = step, .tag = tag});
}

void steps_are_read(struct walk *w)
{
    feed(w, (struct event){.type = EV_STEPS, .steps = {.by_slot = steps, .own_by_slot = own}});
}

void written(struct walk *w, enum event_type type)
{
    feed(w, (struct event){.type = type});
}

void committed(struct walk *w)
{
    written(w, EV_PREPARED);
    written(w, EV_COMMITTED);
}

void passes(struct walk *w, int64_t time)
{
    now += time;
    feed(w, (struct event){.type = EV_TIMER});
}

void wake(struct walk *w)
{
    int64_t at = core_wake_at(w->core);
    cr_assert_neq(at, CLOCK_NEVER, "it waits for nothing");
    now = at > now ? at : now;
    feed(w, (struct event){.type = EV_TIMER});
}

void wake_and_read(struct walk *w, uint64_t step)
{
    w->acts[0] = '\0';
    wake(w);
    steps[0] = step;
    if (strstr(w->acts, "read"))
        steps_are_read(w);
}

void walks_end(void)
{
    for (int i = 0; i < WALK_NODES; i++)
        core_free(walks[i].core);
}

struct core_report report_of(const struct walk *w)
{
    struct core_report report;
    core_report(w->core, &report);
    return report;
}

struct walk *begin_started(const struct core_params *params)
{
    struct walk *w = walk_begin(params);
    assert_acts(w, "start");
    for (int i = 0; i < params->children; i++)
        started(w, i);
    assert_acts(w, "");
    return w;
}

struct walk *begin_alone(int children)
{
    struct core_params p = params_of(0, 1, children);
    return begin_started(&p);
}

struct walk *begin_ranks(const struct core_params *params)
{
    struct walk *w = begin_started(params);
    for (int i = 0; i < params->children; i++)
        attaches(w, i, i, params->children);
    return w;
}

struct walk *begin_attached(int ranks)
{
    struct core_params p = params_of(0, 1, ranks);
    return begin_ranks(&p);
}

/* --- two nodes --- */

static int conn_of(const struct walk *w)
{
    return w == &walks[0] ? CONN_FIRST : CONN_CHIEF;
}

void line_closes(struct walk *w, bool has_ended)
{
    feed(w, (struct event){.type = EV_PEER_DOWN,
                           .peer = {.conn = conn_of(w), .has_ended = has_ended}});
}

void line_opens(void)
{
    feed(&walks[1], (struct event){.type = EV_CHIEF_UP, .peer = {.conn = CONN_CHIEF}});
}

void hears(struct walk *w, const struct peermsg *msg)
{
    feed(w, (struct event){.type = EV_PEER_MESSAGE, .peer = {.conn = conn_of(w), .msg = msg}});
}

void deliver(void)
{
    while (nqueue > 0) {
        struct letter letter = queue[0];
        nqueue--;
        memmove(queue, queue + 1, (size_t)nqueue * sizeof queue[0]);
        hears(&walks[letter.to], &letter.msg);
    }
}

void begin_apart(bool trains_on)
{
    for (int i = 0; i < WALK_NODES; i++) {
        struct core_params p = params_of(i, WALK_NODES, 1);
        p.train_on = trains_on ? TRAIN_ON_ALWAYS : TRAIN_ON_NEVER;
        walk_begin(&p);
    }
}

void meet(void)
{
    line_opens();
    deliver();
}

void meet_and_start(void)
{
    meet();
    for (int i = 0; i < WALK_NODES; i++) {
        started(&walks[i], 0);
        attaches(&walks[i], 0, i, WALK_NODES);
        steps_are_read(&walks[i]);
    }
    deliver();
}

void begin_two(void)
{
    begin_two_with(&(struct restart_policy){0});
}

void begin_two_with(const struct restart_policy *restart)
{
    lose_letters();
    for (int i = 0; i < WALK_NODES; i++) {
        struct core_params p = params_of(i, WALK_NODES, 1);
        p.restart = *restart;
        walk_begin(&p);
    }
    assert_acts(&walks[0], "read"); /* its heartbeat */
    assert_acts(&walks[1], "connect");
    line_opens();
    deliver();
    for (int i = 0; i < WALK_NODES; i++) {
        assert_did(&walks[i], "start");
        started(&walks[i], 0);
        attaches(&walks[i], 0, i, WALK_NODES);
        steps_are_read(&walks[i]);
        walks[i].acts[0] = '\0';
    }
    deliver();
}

void agree(void)
{
    for (int i = 0; i < 6; i++) {
        steps_are_read(&walks[i % 2]);
        deliver();
    }
}

void begin_two_saving(void)
{
    begin_two();
    steps[0] = 8;
    signalled(&walks[0], SIGTERM);
    agree();
    assert_said(&walks[0], "every rank saves step 9");
}

void lose_letters(void)
{
    nqueue = 0;
}
