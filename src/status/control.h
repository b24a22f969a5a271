/* SPDX-License-Identifier: Apache-2.0
 *
 * control: the supervisor's side of pchctl: a Unix socket in the private directory, to which this
 * user and root may connect.
 *
 * A client sends one line and gets its answer; it may then follow the events. It is untrusted: its
 * line and its queue are bounded. A client that sends nothing or does not read is disconnected
 * after some seconds. At most CONTROL_CLIENTS_MAX clients are connected. Nothing here blocks, and a
 * failure concerns that client alone. SIGPIPE must be ignored. Owns the socket, its file and the
 * clients: control_free() ends it. Main thread.
 */
#pragma once

#include "base/err.h"
#include "wire/control.h"
#include "wire/notice.h"

#include <stddef.h>
#include <stdint.h>

struct event_base;
struct control;
struct control_client;

struct control_request {
    enum control_verb verb;
    bool follows;                    /* CONTROL_EVENTS: also future events */
    bool is_of_all;                  /* CONTROL_STATUS: also of the other nodes */
    bool saves;                      /* CONTROL_STOP: the job first saves */
    int64_t left_ns;                 /* CONTROL_DRAIN: until the deadline, or NOTICE_LEFT_UNKNOWN */
    char text[CONTROL_TEXT_MAX + 1]; /* CONTROL_DRAIN: the reason, for people; "": none */
    int pid, uid;                    /* the client, from the kernel; the reader leaves them 0 */
};
/* Reads a request from its line, which is untrusted. An unknown member is an error, because its
 * sender expects an effect. False: *err tells the client what is wrong. Pure. */
MUST_CHECK bool control_read(const char *line, size_t len, struct control_request *ret,
                             struct err *err);

struct control_options {
    struct event_base *base;
    const char *dir;     /* where to listen; must outlive the control */
    int64_t patience_ns; /* time limit for the request, and between two reads of a full queue */
    /* Answer once: with control_answer() before you return true, or return false and answer by
     * control_answer_all() within a few seconds. Nothing here enforces that deadline. */
    bool (*asked)(void *ctx, struct control_client *client, const struct control_request *request);
    void *ctx;
};

/* Listens. NULL: descriptors or memory are short. */
MUST_CHECK struct control *control_new(const struct control_options *options, struct err *err);
/* `control` may be NULL. Data that fits into the socket buffers still arrives. */
void control_free(struct control *control);

/* Sends whole lines, or nothing. If the queue is full, the connection ends. It also ends after the
 * answer, unless the client follows the events. */
void control_answer(struct control_client *client, const char *text, size_t len);
/* Sends whole lines to all clients that follow the events, or else to all that wait for an answer.
 * `control` may be NULL. */
void control_answer_all(struct control *control, bool follows, const char *text, size_t len);
