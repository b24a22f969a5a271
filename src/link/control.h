/* SPDX-License-Identifier: Apache-2.0
 *
 * control: the supervisor's side of pchctl: a Unix socket in the private directory, to which this
 * user and root may connect.
 *
 * A client sends one line and gets its answer; it may then follow the events. It is untrusted: the
 * line is bounded, so is what waits for it to read, and one that says nothing or does not read is
 * put out after some seconds. Of CONTROL_CLIENTS_MAX that are there no other is let in. Nothing
 * here blocks, and whatever fails concerns that client alone. Owns the socket, its file and the
 * clients: control_free() ends it. Main thread.
 */
#ifndef PCHRUN_LINK_CONTROL_H
#define PCHRUN_LINK_CONTROL_H

#include "link/controlmsg.h"

struct event_base;
struct control;
struct control_client;

struct control_options {
    struct event_base *base;
    const char *dir;     /* where to listen; outlives it */
    int64_t patience_ns; /* for a request; and between two reads of what waits */
    /* Answer it with control_answer(), once: before you return, or within a few seconds; no other
     * deadline holds for the answer. */
    void (*asked)(void *ctx, struct control_client *client, const struct control_request *request);
    void *ctx;
};

/* Listens. NULL: no descriptor or memory is to be had. */
MUST_CHECK struct control *control_new(const struct control_options *options, struct err *err);
/* `control` may be NULL. What was not read by then, and fits into the sockets, still arrives. */
void control_free(struct control *control);

/* Whole lines, or nothing. What does not fit into the bound ends the connection, and so does the
 * end of the answer, unless the client follows. */
void control_answer(struct control_client *client, const char *text, size_t len);
/* Under this number, which no other gets, it is found again as long as it is there: who answers
 * later keeps the number. */
uint64_t control_number(const struct control_client *client);
/* NULL: it is gone. `control` may be NULL. */
struct control_client *control_find(const struct control *control, uint64_t number);
/* Whole lines for all that follow. `control` may be NULL. */
void control_tell(struct control *control, const char *text, size_t len);

#endif
