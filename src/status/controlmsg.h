/* SPDX-License-Identifier: Apache-2.0
 *
 * controlmsg: a request of pchctl, read from its line. The line is untrusted. An unknown member is
 * an error, because its sender expects an effect. Pure; any thread.
 */
#ifndef PCHRUN_STATUS_CONTROLMSG_H
#define PCHRUN_STATUS_CONTROLMSG_H

#include "wire/control.h"
#include "wire/notice.h"

#include <stddef.h>
#include <stdint.h>

struct control_request {
    enum control_verb verb;
    bool follows;                    /* CONTROL_EVENTS: also future events */
    bool is_of_all;                  /* CONTROL_STATUS: also of the other nodes */
    int64_t left_ns;                 /* CONTROL_DRAIN: until the deadline, or NOTICE_LEFT_UNKNOWN */
    char text[CONTROL_TEXT_MAX + 1]; /* CONTROL_DRAIN: the reason, for people; "": none */
    int pid, uid;                    /* the client, from the kernel; the reader leaves them 0 */
};

/* False: *err tells the client what is wrong. */
MUST_CHECK bool controlmsg_read(const char *line, size_t len, struct control_request *ret,
                                struct err *err);

#endif
