/* SPDX-License-Identifier: Apache-2.0
 *
 * sigin: reads the signals that pchrun gets: SIGCHLD goes to children, job control to jobs, all
 * others to the core as EV_SIGNAL. Owns the signalfd. Main thread.
 */
#ifndef PCHRUN_RUN_SIGIN_H
#define PCHRUN_RUN_SIGIN_H

#include "commands/children.h"
#include "commands/jobs.h"
#include "loop/loop.h"

struct sigin {
    int fd;
    struct watch watch;
    struct loop *loop;
    struct children *children;
    struct jobs *jobs;
};

MUST_CHECK bool sigin_open(struct sigin *sigin, struct loop *loop, struct children *children,
                           struct jobs *jobs, struct err *err);
void sigin_free(struct sigin *sigin);

#endif
