/* SPDX-License-Identifier: Apache-2.0
 *
 * doctor: `pchrun --doctor -- command`: looks at what would go wrong here when a notice comes, says
 * what to change, and runs nothing of the command.
 *
 * One table of checks, which use what a run uses: the same configuration, key file, directories,
 * control group, addresses. Each check is a forked child, since a dead file system or server must
 * hold nobody: one without an answer in time is a finding, too. What they make they remove. Owns
 * nothing afterwards but a child that sits in a dead file system, which was killed. Main thread.
 */
#ifndef PCHRUN_DOCTOR_DOCTOR_H
#define PCHRUN_DOCTOR_DOCTOR_H

#include "config/config.h"

#include <stdio.h>

/* Prints a line for each finding, and what to do about it. 0: nothing is bad; 1: something is. -1:
 * *err says why it could not look or print. The node's rank is known. */
MUST_CHECK int doctor_run(struct config *config, FILE *out, struct err *err);

#endif
