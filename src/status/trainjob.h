/* SPDX-License-Identifier: Apache-2.0
 *
 * trainjob: tells the TrainJob of Kubeflow Trainer (2.2, alpha) how far the job is: on node 0, if
 * metrics.trainjob asks for it, and the pod has the variables.
 *
 * pchrun itself has no HTTP: it writes a line to `pchrun-watch trainjob`, which posts it. A line
 * that this program does not take is dropped, so nothing waits for it. Owns the program and its
 * memory: trainjob_free(). Main thread.
 */
#pragma once

#include "notices/source.h"
#include "procs/attach.h"

struct trainjob {
    struct loop *loop;
    struct reap *reap;
    struct attach *attach;
    int64_t interval_ns; /* between two posts; the controller wants at least 5 s */
    /* private from here on */
    struct source_world world;
    struct source program;
    struct watch clock;
};

/* Set the fields above first. Call after the commands have started. Never fails the job: a reason
 * why nothing can be posted is logged. */
void trainjob_open(struct trainjob *trainjob);
void trainjob_free(struct trainjob *trainjob);
/* The run is over: ends the program. */
void trainjob_end(struct trainjob *trainjob);
/* True while trainjob_end() is still at work; this time is bounded. */
bool trainjob_is_busy(const struct trainjob *trainjob);
