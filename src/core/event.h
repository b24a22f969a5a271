/* SPDX-License-Identifier: Apache-2.0
 *
 * event: what the world tells the core. Everything pointed to is borrowed for the length of the
 * call.
 */
#ifndef PCHRUN_CORE_EVENT_H
#define PCHRUN_CORE_EVENT_H

#include "base/err.h"
#include "wire/notice.h"
#include "wire/peermsg.h"
#include "wire/procmsg.h"

#include <stdint.h>

/* Connections. The link numbers those that it accepts from CONN_FIRST on and uses no number twice.
 */
enum { CONN_NONE, CONN_CHIEF, CONN_SELF, CONN_FIRST };

enum event_type {
    EV_START, /* the first event, once */
    EV_TIMER, /* core_wake_at() has come */
    EV_SIGNAL,
    EV_NOTICE,        /* a notice source has said something */
    EV_SAVE_ASKED,    /* somebody asks for a save, after which the training goes on */
    EV_STOP_ASKED,    /* somebody asks for the end of the job, not to be started again */
    EV_CHILD_STARTED, /* answers ACT_START, once per child */
    EV_CHILD_FAILED,  /* the same: it could not be started */
    EV_CHILD_DYING,   /* it has died, and its status is known; but its memory is being taken down,
                         which   may take seconds; then comes EV_CHILD_EXITED */
    EV_CHILD_EXITED,
    EV_TREE_EMPTY,      /* no process of the job is left on this node */
    EV_PROC_ATTACHED,   /* a process says PROCMSG_ATTACH; answered by WELCOME or REFUSED */
    EV_PROC_MESSAGE,    /* any other message of an attached process */
    EV_PROC_GONE,       /* its connection is closed */
    EV_PROC_UNATTACHED, /* one said ATTACH, and we have no place for it; the text says why */
    EV_PROC_LOST,       /* answers ACT_PROC_SEND of a WELCOME: what it saved where is not known */
    EV_STEPS,           /* answers ACT_READ_STEPS */
    EV_EXAMINED,        /* answers ACT_EXAMINE */
    EV_PREPARED,        /* answers ACT_PREPARE */
    EV_COMMITTED,       /* answers ACT_COMMIT */
    EV_CHIEF_UP,        /* answers ACT_CONNECT: connected */
    EV_PEER_DOWN,       /* a connection is closed, or (CONN_CHIEF) could not be made */
    EV_PEER_MESSAGE,
    EV_PEER_STRANGE, /* to node 0: a supervisor came that is not set up like this one, so that it
                        could not even say HELLO */
    EV__COUNT
};

/* Where a signal came from. The keyboard's go to the whole foreground group, so the training
 * commands have them already; those sent by a process of the job itself are not forwarded back. */
enum signal_from { SIGNAL_FROM_OUTSIDE, SIGNAL_FROM_TERMINAL, SIGNAL_FROM_JOB };

/* What is known of the end of a command beside its status. */
struct death {
    char note[200];    /* of the manner, "out of memory: …", "": nothing */
    char reason[512];  /* as the program has written it down, "": it has not */
    int64_t reason_at; /* when, by CLOCK_MONOTONIC, 0: not known */
    char tail[1024];   /* the last lines of its standard error, "": not known */
};

struct event {
    enum event_type type;
    int64_t now;  /* CLOCK_MONOTONIC, never smaller than before */
    int64_t wall; /* CLOCK_REALTIME, for people */
    union {
        struct {
            int number;
            enum signal_from from;
            int sender_pid; /* for the log, 0: unknown */
        } signal;
        const struct notice *notice;
        const char *why; /* with EV_STOP_ASKED: "stopped by …", for people */
        struct {
            int index; /* 0 … children - 1 */
            int pid;
            int status;                /* as of wait(2), with EV_CHILD_EXITED; _DYING: not 0 */
            const struct err *err;     /* with EV_CHILD_FAILED */
            const struct death *death; /* with EV_CHILD_EXITED; NULL: nothing is known */
        } child;
        struct {
            int slot; /* 0 … CORE_SLOTS_MAX - 1 */
            int pid;
            const struct procmsg
                *msg;      /* NULL with EV_PROC_GONE; the text says why with _LOST, _UNATTACHED */
            uint64_t step; /* with EV_PROC_GONE: what its page showed last */
        } proc;
        struct {
            const uint64_t
                *by_slot; /* CORE_SLOTS_MAX steps; those of free slots are not looked at */
            const uint8_t *phase_by_slot; /* as many of enum page_phase; NULL: all train */
            int64_t output_at; /* the commands printed something then, 0: not known, or nothing */
        } steps;
        struct {
            uint32_t number;
            int stopped_pid; /* a rank's that is stopped (a debugger, SIGSTOP), 0: none is */
            bool is_traced;  /* by a debugger, which lets it go on when its user wants that */
        } examined;
        struct {
            uint64_t step;
            const struct err *err; /* NULL: it is on disk */
        } written;
        struct {
            int conn;
            const struct peermsg *msg; /* NULL but with EV_PEER_MESSAGE */
            const char *why;           /* with EV_PEER_DOWN and EV_PEER_STRANGE */
            bool has_ended; /* the same: the supervisor there has closed it, or died; no mere break
                             */
            const char *from; /* with a HELLO: the address, for people; may be NULL */
        } peer;
    };
};

#endif
