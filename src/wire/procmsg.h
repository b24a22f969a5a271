/* SPDX-License-Identifier: Apache-2.0
 *
 * procmsg: the messages between a training process and its supervisor on the Unix socket. The page
 * (page.h) carries the step and the gate; the socket carries rare messages. One packet
 * (SOCK_SEQPACKET) is one frame, so threads and a signal handler may send without a lock.
 *
 * One struct serves every type; a type uses the fields that its comment names, and the others are
 * zero. procmsg_encode() and procmsg_decode() are the whole protocol (man pchrun-protocol). Pure;
 * any thread. Input from a process is untrusted: decode checks lengths and ranges, the core checks
 * the meaning.
 */
#pragma once

#include "wire/frame.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROCMSG_VERSION  3
#define PROCMSG_PATH_MAX 4096
#define PROCMSG_UNKNOWN  (-1) /* a rank or size that the process did not state */

enum procmsg_type {
    /* from the process */
    PROCMSG_ATTACH = 1, /* rank, local_rank, world_size, local_world_size, step, first_step, stride,
                         * last_step, flags */
    PROCMSG_WAITING, /* step, word: it waits at this tentative gate; wants LOOK when it changes */
    PROCMSG_SERVING, /* step, tag: it begins its save in the round with this tag */
    PROCMSG_SAVED,   /* step, tag (0: its own save), wants_answer, path: durable */
    PROCMSG_SAVE_FAILED, /* step, tag, text */
    PROCMSG_HELD,    /* step (of the save), tag: it saves in the background, the round ends the run;
                      * wants    ANSWER */
    PROCMSG_NOTICE,  /* number: the shield caught this signal */
    PROCMSG_ERROR,   /* number: code, text: the cause of its coming failure */
    PROCMSG_DONE,    /* step: trained to the end */
    PROCMSG_SCRATCH, /* wants the path of its scratch directory */
    PROCMSG_CLOSE,   /* step, number: it detaches (0), or exits on purpose with this status */
    PROCMSG_TIMEOUT, /* number: the time-out of its collectives in ms, 0: there is none */
    /* from the supervisor */
    PROCMSG_WELCOME = 65, /* rank, world_size (as resolved), number: attempt, generation, step:
                           * resume step, path: resume path, tag: of the round that this rank
                           * has served, word: the signals that are notices or ask for a
                           * checkpoint, bit n - 1 for signal n; comes with two memfds: the
                           * supervisor's page, the process's page */
    PROCMSG_REFUSED,      /* text: why; the connection is closed after it */
    PROCMSG_LOOK,         /* the gate has changed */
    PROCMSG_ANSWER, /* step (of the save), action: PROC_CONTINUE or PROC_EXIT; committed: whether
                     * the step is committed */
    PROCMSG_SCRATCH_DIR, /* path: a directory that the process makes and the supervisor removes; or
                          * text: why there is none */
};

enum procmsg_action { PROC_CONTINUE, PROC_EXIT };

/* PROCMSG_ATTACH flags */
#define PROCMSG_FLAG_SHIELD      1U /* a SIGTERM handler of libpch is installed */
#define PROCMSG_FLAG_COUNTS      2U /* it only reports steps: it never saves */
#define PROCMSG_FLAG_NEEDS_RANK0 4U /* rank 0's save is the whole checkpoint */
#define PROCMSG_FLAG_NEEDS_ANY   8U /* each rank's save is a whole checkpoint */

struct procmsg {
    uint8_t type; /* enum procmsg_type */
    int32_t rank, local_rank, world_size, local_world_size;
    uint64_t step, first_step, stride, last_step, word;
    uint32_t tag, flags, generation;
    int64_t number;
    uint8_t wants_answer, action, committed;
    char text[512];
    char path[PROCMSG_PATH_MAX];
};

/* Header and payload into `data` (FRAME_MAX is always enough). Returns the size, 0 if a text is too
 * long for its field. */
size_t procmsg_encode(const struct procmsg *msg, uint8_t *data, size_t cap);
/* False: not a message of this version, or malformed. *ret is then undefined. */
bool procmsg_decode(const struct frame *frame, struct procmsg *ret);
/* "SAVED", for logs. */
const char *procmsg_name(unsigned type);
