/* SPDX-License-Identifier: Apache-2.0
 *
 * sink: a place where output goes (files, or a descriptor), and the thread that writes there. The
 * thread may hang as long as the place does. Output waits in branches, one for each stream, each
 * bounded.
 *
 * A failed write loses its bytes. The sink counts them and tries again a little later. After the
 * next good write, a line in the output names the missing bytes. In struct branch, the reader's
 * thread uses the reader's fields, and the sink's thread uses the other fields. Nothing is freed:
 * sinks live as long as their process.
 */
#pragma once

#include "base/buf.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

/* The supervisor may read it at any time. */
struct branch_state {
    _Atomic uint64_t lost;  /* bytes */
    _Atomic int trouble;    /* errno of the last write, 0: it succeeded */
    _Atomic bool is_full;   /* the place is too slow, so new bytes are dropped */
    _Atomic size_t waiting; /* bytes that wait to be written */
};

/* A file that grows up to a limit. When it is full it becomes PATH.1, PATH.1 becomes PATH.2, and so
 * on. A file may end inside a line: joined, the files hold all that was written. A failed call may
 * be repeated. Opens `fd`, which the caller closes. */
struct rotate {
    const char *path;  /* absolute; borrowed */
    uint64_t max_size; /* of one file; 0: no limit */
    int keep;          /* how many older files to keep */
    int fd;            /* -1 */
    uint64_t size;
};

/* Returns how many bytes were written; if not all, errno says why. The first write makes the
 * directory and opens the file. With n 0: only opens the file. */
size_t rotate_write(struct rotate *file, const char *bytes, size_t n);

/* A mixer merges several streams into one, line by line, each line with its stream's prefix. A line
 * ends with '\n'. After a lone '\r', which moves a terminal's cursor back, the prefix is written
 * again. If another stream must interrupt an open line, the mixer ends that line first. It loses
 * and changes no byte. */
struct mixer_stream {
    const char *prefix; /* may be empty; shorter than MIXER_PREFIX_MAX */
    bool is_in_line;    /* the prefix of its line has been written */
    bool has_cr;        /* the last byte was a '\r' */
};
#define MIXER_PREFIX_MAX 32

struct mixer {
    struct mixer_stream *open; /* the stream whose line is open in the output; NULL: none */
};

/* The length up to the last '\n' or '\r', which it includes. */
size_t mixer_whole_lines(const char *bytes, size_t n);

/* The most bytes that n bytes can become: each may be a line. */
#define MIXER_MAX(n) ((n) * (size_t)MIXER_PREFIX_MAX + 1)

/* Writes bytes of `stream` to `out`, which has room for MIXER_MAX(n); returns how many it wrote. */
size_t mixer_add(struct mixer *mixer, struct mixer_stream *stream, const char *bytes, size_t n,
                 char *out);

struct branch {
    struct buf queue; /* under the sink's lock */
    struct branch_state *state;
    /* for the reader's thread */
    int64_t full_since; /* 0: not full */
    uint64_t dropped;   /* bytes dropped since the branch was full */
    /* for the sink's thread */
    struct rotate file; /* the place, if it has a path; else `fd` */
    int fd;
    struct mixer_stream mixed;
    uint64_t missing; /* bytes lost since writes fail */
    int64_t retry_at;
    size_t seen;        /* how many bytes waited when its last line had no end yet */
    int64_t partial_at; /* when that line is written without an end; 0: no such line */
};

/* How a sink reports its progress to the reader and to the supervisor. */
struct bell {
    int event;      /* an eventfd: signalled when a sink took bytes */
    int supervisor; /* a socket: gets a byte when a state has changed */
};

/* A state that the supervisor reads has changed. */
void bell_supervisor(const struct bell *bell);

struct sink {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct bell *bell;
    struct branch **branches;
    size_t count, next;
    bool by_line; /* for descriptors: branches must not interrupt each other's lines */
    struct mixer mixer;
    char *text; /* a buffer for the lines of one write */
    _Atomic bool is_closing, is_done;
};

/* At most `size` bytes wait in it. */
void branch_init(struct branch *branch, size_t size, struct branch_state *state);
/* True if `n` bytes may be added now. False while there is no room, until *ret_until at the latest.
 * Then true, and branch_add() drops the bytes. The reader's thread. */
bool branch_accepts(struct branch *branch, size_t n, int64_t now, int64_t *ret_until);
/* Call after branch_accepts() has returned true. */
void branch_add(struct sink *sink, struct branch *branch, const char *bytes, size_t n);

/* Prepares a sink for up to `max` branches; put them in before the start. */
MUST_CHECK bool sink_init(struct sink *sink, size_t max, bool by_line, struct bell *bell);
void sink_put_in(struct sink *sink, struct branch *branch);
/* False: errno says why. */
MUST_CHECK bool sink_start(struct sink *sink);
/* No more bytes will come: the sink writes or loses the rest, and is then done. */
void sink_close(struct sink *sink);
bool sink_is_done(const struct sink *sink);
