/* SPDX-License-Identifier: Apache-2.0
 *
 * ask: a question to a supervisor over a connection of its own, and the answer. Every wait has a
 * deadline. Main thread.
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
    TALK_END,    /* the supervisor has closed it */
    TALK_LATE,   /* nothing came in time; *err */
    TALK_FAILED, /* *err */
};

/* Sets *err: no permission to enter `dir`, its owner, and which users may. */
void talk_denied(const char *dir, struct err *err);
/* Connects, and sends the request that the options ask for, as `verb`. `dir` is the supervisor's
 * private directory. options NULL: only this pchrun's state, without asking other nodes. False: no
 * listener there, or another user's. Call talk_close() either way. */
MUST_CHECK bool talk_open(const char *dir, enum control_verb verb,
                          const struct ctl_options *options, struct talk *ret, struct err *err);
void talk_close(struct talk *talk);
/* The next line. `until` is of CLOCK_MONOTONIC. *ret_line ends with a NUL instead of the newline,
 * and is valid until the next call. */
enum talk_result talk_read(struct talk *talk, int64_t until, char **ret_line, size_t *ret_len,
                           struct err *err);

struct answer {
    struct json *root; /* an object */
    char *text;        /* as it came, a line without its newline */
};

/* Connects, asks, and reads the answer; options as of talk_open(). False: no or a malformed answer,
 * or pchrun refuses; see *err. Free the answer with answer_free(). */
MUST_CHECK bool ask(const char *dir, enum control_verb verb, const struct ctl_options *options,
                    struct answer *ret, struct err *err);
/* Did ask() fail because no pchrun is there any more? */
bool ask_found_nobody(const struct err *err);
/* Keeps a line that came. False: it is malformed. Free the answer either way. */
MUST_CHECK bool answer_read(struct answer *ret, const char *line, size_t len, struct err *err);
void answer_free(struct answer *answer);

/* A member of an object by its path, "report.round.id"; NULL: there is none. */
const struct json *answer_find(const struct json *object, const char *path);
/* The first of the items there; NULL: there are none. */
const struct json *answer_items(const struct json *object, const char *path);
/* A missing member or one of another kind gives "", 0 or the fallback. A text has no control
 * characters, and is valid until answer_free(). */
const char *answer_text(const struct json *object, const char *path);
/* Is the member this text? */
bool answer_is(const struct json *object, const char *path, const char *text);
int64_t answer_int(const struct json *object, const char *path, int64_t missing);
double answer_real(const struct json *object, const char *path, double missing);
bool answer_bool(const struct json *object, const char *path);
