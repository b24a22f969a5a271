/* SPDX-License-Identifier: Apache-2.0
 *
 * ask: sends a request to a supervisor over a new connection, and reads the answer. Every wait has
 * a deadline. Main thread.
 */
#pragma once

#include "base/lines.h"
#include "ctl/options.h"
#include "json/json.h"

/* A connection: owns its descriptor and memory. */
struct talk {
    int fd;
    struct lines in;
};
#define TALK_NONE \
    {             \
        .fd = -1  \
    }

enum talk_result {
    TALK_LINE,
    TALK_END,    /* the supervisor has closed the connection */
    TALK_LATE,   /* no line came in time; *err says so */
    TALK_FAILED, /* *err */
};

/* Sets *err: this user may not enter `dir`. Names its owner, and the users that may. */
void talk_denied(const char *dir, struct err *err);
/* Connects, and sends the request `verb` with its options. `dir` is the supervisor's private
 * directory. options NULL: only the state of this pchrun, without the other nodes. False: no
 * process of this user listens there. Call talk_close() in either case. */
MUST_CHECK bool talk_open(const char *dir, enum control_verb verb,
                          const struct ctl_options *options, struct talk *ret, struct err *err);
void talk_close(struct talk *talk);
/* Reads the next line. `until`: the deadline, CLOCK_MONOTONIC. *ret_line ends with a NUL instead of
 * the newline, and is valid until the next call. */
enum talk_result talk_read(struct talk *talk, int64_t until, char **ret_line, size_t *ret_len,
                           struct err *err);

struct answer {
    struct json *root; /* an object */
    char *text;        /* the received line, without its newline */
};

/* Connects, sends the request, reads the answer; options as for talk_open(). False: no answer, a
 * malformed one, or a refusal; see *err. Free the answer with answer_free(). */
MUST_CHECK bool ask(const char *dir, enum control_verb verb, const struct ctl_options *options,
                    struct answer *ret, struct err *err);
/* True if ask() failed because no pchrun runs there any more. */
bool ask_found_nobody(const struct err *err);
/* Parses a received line and keeps it. False: it is malformed. Free the answer in either case. */
MUST_CHECK bool answer_read(struct answer *ret, const char *line, size_t len, struct err *err);
void answer_free(struct answer *answer);

/* A member of an object by its path, "report.round.id"; NULL: there is none. */
const struct json *answer_find(const struct json *object, const char *path);
/* The first item of the list at `path`; NULL: there is none. */
const struct json *answer_items(const struct json *object, const char *path);
/* A missing member or one of another type, gives "", 0, false or `missing`. A text has no control
 * characters, and is valid until answer_free(). */
const char *answer_text(const struct json *object, const char *path);
/* True if the member equals `text`. */
bool answer_is(const struct json *object, const char *path, const char *text);
int64_t answer_int(const struct json *object, const char *path, int64_t missing);
double answer_real(const struct json *object, const char *path, double missing);
bool answer_bool(const struct json *object, const char *path);
