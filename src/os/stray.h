/* SPDX-License-Identifier: Apache-2.0
 *
 * stray: processes that one of our own programs has left behind; they are not of the job.
 *
 * Such a program has a mark in its environment: a unique name. Its orphans become our children,
 * like orphans of the job; the inherited mark tells them apart. An orphan without its environment
 * counts as part of the job and ends with it. Main thread.
 */
#ifndef PCHRUN_OS_STRAY_H
#define PCHRUN_OS_STRAY_H

#include "os/reap.h"

/* Kills the orphans with this mark and their descendants. Our children among them count as helpers
 * until they end. Costs nothing while reap's list has all our children. */
void stray_kill(struct reap *reap, const char *mark);

#endif
