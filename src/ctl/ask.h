/* SPDX-License-Identifier: Apache-2.0
 *
 * ask: one question to a supervisor, and its answer. Main thread.
 */
#ifndef PCHRUN_CTL_ASK_H
#define PCHRUN_CTL_ASK_H

#include "ctl/options.h"
#include "ctl/talk.h"
#include "json/json.h"

struct answer {
    struct json *root; /* an object */
    char *text;        /* as it came, a line without its newline */
};

/* Sends the request that the options ask for, as `verb`, over an open connection. options NULL:
 * only this pchrun's state, without asking other nodes. */
MUST_CHECK bool ask_send(struct talk *talk, enum control_verb verb,
                         const struct ctl_options *options, struct err *err);
/* Connects, asks, and reads the answer. False: no or a malformed answer, or pchrun refuses; see
 * *err. Free the answer with answer_free(). */
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

#endif
