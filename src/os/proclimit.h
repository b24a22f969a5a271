/* SPDX-License-Identifier: Apache-2.0
 *
 * proclimit: why fork(2) has failed: the limits on processes and threads, and how far they are
 * used.
 *
 * Two limits make fork fail with EAGAIN: RLIMIT_NPROC (ulimit -u) counts the processes and threads
 * of a user, pids.max those of a control group. Reads files of the kernel, which do not block. A
 * number that cannot be read is left out. Owns nothing. Main thread. See getrlimit(2), cgroups(7).
 */
#pragma once

#include "base/err.h"

/* After a fork that has failed: adds to *err->text the limits and what to do. Returns false. With
 * another errno than EAGAIN in *err it adds nothing. */
bool proclimit_explain(struct err *err);
