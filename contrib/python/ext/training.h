/* SPDX-License-Identifier: Apache-2.0
 *
 * training: the extension's state of the training loop of this process. There is one, as there is
 * one job. The interpreter's lock guards it. Every call that may wait releases that lock, and
 * checks for signals meanwhile. Each failure sets a Python exception.
 *
 * libpch allows pch_step, pch_saved and pch_close in one thread. `is_busy` enforces that: a second
 * thread that calls one of them meanwhile is refused, and so is a signal handler. In a fork the job
 * is closed, and no thread is busy. Read first: libpch(3), src/libpch/job.h.
 */
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "libpch/job.h"

#include <pthread.h>

/* Steps are below this; libpch(3). */
#define STEP_LIMIT GATE_STEP_MAX

struct training {
    pch_t *job; /* never NULL once there is a Job */
    bool is_attached;
    bool is_busy;     /* a thread is in a call that belongs to the training thread */
    bool counts;      /* this process only reports its steps, which any thread may make */
    bool is_shielded; /* libpch may replace default actions by its handlers */
    unsigned needs;   /* PCH_NEEDS_RANK0, PCH_NEEDS_ANY or 0, as attach() got it */
    bool should_save, should_exit;
    bool is_owed; /* all ranks save the step `finished`, and the program has not reported it */
    bool has_told_owed; /* the program was told of that, or it reports saves in the background */
    pthread_t thread;   /* makes the steps; 0: none yet */
    uint64_t finished, stride;
    PyObject *
        look; /* a function to call at the first steps, and at the first after a save; NULL: none */
    const void *iteration; /* the Steps in an iteration whose step is unreported; NULL: none */
};

extern struct training training;

/* Call this first, once in the process. False: no memory. */
bool training_init(void);
/* Calls pch_open with these options. Does nothing if the job is attached. */
bool training_attach(const struct pch_options *options);
bool training_close(void);

/* Called before and after a call of libpch, which runs without the interpreter's lock.
 * training_leave() is false if this is a call of the training thread and another such call is
 * running. training_return() is false if a signal handler has raised an exception. */
bool training_leave(bool is_training_call);
bool training_return(bool is_training_call);

/* From now on the calling thread is the training thread. False: the present training thread still
 * runs.
 */
bool training_take_over(void);
/* The program goes on: warns, once, if it owes the report of a save. False: an exception. */
bool training_tell_owed(void);
/* Calls training.look. False: an exception. */
bool training_look(void);
/* Calls pch_step when that may wait. 1: save; 0: go on (or leave: should_exit); -1: an exception.
 */
int training_step_slowly(uint64_t finished);
/* Reports the step of the present iteration, if any. Returns as training_step. */
int training_end_iteration(void);
/* The step of the last training_step is saved; `path` may be NULL. Ends the iteration. */
bool training_saved(const char *path);
bool training_save_failed(uint64_t step, const char *why);

/* True if this is the training thread. The steps of two threads would count double. */
static inline bool training_is_mine(void)
{
    return LIKELY(training.thread == pthread_self()) || training_take_over();
}

/* Reports the number of finished steps. 1: save; 0: go on (or leave: should_exit); -1: an
 * exception. */
static inline int training_step(uint64_t finished)
{
    if (!LIKELY(training.is_busy || training_is_mine()))
        return -1;
    if (!LIKELY(!training.is_busy && (job_step_is_short(training.job, finished) ||
                                      job_state(job_live(training.job)) == LIVE_OFF)))
        return training_step_slowly(finished);
    training.finished = finished;
    training.should_save = false;
    training.iteration = NULL;
    return 0;
}
