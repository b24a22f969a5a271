/* SPDX-License-Identifier: Apache-2.0
 *
 * controlmsg: a request of pchctl, read from its line. What comes is untrusted: a member that is
 * not known is an error, since whoever wrote it expects something of it. Pure; any thread.
 */
#ifndef PCHRUN_LINK_CONTROLMSG_H
#define PCHRUN_LINK_CONTROLMSG_H

#include "wire/control.h"

#include <stddef.h>
#include <stdint.h>

#define CONTROLMSG_LEFT_UNKNOWN INT64_MIN

struct control_request {
    enum control_verb verb;
    bool follows;    /* CONTROL_EVENTS: those to come, too */
    bool is_of_all;  /* CONTROL_STATUS: node 0 asks the other nodes, too */
    int64_t left_ns; /* CONTROL_DRAIN: until the deadline, CONTROLMSG_LEFT_UNKNOWN: not said */
    char text[CONTROL_TEXT_MAX + 1]; /* the same, for people; "": none */
    int pid, uid;                    /* who asks, as the kernel says; the reader leaves them 0 */
};

/* False: *err tells the client what is wrong. */
MUST_CHECK bool controlmsg_read(const char *line, size_t len, struct control_request *ret,
                                struct err *err);

#endif
