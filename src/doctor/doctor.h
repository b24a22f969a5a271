/* SPDX-License-Identifier: Apache-2.0
 *
 * doctor: `pchrun --doctor -- command`: checks what would go wrong here when a notice comes, says
 * what to change, and does not run the command.
 *
 * One table lists the checks. They use what a run uses: the same configuration, key file,
 * directories, control group and addresses. Each check runs in a forked child, since a dead file
 * system or server must not block the doctor. A check without an answer in time is a finding, too.
 * Checks remove what they make. Owns nothing afterwards; a killed child may still hang in a dead
 * file system. Main thread.
 */
#pragma once

#include "config/config.h"

#include <stdio.h>

/* Prints each finding and what to do about it. The node's rank must be known. 0: nothing is bad; 1:
 * a finding is bad; -1: *err says why it could not check or print. */
MUST_CHECK int doctor_run(struct config *config, FILE *out, struct err *err);
