/* SPDX-License-Identifier: Apache-2.0
 *
 * stray: processes that a program of ours has left behind, and that are none of the job.
 *
 * Such a program has a mark in its environment: a name that nobody else has. Who inherits it and
 * has lost its parent is our child now, as orphans of the job are; the mark tells them apart. One
 * that drops its environment is taken for one of the job, and ends with it at the latest. Main
 * thread.
 */
#ifndef PCHRUN_OS_STRAY_H
#define PCHRUN_OS_STRAY_H

#include "os/helper.h"

/* Kills the orphans with this mark, and all below them. Until they have ended, those that are our
 * children count as helpers. While we have no child but those in reap's list this costs nothing. */
void stray_kill(struct helpers *strays, const char *mark);

#endif
