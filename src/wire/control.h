/* SPDX-License-Identifier: Apache-2.0
 *
 * control: the names and bounds of the conversation between pchctl and a supervisor.
 *
 * It uses a Unix socket (SOCK_STREAM) named CONTROL_SOCKET, beside that of the processes. A client
 * sends one request, a JSON object on one line, and gets an answer in the same form. Then the
 * connection is closed. A client that follows the events stays and gets a line for each. Constant;
 * any thread.
 */
#pragma once

#define CONTROL_VERSION     1
#define CONTROL_SOCKET      "ctl" /* not longer than "socket": fits wherever that path fits */
#define CONTROL_REQUEST_MAX 1024  /* bytes of a line, without its newline */
#define CONTROL_ANSWER_MAX  (32 * 1024 * 1024) /* the same; CORE_WORLD_MAX ranks fit */
#define CONTROL_CLIENTS_MAX 16                 /* connected at a time */
#define CONTROL_TEXT_MAX    95                 /* bytes of a notice's text */
#define CONTROL_SOURCE      "pchctl"           /* the source of its notices */

/* Of the file with the state of a job. */
#define REPORT_SCHEMA  "pchrun.report"
#define REPORT_VERSION 1

enum control_verb {
    CONTROL_STATUS,
    CONTROL_SAVE,   /* save and go on */
    CONTROL_DRAIN,  /* a notice by hand: save and leave */
    CONTROL_CANCEL, /* withdraw that notice */
    CONTROL_STOP,   /* end the job */
    CONTROL_EVENTS,
    CONTROL_METRICS, /* the text of metrics.file, also without a file */
    CONTROL__COUNT
};

/* "status": the word for "do" of a request. */
extern const char *const control_names[CONTROL__COUNT];
