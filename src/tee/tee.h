/* SPDX-License-Identifier: Apache-2.0
 *
 * tee: the log process: reads what the commands print, keeps it in files and passes it on.
 *
 * It is a process with threads, because each place may block for ever. It delays a command that
 * prints by half a second at most. The supervisor reads its figures from shared memory (struct
 * tee_stream_state) and never waits for an answer. The supervisor also keeps the pipes open: if
 * this process ends early, a new one continues.
 *
 * The process ends when every stream has ended, or a little after the other end of `control` was
 * closed, perhaps because the supervisor died. A command that still prints then gets EPIPE.
 */
#pragma once

#include "tee/linematch.h"
#include "tee/sink.h"
#include "tee/tail.h"

#include <sys/types.h>

enum tee_branch { TEE_FILE, TEE_PASS, TEE_BRANCH__COUNT };

struct tee_stream_state {
    _Atomic uint32_t version; /* is odd while `tail` is being changed */
    _Atomic bool is_reading;
    _Atomic int64_t last_at; /* CLOCK_MONOTONIC: the last output; 0: none yet */
    _Atomic uint64_t bytes;  /* in all */
    struct branch_state branches[TEE_BRANCH__COUNT];
    struct linematch_found found;
    struct tail tail;
};

struct tee_stream {
    int fd;                        /* the reading end of a pipe; non-blocking */
    int writer;                    /* its other end, for a command; -1: closed */
    char *path;                    /* the path of its file; owned */
    char prefix[MIXER_PREFIX_MAX]; /* the prefix of lines that are passed on; "": none */
    int to; /* where to pass it on: STDOUT_FILENO, STDERR_FILENO; -1: nowhere */
};

/* All of it must stay valid while the process may be started again. The process has a copy. */
struct tee {
    struct tee_stream *streams;
    struct tee_stream_state *states; /* from tee_states_new() */
    size_t count;
    int control;
    int out;      /* the commands' standard output; -1: pchrun's own */
    bool by_line; /* streams must not interrupt each other's lines */
    uint64_t max_size;
    int keep;
    struct linematch_rules rules; /* borrowed */
};

/* Allocates the states in memory that child processes share, and sets `lines`. NULL: errno says
 * why. */
MUST_CHECK struct tee_stream_state *tee_states_new(size_t count, uint32_t lines);
void tee_states_free(struct tee_stream_state *states, size_t count);

/* Main thread. The caller reaps the process. False: *ret_pid is unchanged. Its exit status is 0 if
 * it has read all, or an errno if it could not start. */
MUST_CHECK bool tee_start(const struct tee *tee, pid_t *ret_pid, struct err *err);

/* True if all output so far is in the tail, and its lines are matched. */
bool tee_is_read(const struct tee_stream *stream, struct tee_stream_state *state);
/* Call after the process has ended or was killed: counts the bytes in its queues as lost. Bytes of
 * an unfinished write may be both written and counted. Bytes of an unfinished read, one chunk at
 * most, may be neither written nor counted. */
void tee_count_left(struct tee_stream_state *states, size_t count);
/* Copies the tail. */
void tee_read_tail(struct tee_stream_state *state, struct tail *ret);
