/* SPDX-License-Identifier: Apache-2.0
 *
 * world: a supervisor's side (procs in a libevent loop) inside of a unit test, and training
 * processes that the test leads (tests/helpers/pchclient). Every wait has a deadline, after which
 * the test fails and says what it was waiting for. One world per test; world_free() fails the test
 * if a process or a file is left, and ends the processes of a test that failed.
 */
#pragma once

#include "procs/procs.h"
#include "unit.h"

enum call_kind {
    CALL_ATTACHED = EV_PROC_ATTACHED,
    CALL_MESSAGE = EV_PROC_MESSAGE,
    CALL_GONE = EV_PROC_GONE,
};

/* A call that procs made to its caller. */
struct call {
    enum call_kind kind;
    int slot, pid;
    struct procmsg msg;
};

struct world {
    struct event_base *base;
    struct procs *procs;
    char dir[64];    /* run_dir, removed at the end */
    bool is_silent;  /* ATTACH is left for the test to answer */
    bool is_storm;   /* messages are counted and answered, not kept */
    int counts[256]; /* by type */
    int ndied, died_pid, died_status;
    int nunattached;        /* processes that said ATTACH and had no place */
    struct procmsg welcome; /* the answer in all other cases */
    struct call calls[512];
    int ncalls, next;
    struct client *clients[72]; /* not ended yet */
};

struct client;

void world_init(struct world *world);
void world_free(struct world *world);
/* Runs the loop until `is_true`. */
void world_wait(struct world *world, bool (*is_true)(void *arg), void *arg, const char *what);
/* The next call of procs that no world_expect has returned yet; the test fails if it is another
 * one. `type` with CALL_MESSAGE. */
const struct call *world_expect(struct world *world, enum call_kind kind, unsigned type);
/* True if procs has made no unexpected call. */
bool world_is_quiet(const struct world *world);

/* Starts a program with a clean environment, PCH_SOCKET and the variables in `env` ("A=b", NULL
 * last; may be NULL). `argv`: NULL for pchclient. */
struct client *client_start(struct world *world, const char *const *argv, const char *const *env);
/* Starts pchclient, which has attached as the only rank then. */
struct client *client_attached(struct world *world);
int client_pid(const struct client *client);
/* Writes a line to the client's standard input. */
void client_say(struct client *client, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Reads the client's next line of output, which must be this one. */
void client_expect(struct client *client, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Gives a command, and expects its answer. */
void client_ask(struct client *client, const char *command, const char *answer);
/* A step, which is answered with `then`: "continue", "save" or "exit". */
void client_step(struct client *client, int step, const char *then);
/* The step of a round that is decided: the client serves the round, and is told to save. */
void client_reach(struct client *client, int step);
/* A command that attaches ("open rank=0 world=1"). Returns the call of procs for it. */
const struct call *client_open(struct client *client, const char *command);
/* The client's next line of output. Lives until the next call. */
const char *client_line(struct client *client);
/* The client's standard error so far. */
const char *client_stderr(struct client *client);
/* Ends the client's input, and waits until the client and all holders of its output have ended.
 * Returns the status of wait(2), and forgets it. */
int client_end(struct client *client);
/* As client_end(), for an attached client: it closes and exits with 0, its standard error is empty,
 * and procs makes no other call. */
void client_end_well(struct client *client);

/* A test in the world of its file, `world`. It is not begun and ended by .init and .fini: Criterion
 * counts no failure there. */
#define WorldTest(suite, name)        \
    static void suite##_##name(void); \
    Test(suite, name)                 \
    {                                 \
        world_init(&world);           \
        suite##_##name();             \
        world_free(&world);           \
    }                                 \
    static void suite##_##name(void)

/* A WorldTest with a client, `c`, that has attached as the only rank. At the end its standard error
 * is empty. */
#define ClientTest(suite, name)                        \
    static void suite##_##name##_of(struct client *c); \
    WorldTest(suite, name)                             \
    {                                                  \
        struct client *c = client_attached(&world);    \
        suite##_##name##_of(c);                        \
        client_end_well(c);                            \
    }                                                  \
    static void suite##_##name##_of(struct client *c)
