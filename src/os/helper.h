/* SPDX-License-Identifier: Apache-2.0
 *
 * helper: a forked child for one task that may block for ever, so that the supervisor never blocks.
 * It closes our descriptors: a stuck helper would hold our sockets and locks. reap collects it when
 * it ends. Main thread.
 */
#ifndef PCHRUN_OS_HELPER_H
#define PCHRUN_OS_HELPER_H

#include "os/reap.h"

/* Calls fn(arg) in a child. fn may allocate memory: our threads hold no lock of the C library
 * (procs/vigil.h). */
MUST_CHECK bool helper_start(struct reap *reap, void (*fn)(const void *arg), const void *arg,
                             struct err *err);

/* For a forked child that may live long: closes all descriptors but `keep`, even the standard
 * streams, because their readers would wait for its end. Also leaves the working directory. */
void helper_detach(int keep);

#endif
