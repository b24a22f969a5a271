/* SPDX-License-Identifier: Apache-2.0
 *
 * event: the input of the core. All pointers are borrowed for the length of the call.
 */
#pragma once

#include "base/err.h"
#include "base/policy.h"
#include "wire/notice.h"
#include "wire/page.h"
#include "wire/peermsg.h"
#include "wire/procmsg.h"

#include <stdint.h>

/* Connections. The link numbers the connections that it accepts from CONN_FIRST on, each once. */
enum { CONN_NONE, CONN_CHIEF, CONN_SELF, CONN_FIRST };

enum event_type {
    EV_START, /* the first event, once */
    EV_TIMER, /* core_wake_at() has come */
    EV_SIGNAL,
    EV_NOTICE,        /* a notice source gives or withdraws a notice */
    EV_SAVE_ASKED,    /* a user asks for a save, after which the training goes on */
    EV_STOP_ASKED,    /* a user asks for the end of the job, without a new start */
    EV_CHILD_STARTED, /* answers ACT_START, once per child */
    EV_CHILD_FAILED,  /* answers ACT_START: the child could not be started */
    EV_CHILD_DYING,   /* the command has died with a known status; the kernel may free its memory
                       * for seconds; then comes EV_CHILD_EXITED */
    EV_CHILD_EXITED,
    EV_CHILD_BAD,       /* the command has printed a line that is a failure */
    EV_TREE_EMPTY,      /* no process of the job is left on this node */
    EV_PROC_ATTACHED,   /* a process says PROCMSG_ATTACH; answered by WELCOME or REFUSED */
    EV_PROC_MESSAGE,    /* any other message of an attached process */
    EV_PROC_GONE,       /* the connection of a process is closed */
    EV_PROC_UNATTACHED, /* a process cannot attach */
    EV_PROC_LOST,       /* answers ACT_PROC_SEND of a WELCOME: the rank's checkpoint is unknown */
    EV_STEPS,           /* answers ACT_READ_STEPS */
    EV_EXAMINED,        /* answers ACT_EXAMINE */
    EV_PREPARED,        /* answers ACT_PREPARE */
    EV_COMMITTED,       /* answers ACT_COMMIT */
    EV_DIR_SEEN,        /* answers ACT_SEEK_DIR */
    EV_CHECKED,         /* answers ACT_CHECK; comes in any case, since each check has a deadline */
    EV_MEASURED,        /* answers ACT_MEASURE: the node listens; and later, its transfer is over */
    EV_CHIEF_UP,        /* answers ACT_CONNECT: connected */
    EV_PEER_DOWN,       /* a connection is closed, or (CONN_CHIEF) could not be made */
    EV_PEER_MESSAGE,
    EV_PEER_STRANGE, /* to node 0: a supervisor with other settings could not even say HELLO */
    EV__COUNT
};

/* More about the end of a command than its status. */
struct death {
    char note[200];    /* how it ended: "out of memory: …"; "": unknown */
    char reason[512];  /* from the program's error file; "": there is none */
    int64_t reason_at; /* the time of the reason, CLOCK_MONOTONIC; 0: unknown */
    char tail[1024];   /* the last lines of its standard error; "": unknown */
};

struct event {
    enum event_type type;
    int64_t now;  /* CLOCK_MONOTONIC, never smaller than before */
    int64_t wall; /* CLOCK_REALTIME, for people */
    union {
        struct {
            int number;
            enum signal_from from;
        } signal;
        const struct notice *notice;
        struct {
            const char *why; /* "stopped by …", for people */
            bool saves;      /* the job first saves: without a commit it goes on */
        } stop;
        struct {
            int index;                 /* 0 … children - 1 */
            int pid;                   /* with EV_CHILD_STARTED */
            int status;                /* as of wait(2), with EV_CHILD_EXITED; _DYING: not 0 */
            const struct err *err;     /* with EV_CHILD_FAILED */
            const struct death *death; /* with EV_CHILD_EXITED; NULL: unknown */
            const char *line;          /* with EV_CHILD_BAD */
        } child;
        struct {
            int slot; /* 0 … CORE_SLOTS_MAX - 1 */
            int pid;
            const struct procmsg *msg; /* with EV_PROC_ATTACHED and _MESSAGE */
            const char *why;           /* with EV_PROC_LOST and _UNATTACHED */
            uint64_t step;             /* with EV_PROC_GONE: the last step on its page */
            uint64_t loading_ns;       /* the same, also with EV_PROC_MESSAGE: struct page_own */
        } proc;
        struct {
            const uint64_t *by_slot; /* CORE_SLOTS_MAX steps; the steps of free slots are ignored */
            const uint8_t *phase_by_slot;       /* as many of enum page_phase; NULL: all train */
            const struct page_own *own_by_slot; /* as many; NULL: unknown */
            int64_t output_at; /* when the commands last printed; 0: unknown, or never */
        } steps;
        struct {
            uint32_t number;
            int stopped_pid; /* the pid of a stopped rank (a debugger, SIGSTOP), 0: none */
            bool is_traced;  /* a debugger holds it, so its user can let it go on */
        } examined;
        struct {                         /* with EV_PREPARED and EV_COMMITTED */
            const struct err *unwritten; /* NULL: the record is on disk */
            enum peer_paths paths;       /* with EV_PREPARED: of the save that was written */
        };
        bool is_other_dir;            /* with EV_DIR_SEEN */
        const struct peer_link *link; /* with EV_MEASURED */
        const char *illness; /* with EV_CHECKED: "gpu3: Xid 79"; NULL: the node may train */
        struct {
            int conn;
            const struct peermsg *msg; /* NULL but with EV_PEER_MESSAGE */
            const char *why;           /* with EV_PEER_DOWN and EV_PEER_STRANGE */
            bool has_ended;   /* with the same two: the other supervisor closed the connection, or
                               * died */
            const char *from; /* with a HELLO: the address, for people; may be NULL */
        } peer;
    };
};
