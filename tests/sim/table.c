/* SPDX-License-Identifier: Apache-2.0
 * How the work of the chief grows with the job: a table of one agreement, one death and the join,
 * of jobs of several sizes. See table.h.
 *
 * Every node has its real core, and one process that attaches and trains, one step after another;
 * nothing fails but for the measurement. A message takes WIRE_NS, and also keeps the chief busy for
 * SEND_NS or TAKE_NS; the other nodes have machines of their own. So virtual time shows the effect
 * of the number of messages and of rounds. The processor's time is real; it is that of the chief's
 * core and its encoding. Each size has a process of its own, for its memory. Fails by a line on
 * standard error and exit code 1.
 */
#include "table.h"

#include "base/clock.h"
#include "base/str.h"
#include "core/core.h"
#include "heap.h"
#include "wire/gate.h"

#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_US  (NS_PER_MS / 1000)
#define WIRE_NS    (100 * NS_PER_US)
#define SEND_NS    (10 * NS_PER_US) /* as tests/bench shows them on a real machine */
#define TAKE_NS    (5 * NS_PER_US)
#define STEP_NS    (100 * NS_PER_MS)
#define READ_NS    (10 * NS_PER_US) /* of the steps in the pages */
#define START_NS   NS_PER_MS
#define TRAIN_NS   (5 * NS_PER_S)
#define GIVE_UP_NS (60 * NS_PER_S)

struct letter {
    size_t size;
    uint8_t data[];
};

enum what { HEARD, WOKEN, STEPS_READ, CONNECTED, STARTED, ATTACHED };

struct happening {
    int64_t at;
    uint64_t seq, epoch;
    enum what what;
    int node, conn;
    struct letter *letter; /* HEARD: freed when heard */
};

struct node {
    struct table *table;
    struct core *core;
    int number;
    uint64_t gate, epoch; /* of the node's timer */
    int64_t timer_at, trains_since;
    bool is_started, is_told_to_stop;
};

struct table {
    int n;
    struct node *nodes;
    struct heap queue; /* of struct happening */
    uint64_t seq;
    int64_t now;
    int64_t free_at;         /* by then the chief has handled all letters that have come so far */
    int64_t doing_at;        /* the time of the event that the chief handles now */
    struct letter **letters; /* the letters that it has written meanwhile, and their nodes */
    int *readers;
    int nletters;
    int nstarted, ndecided, nstopping;
    /* of the chief */
    uint64_t events, sent, bytes_sent;
    int64_t cpu_ns, clock_ns; /* clock: the cost of asking for the time twice */
    size_t memory;
};

_Noreturn static void give_up(const char *why)
{
    fprintf(stderr, "pchrun-sim: %s\n", why);
    exit(1);
}

static void *need(void *memory)
{
    if (!memory)
        give_up("memory is short");
    return memory;
}

/* --- the queue --- */

static void at(struct table *t, struct happening h)
{
    h.seq = t->seq++;
    heap_add(&t->queue, &h, sizeof h);
}

/* --- the shell of a node --- */

static int64_t cpu_now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

/* A member's connection has the number of its node behind CONN_FIRST. */
static void write_letter(struct node *node, const struct action *a)
{
    static uint8_t data[FRAME_MAX];
    struct table *t = node->table;
    size_t size = peermsg_encode(a->peer.msg, data, sizeof data);
    struct letter *letter = need(malloc(sizeof *letter + size));
    letter->size = size;
    memcpy(letter->data, data, size);
    if (node->number == 0) {
        t->letters[t->nletters] = letter;
        t->readers[t->nletters++] = a->peer.conn - CONN_FIRST;
        if (t->nletters > 4 * t->n + 16)
            give_up("the chief writes without an end");
        return;
    }
    at(t, (struct happening){.at = t->now + WIRE_NS,
                             .what = HEARD,
                             .node = 0,
                             .conn = CONN_FIRST + node->number,
                             .letter = letter});
}

static void later(struct node *node, enum what what, int64_t ns)
{
    struct table *t = node->table;
    int64_t now = node->number == 0 ? t->doing_at : t->now;
    at(t, (struct happening){.at = now + ns, .what = what, .node = node->number});
}

static void take_gate(struct node *node, uint64_t gate)
{
    bool was_decided = gate_is_decided(node->gate);
    node->gate = gate;
    if (gate_is_decided(gate) && !was_decided)
        node->table->ndecided++;
}

static void perform(void *shell, const struct action *a)
{
    struct node *node = shell;
    switch (a->type) {
    case ACT_CONNECT:
        later(node, CONNECTED, 2 * WIRE_NS);
        break;
    case ACT_SEND:
        write_letter(node, a);
        break;
    case ACT_START:
        node->is_started = true;
        node->table->nstarted++;
        later(node, STARTED, START_NS);
        break;
    case ACT_READ_STEPS:
        later(node, STEPS_READ, READ_NS);
        break;
    case ACT_GATE:
        take_gate(node, a->gate);
        break;
    case ACT_SIGNAL:
        node->table->nstopping += !node->is_told_to_stop;
        node->is_told_to_stop = true;
        break;
    case ACT_PROC_SEND:
        if (a->proc.msg->type == PROCMSG_WELCOME)
            node->trains_since = node->number == 0 ? node->table->doing_at : node->table->now;
        break;
    default:
        break;
    }
}

static void set_timer(struct node *node)
{
    int64_t wake = core_wake_at(node->core);
    if (wake == node->timer_at)
        return;
    node->timer_at = wake;
    node->epoch++;
    if (wake != CLOCK_NEVER)
        at(node->table, (struct happening){.at = wake > node->table->now ? wake : node->table->now,
                                           .what = WOKEN,
                                           .node = node->number,
                                           .epoch = node->epoch});
}

/* The letters of the chief go out one by one, after its earlier ones. */
static void send_letters(struct table *t)
{
    for (int i = 0; i < t->nletters; i++) {
        t->free_at += SEND_NS;
        t->sent++;
        t->bytes_sent += t->letters[i]->size;
        at(t, (struct happening){.at = t->free_at + WIRE_NS,
                                 .what = HEARD,
                                 .node = t->readers[i],
                                 .conn = CONN_CHIEF,
                                 .letter = t->letters[i]});
    }
    t->nletters = 0;
}

static void feed(struct node *node, struct event event)
{
    struct table *t = node->table;
    bool is_chief = node->number == 0;
    if (is_chief) {
        t->doing_at = t->free_at > t->now ? t->free_at : t->now;
        t->free_at = t->doing_at + (event.type == EV_PEER_MESSAGE ? TAKE_NS : 0);
        t->events++;
    }
    event.now = event.wall = is_chief ? t->doing_at : t->now;
    int64_t before = is_chief ? cpu_now() : 0;
    core_handle(node->core, &event);
    if (is_chief)
        t->cpu_ns += cpu_now() - before - t->clock_ns;
    if (is_chief)
        send_letters(t);
    set_timer(node);
}

/* --- what happens --- */

static void read_steps(struct node *node)
{
    static uint64_t steps[CORE_SLOTS_MAX];
    int64_t now = node->number == 0 ? node->table->free_at : node->table->now;
    steps[0] = 0;
    if (node->trains_since && now > node->trains_since)
        steps[0] = (uint64_t)((now - node->trains_since) / STEP_NS);
    if (!gate_is_bell(node->gate) && steps[0] > gate_step(node->gate)) /* the process waits at the
                                                                        * gate */
        steps[0] = gate_step(node->gate);
    feed(node, (struct event){.type = EV_STEPS, .steps = {.by_slot = steps}});
}

static void hear(struct node *node, const struct happening *h)
{
    static struct peermsg msg;
    struct frame frame;
    size_t used;
    if (frame_parse(FRAME_PEER, h->letter->data, h->letter->size, &frame, &used) != FRAME_OK ||
        !peermsg_decode(&frame, &msg))
        give_up("a message cannot be read");
    free(h->letter);
    feed(node, (struct event){.type = EV_PEER_MESSAGE, .peer = {.conn = h->conn, .msg = &msg}});
}

static void attach(struct node *node)
{
    struct procmsg msg = {.type = PROCMSG_ATTACH,
                          .rank = node->number,
                          .world_size = node->table->n,
                          .local_world_size = 1,
                          .stride = 1};
    feed(node, (struct event){.type = EV_PROC_ATTACHED, .proc = {.pid = 1, .msg = &msg}});
}

static void happen(struct table *t)
{
    struct happening h;
    heap_take(&t->queue, &h, sizeof h);
    struct node *node = &t->nodes[h.node];
    t->now = h.at;
    switch (h.what) {
    case HEARD:
        hear(node, &h);
        break;
    case WOKEN:
        if (h.epoch != node->epoch)
            break;
        node->timer_at = CLOCK_NEVER;
        feed(node, (struct event){.type = EV_TIMER});
        break;
    case STEPS_READ:
        read_steps(node);
        break;
    case CONNECTED:
        feed(node, (struct event){.type = EV_CHIEF_UP, .peer = {.conn = CONN_CHIEF}});
        break;
    case STARTED:
        feed(node, (struct event){.type = EV_CHILD_STARTED, .child = {.pid = 1}});
        later(node, ATTACHED, START_NS);
        break;
    case ATTACHED:
        attach(node);
        break;
    }
}

/* Runs until all nodes are counted in `count`; returns the time of the last. */
static int64_t run_until(struct table *t, const int *count, const char *what)
{
    int64_t until = t->now + GIVE_UP_NS;
    while (*count < t->n) {
        if (t->queue.n == 0 || t->now > until) {
            fprintf(stderr, "pchrun-sim: %d of %d nodes %s\n", *count, t->n, what);
            exit(1);
        }
        happen(t);
    }
    return t->now;
}

static void run_for(struct table *t, int64_t ns)
{
    for (int64_t until = t->now + ns; t->queue.n > 0 && heap_due(t->queue.items).at <= until;)
        happen(t);
}

/* --- a job --- */

/* Sets a save that is never due, so that the chief looks at the steps all the time. */
static void fill_params(struct core_params *p, int n)
{
    *p = (struct core_params){.nnodes = n,
                              .children = 1,
                              .expected_procs = 1,
                              .attempt = 1,
                              .identity = "table",
                              .grace_ns = 60 * NS_PER_S,
                              .every_steps = UINT64_C(1) << 32,
                              .join_timeout_ns = 600 * NS_PER_S,
                              .heartbeat_interval_ns = NS_PER_S,
                              .heartbeat_timeout_ns = 15 * NS_PER_S,
                              .reconnect_ns = 2 * NS_PER_S,
                              .exit_wait_ns = 10 * NS_PER_S,
                              .term_wait_ns = 10 * NS_PER_S,
                              .kill_wait_ns = 5 * NS_PER_S,
                              .commit_wait_ns = 30 * NS_PER_S,
                              .exit = {42, 42, 42, 42, 43, 44}};
    p->signals[SIGTERM] = (struct signal_plan){SIGNAL_PREEMPT, p->grace_ns};
    p->watchdog = (struct watchdog_plan){.mode = WATCHDOG_ON, .factor = 2};
    for (int i = 0; i < PAGE_PHASES; i++)
        p->watchdog.limit_ns[i] = 600 * NS_PER_S;
}

static size_t allocated(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

static int64_t cost_of_clock(void)
{
    enum { TIMES = 1000 };
    int64_t from = cpu_now();
    for (int i = 0; i < TIMES; i++)
        (void)cpu_now();
    return (cpu_now() - from) / TIMES;
}

static void begin(struct table *t, int n)
{
    struct core_params params;
    *t = (struct table){.n = n, .clock_ns = cost_of_clock()};
    fill_params(&params, n);
    t->nodes = need(calloc((size_t)n, sizeof t->nodes[0]));
    t->letters = need(calloc(4 * (size_t)n + 32, sizeof *t->letters));
    t->readers = need(calloc(4 * (size_t)n + 32, sizeof *t->readers));
    for (int i = 0; i < n; i++) {
        size_t before = allocated();
        params.node_rank = i;
        params.incarnation = 1 + (uint64_t)i;
        t->nodes[i] =
            (struct node){.table = t, .number = i, .timer_at = CLOCK_NEVER, .gate = GATE_OPEN};
        t->nodes[i].core = need(core_new(&params, perform, &t->nodes[i]));
        if (i == 0)
            t->memory = allocated() - before;
    }
    for (int i = 0; i < n; i++)
        feed(&t->nodes[i], (struct event){.type = EV_START});
}

static void end(struct table *t)
{
    while (t->queue.n > 0) {
        struct happening h;
        heap_take(&t->queue, &h, sizeof h);
        free(h.letter);
    }
    for (int i = 0; i < t->n; i++)
        core_free(t->nodes[i].core);
    heap_free(&t->queue);
    free(t->nodes);
    free(t->letters);
    free(t->readers);
}

/* Lets the job join, attach and send heartbeats. Returns how long the join has taken. */
static int64_t begin_training(struct table *t, int n)
{
    begin(t, n);
    int64_t joined = run_until(t, &t->nstarted, "have started");
    run_for(t, TRAIN_NS);
    return joined;
}

static void count_anew(struct table *t)
{
    t->events = t->sent = t->bytes_sent = 0;
    t->cpu_ns = 0;
}

static double ms(int64_t ns)
{
    return (double)ns / NS_PER_MS;
}

/* A line of the table. */
static void show(int n)
{
    struct table t;
    int64_t joined = begin_training(&t, n), from = t.now;
    count_anew(&t);
    run_for(&t, NS_PER_S);
    double beat_us = (double)t.cpu_ns / 1000 / (double)t.events;
    from = t.now;
    count_anew(&t);
    feed(&t.nodes[n / 2], (struct event){.type = EV_SIGNAL, .signal = {.number = SIGTERM}});
    int64_t decided = run_until(&t, &t.ndecided, "know the decision") - from;
    struct table agreed = t;
    end(&t);
    begin_training(&t, n);
    from = t.now;
    feed(&t.nodes[n / 2], (struct event){.type = EV_CHILD_EXITED, .child = {.status = SIGKILL}});
    int64_t told = run_until(&t, &t.nstopping, "stop their processes") - from;
    end(&t);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("%6d  %8.2f ms  %8.2f ms  %8.2f ms  %7llu  %7llu  %8.1f kB  %8.2f ms  %6.2f us  %8.1f kB"
           "  %7.1f MB\n",
           n, ms(joined), ms(decided), ms(told), (unsigned long long)agreed.events,
           (unsigned long long)agreed.sent, (double)agreed.bytes_sent / 1000, ms(agreed.cpu_ns),
           beat_us, (double)agreed.memory / 1000, (double)usage.ru_maxrss / 1000);
}

int table_show(uint64_t most)
{
    static const int sizes[] = {8, 64, 1000, 10000};
    printf("%6s  %11s  %11s  %11s  %7s  %7s  %11s  %11s  %9s  %11s  %10s\n", "nodes", "join",
           "agreement", "death", "events", "sent", "sent", "processor", "heartbeat", "chief",
           "all");
    for (size_t i = 0; i < ARRAY_LEN(sizes) && (uint64_t)sizes[i] <= most; i++) {
        int status;
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
            show(sizes[i]);
            exit(0);
        }
        if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
            return 1;
    }
    return 0;
}
