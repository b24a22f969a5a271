/* SPDX-License-Identifier: Apache-2.0
 *
 * tee: a process of ours that reads what the commands print, keeps it in files and passes it on.
 *
 * It is a process, and has threads, because all of that may block for ever; who prints is held up
 * by it for half a second at most. What the supervisor wants to know lies in memory that both see
 * (struct tee_state), so that it never waits for an answer. The supervisor keeps the pipes open,
 * too: if this process ends before its time, another one goes on where it was.
 *
 * It ends by itself when every stream has come to its end, or a little after the other end of
 * `control` was closed, if only because the supervisor is no more. Whoever prints then gets EPIPE.
 */
#ifndef PCHRUN_TEE_TEE_H
#define PCHRUN_TEE_TEE_H

#include "tee/sink.h"
#include "tee/tail.h"

#include <sys/types.h>

enum tee_branch { TEE_FILE, TEE_PASS, TEE_BRANCH__COUNT };

struct tee_stream_state {
    _Atomic uint32_t version; /* odd: `tail` is being changed */
    _Atomic bool is_reading;
    _Atomic int64_t last_at; /* of CLOCK_MONOTONIC: when something came last; 0: never */
    _Atomic uint64_t bytes;  /* in all */
    struct branch_state branches[TEE_BRANCH__COUNT];
    struct tail tail;
};

struct tee_stream {
    int fd;             /* the end of a pipe that is read; non-blocking */
    const char *path;   /* of its file */
    const char *prefix; /* of its lines when they are passed on, "": none */
    int to;             /* where it is passed on: STDOUT_FILENO, STDERR_FILENO; -1: nowhere */
};

/* All of it must live as long as the process, which has a copy, is to be started again. */
struct tee {
    struct tee_stream *streams;
    struct tee_stream_state *states; /* from tee_states_new() */
    size_t count;
    int control;
    int out;      /* what is standard output to those who print; -1: it is ours */
    bool by_line; /* streams that are passed on are not to interrupt each other's lines */
    uint64_t max_size;
    int keep;
};

/* All zero but for `lines`, and shared with children of ours. NULL: errno says why. */
MUST_CHECK struct tee_stream_state *tee_states_new(size_t count, uint32_t lines);
void tee_states_free(struct tee_stream_state *states, size_t count);

/* Main thread. The caller reaps it: 0 is the exit status if all was read, an errno if it could not
 * begin. */
MUST_CHECK bool tee_start(const struct tee *tee, pid_t *ret_pid, struct err *err);

/* Has all that was printed into this stream until now gone through its tail? */
bool tee_is_read(const struct tee_stream *stream, struct tee_stream_state *state);
/* The process has ended, or was killed: what still waited in it to be written is lost, and counted.
 * What it was just writing may be both. */
void tee_count_left(struct tee_stream_state *states, size_t count);
/* A copy of the tail. */
void tee_read_tail(struct tee_stream_state *state, struct tail *ret);

#endif
