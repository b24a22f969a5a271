/* SPDX-License-Identifier: Apache-2.0
 *
 * job: the state of libpch: the one struct pch of a process, shared by pch.c and stepcalls.c (the
 * calls of the program) and line.c (the connection).
 *
 * Forks: a forked child is not attached. The kernel zeroes struct live in every forked child, so
 * each call in the child finds LIVE_OFF and does nothing. After the C library's fork(2) the child's
 * job is closed, and the child may open it. Threads: `lock` guards the marked fields; the rest of
 * struct live belongs to the training thread. A child made in another way takes no lock, because
 * the lock's holder may not exist in the child.
 */
#pragma once

#include "pch.h"

#include "base/err.h"
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
    LIVE_SERVING, /* attached; the next pch_step takes the slow path: it is the first call, or the
                   * last call returned PCH_SAVE */
    LIVE_LEAVING, /* every pch_step returns PCH_EXIT */
};

/* The marked waits of this process; see waits.c. Under the lock. */
struct waits {
    bool is_waiting;
    int64_t since;    /* when the last wait ended, or this one began; 0: none was marked yet */
    uint64_t step;    /* the finished steps when `own_ns` began */
    int64_t began_at; /* the same moment */
    int64_t own_ns;   /* outside of waits since then */
    struct waits_sum {
        int64_t sum_ns, longest_ns;
    } own, whole;       /* of the steps of this window */
    int n;              /* steps in this window */
    int64_t earlier_ns; /* a step's own time in the window before, 0: unknown */
};

/* A wait of the process begins or ends, at `now`. The page gets the time of a step at the end of a
 * window. Pure. */
void waits_begin(struct waits *waits, struct page_process *page, int64_t now);
void waits_end(struct waits *waits, int64_t now);

struct live {
    _Atomic uint32_t mark;                    /* 1; 0 in a forked child */
    _Atomic uint32_t state;                   /* enum live_state */
    const struct page_supervisor *supervisor; /* never changed while attached */
    struct page_process *process;
    /* the training thread's */
    uint32_t served_tag; /* of the last round with a PCH_SAVE; changed under the lock */
    bool has_begun;      /* pch_step was called */
    bool counts;         /* PCH_NO_SAVE: only reports steps; never changed while attached */
    bool is_serving; /* the last pch_step returned PCH_SAVE, and pch_saved was not called since */
    bool is_held;    /* that round ends the run; pchrun has not answered yet */
    uint64_t served_step; /* changed under the lock */
    struct waits waits;
    _Atomic bool is_lost;  /* the connection to the supervisor has ended */
    _Atomic bool has_said; /* a warning was printed: a fork cannot attach, or two threads train */
};

/* The paths that pch_scratch_dir() returned; the program may keep the pointers. */
struct job_path {
    struct job_path *next;
    char text[];
};

struct pch {
    _Atomic(struct live *) live; /* never NULL */
    /* Copies for pch_step, to save it a look-up; valid only while LIVE_ON. */
    const struct page_supervisor *supervisor;
    struct page_process *process;
    struct live *page; /* memory of struct live, kept for the next pch_open; NULL: none yet */
    bool is_wiped;     /* the kernel zeroes `page` on fork; else only the atfork handler does */
    bool is_open;
    bool is_exit_watched;
    pthread_mutex_t opening; /* held by pch_open and pch_close */
    pthread_mutex_t lock;
    pthread_cond_t turn; /* a message came, or no thread reads the socket now */
    /* Outside of struct live, because a forked child must close its copy of the descriptor. */
    _Atomic int fd;              /* -1: none; changed under the lock */
    _Atomic unsigned connection; /* rises when a connection ends; changed under the lock */
    uint64_t cookie;             /* the kernel's number of the socket; 0: the kernel has none */
    int supervisor_pid;          /* 0: unknown, as in another pid namespace */
    /* under the lock */
    bool has_reader; /* a thread reads the socket for all threads */
    struct {
        bool is_there;
        uint64_t step; /* of the save that was reported */
        uint8_t action;
    } answer;
    unsigned scratch_asked, scratch_answered; /* requests over this connection */
    char scratch[PROCMSG_PATH_MAX];           /* the last directory received; "": none available */
    struct job_path *paths;
    int rank;
    uint64_t notices; /* signals that pchrun takes as notices; bit n - 1: signal n */
    uint64_t resume_step;
    char resume_path[PROCMSG_PATH_MAX];
};

/* The checkpoint path that a program reports, as the supervisor keeps it; "" for NULL. A relative
 * path becomes absolute, because the next start may have another working directory. A path with a
 * scheme (gs://bucket/7) is copied and not checked. False: the save has failed; *err says why. */
MUST_CHECK bool savepath_take(char ret[PROCMSG_PATH_MAX], const char *path, struct err *err);
/* True if something exists at this path, which is from savepath_take(): else no job could resume
 * from it. Always true for a URL. */
MUST_CHECK bool savepath_look(const char *path, struct err *err);

static inline struct live *job_live(const struct pch *job)
{
    return atomic_load_explicit(&job->live, memory_order_relaxed);
}

static inline enum live_state job_state(const struct live *live)
{
    return (enum live_state)atomic_load_explicit(&live->state, memory_order_relaxed);
}

/* The fast path of pch_step: stores the step if no round is open. False: take the slow path, which
 * may wait. */
static inline bool job_step_is_short(const struct pch *job, uint64_t finished)
{
    const struct page_supervisor *supervisor = job->supervisor;
    struct page_process *process = job->process;
    if (!LIKELY(job_state(job_live(job)) == LIVE_ON) ||
        !LIKELY(atomic_load_explicit(&process->phase, memory_order_relaxed) == PAGE_TRAIN))
        return false;
    /* Sequentially consistent: the supervisor stores the gate, then loads the steps. So at least
     * one side sees what the other side stored (gate.h). */
    atomic_store(&process->step, finished);
    return LIKELY(gate_is_open(atomic_load(&supervisor->gate))) &&
           LIKELY(page_is_alive(supervisor));
}

static inline bool job_can_talk(const struct live *live)
{
    return job_state(live) != LIVE_OFF && !atomic_load(&live->is_lost);
}

/* Blocks cancellation (pthread_cancel) of a thread inside libpch. If the thread that reads the
 * socket were cancelled, the other waiting threads would have no reader. */
static inline int cancel_off(void)
{
    int old;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
    return old;
}

static inline void cancel_back(const int *old)
{
    pthread_setcancelstate(*old, NULL);
}

#define NOT_CANCELLED \
    const int cancel_state __attribute__((cleanup(cancel_back), unused)) = cancel_off()
