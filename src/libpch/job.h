/* SPDX-License-Identifier: Apache-2.0
 *
 * job: what libpch knows; the one struct pch of a process, shared by pch.c and loop.c (what the
 * program calls) and line.c (the connection).
 *
 * Forks: a fork is not attached. So all that makes a process attached lies in struct live, in
 * memory that the kernel fills with zeros in a fork, however that was made: every call finds
 * LIVE_OFF there and does nothing. A fork by fork(2) of the C library finds the job closed, and may
 * open it. Threads: `lock` guards what is marked so; the rest of struct live belongs to the
 * training thread. No lock is taken in another fork, where its holder may not exist.
 */
#ifndef PCHRUN_LIBPCH_JOB_H
#define PCHRUN_LIBPCH_JOB_H

#include "pch.h"
#include "wire/gate.h"
#include "wire/page.h"
#include "wire/procmsg.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define LIKELY(condition) __builtin_expect(!!(condition), 1)

enum live_state {
    LIVE_OFF,     /* unsupervised: all calls are no-ops */
    LIVE_ON,      /* attached */
    LIVE_SERVING, /* the same; the next pch_step has more to look at: it is the first one, or the
                     last one said PCH_SAVE */
    LIVE_LEAVING, /* every pch_step says PCH_EXIT */
};

struct live {
    _Atomic uint32_t mark;                    /* 1, and 0 in a fork */
    _Atomic uint32_t state;                   /* enum live_state */
    const struct page_supervisor *supervisor; /* never changed while attached */
    struct page_process *process;
    /* the training thread's */
    uint32_t served_tag;   /* of the round it served last; changed under the lock */
    bool has_begun;        /* to train: its first pch_step was called */
    bool counts;           /* it only tells its steps (PCH_NO_SAVE); never changed while attached */
    bool is_serving;       /* the last pch_step said PCH_SAVE, which is not answered yet */
    bool is_held;          /* the round it serves ends the run, and is not answered yet */
    uint64_t served_step;  /* changed under the lock */
    _Atomic bool is_lost;  /* the supervisor is gone */
    _Atomic bool has_said; /* of a fork: that it cannot attach; else: that two threads train */
};

/* Scratch directories that were told to the program, which may keep the pointers. */
struct job_path {
    struct job_path *next;
    char text[];
};

struct pch {
    _Atomic(struct live *) live; /* never NULL */
    /* Copies for pch_step, which has one look-up less to wait for; good only while LIVE_ON. */
    const struct page_supervisor *supervisor;
    struct page_process *process;
    struct live *page; /* the wiped page, kept for the next pch_open; NULL: none yet */
    bool is_wiped;     /* the kernel wipes it; else only the atfork handler does */
    bool is_open;
    bool is_exit_watched;
    pthread_mutex_t opening; /* held by pch_open and pch_close */
    pthread_mutex_t lock;
    pthread_cond_t turn; /* something came, or nobody reads the socket any more */
    /* Outside of the wiped page, since a fork has to close its copy. */
    _Atomic int fd;              /* -1: none; changed under the lock */
    _Atomic unsigned connection; /* rises with the end of each; changed under the lock */
    uint64_t cookie;    /* the socket's, by which it is known again; 0: the kernel has none */
    int supervisor_pid; /* 0: not visible from here */
    /* under the lock */
    bool has_reader; /* a thread waits at the socket, for all */
    struct {
        bool is_there;
        uint64_t step; /* of the save that is asked about */
        uint8_t action;
    } answer;
    unsigned scratch_asked, scratch_answered; /* requests over this connection */
    char scratch[PROCMSG_PATH_MAX];           /* the last answer, "": none to be had */
    struct job_path *paths;
    int rank;
    uint64_t notices; /* signals that are meant for the job, bit n - 1 for signal n */
    uint64_t resume_step;
    char resume_path[PROCMSG_PATH_MAX];
};

static inline struct live *job_live(const struct pch *job)
{
    return atomic_load_explicit(&job->live, memory_order_relaxed);
}

static inline enum live_state job_state(const struct live *live)
{
    return (enum live_state)atomic_load_explicit(&live->state, memory_order_relaxed);
}

/* The short way of pch_step: the step is told, and nothing is asked of it. False: there is more to
 * look at, perhaps to wait for. */
static inline bool job_step_is_short(const struct pch *job, uint64_t finished)
{
    const struct page_supervisor *supervisor = job->supervisor;
    struct page_process *process = job->process;
    if (!LIKELY(job_state(job_live(job)) == LIVE_ON) ||
        !LIKELY(atomic_load_explicit(&process->phase, memory_order_relaxed) == PAGE_TRAIN))
        return false;
    /* Sequentially consistent: of this process and the supervisor, which stores the gate and then
     * loads the steps, at least one sees the other (gate.h). */
    atomic_store(&process->step, finished);
    return LIKELY(gate_is_open(atomic_load(&supervisor->gate))) &&
           LIKELY(page_is_alive(supervisor));
}

static inline bool job_can_talk(const struct live *live)
{
    return job_state(live) != LIVE_OFF && !atomic_load(&live->is_lost);
}

#endif
