/* SPDX-License-Identifier: Apache-2.0
 *
 * next: finds the next attempt of a job among the pchruns of this machine. In doubt it finds none,
 * and says why: the page must not show another job of the same name as if it were this one. Waits
 * for the answers of these pchruns, each with a deadline. Owns nothing. Any thread.
 */
#pragma once

#include "ctl/ctl.h"
#include "web/identity.h"

enum { NEXT_WHY_MAX = 200 };

/* Looks at the private directories in `parent`. Of several nodes of the job it takes the lowest, or
 * `node` if that is not below 0. False: ret is "", and why[] tells people what was found; "":
 * nothing was. */
MUST_CHECK bool next_find(const struct identity *job, int node, const char *parent,
                          char ret[FIND_DIR_MAX], char why[NEXT_WHY_MAX]);
/* True if the pchrun with the private directory `dir` has this state directory, or this checkpoint
 * directory. */
MUST_CHECK bool next_has_state_dir(const char *dir, const char *state_dir, struct err *err);
