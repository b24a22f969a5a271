/* SPDX-License-Identifier: Apache-2.0
 *
 * training: what the extension knows of the training loop of this process, beside what libpch does:
 * there is one of it, as there is one job. The interpreter's lock guards it; every call that may
 * wait gives that lock up, and asks for signals meanwhile. Whatever fails sets a Python exception.
 *
 * libpch leaves pch_step, pch_saved and pch_close to one thread. `is_busy` holds them to that: a
 * second thread that calls one of them meanwhile is refused, and so is a signal handler. A fork
 * finds a job that is closed, and nobody busy. Read first: libpch(3), src/libpch/job.h.
 */
#ifndef PCH_EXT_TRAINING_H
#define PCH_EXT_TRAINING_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "libpch/job.h"

#include <pthread.h>

/* Steps lie below this; libpch(3). */
#define STEP_LIMIT GATE_STEP_MAX

struct training {
    pch_t *job; /* never NULL once there is a Job */
    bool is_attached;
    bool is_busy;     /* a thread is in a call that belongs to the training thread */
    bool counts;      /* it only tells its steps, which any thread may make */
    bool is_shielded; /* libpch may put its handlers over the default actions */
    bool should_save, should_exit;
    pthread_t thread; /* which makes the steps; 0: none yet */
    uint64_t finished, stride;
    const void *turn; /* the Steps of a turn that goes on, whose step is not told; NULL: none */
};

extern struct training training;

/* Before anything else; once for the process. False: no memory. */
bool training_init(void);
/* pch_open with these options; does nothing if the job is attached. */
bool training_attach(const struct pch_options *options);
bool training_close(void);

/* Around a call of libpch: without the interpreter's lock between the two. leave() first looks
 * whether another thread is in such a call, if it is one of the training thread's. return() is
 * false if a signal handler has raised something. */
bool training_leave(bool is_training_call);
bool training_return(bool is_training_call);

/* The calling thread makes the steps from now on. False: another thread does, which still runs. */
bool training_take_over(void);
/* pch_step, where it takes the long way. 1: save, 0: go on (or leave: should_exit), -1. */
int training_step_slowly(uint64_t finished);
/* Tells the step of the turn that goes on, if there is one. As training_step. */
int training_end_turn(void);
/* The step of the last training_step is saved; `path` may be NULL. Ends the turn. */
bool training_saved(const char *path);
bool training_save_failed(uint64_t step, const char *why);

/* Does this thread make the steps? The steps of two would count double. */
static inline bool training_is_mine(void)
{
    return LIKELY(training.thread == pthread_self()) || training_take_over();
}

/* So many steps are finished. 1: save, 0: go on (or leave: should_exit), -1. */
static inline int training_step(uint64_t finished)
{
    if (!LIKELY(training.is_busy || training_is_mine()))
        return -1;
    if (!LIKELY(!training.is_busy && (job_step_is_short(training.job, finished) ||
                                      job_state(job_live(training.job)) == LIVE_OFF)))
        return training_step_slowly(finished);
    training.finished = finished;
    training.should_save = false;
    training.turn = NULL;
    return 0;
}

#endif
