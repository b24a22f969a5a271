/* SPDX-License-Identifier: Apache-2.0
 *
 * handover: executes the pchrun of several nodes in place of the pchrun of one node.
 *
 * The pchrun of one node may be linked statically, so that every start is quicker. It then cannot
 * look up names or load OpenSSL. When it finds several nodes, it executes the other program, which
 * reads the same arguments and environment. A signal that arrives in between stays pending for that
 * program. An environment variable hands it the original signal mask. Owns nothing. Main thread,
 * before anything is opened or started.
 */
#ifndef PCHRUN_RUN_HANDOVER_H
#define PCHRUN_RUN_HANDOVER_H

#include "base/err.h"

/* Call after signals_begin(). If this is the second program, takes the signal mask from the
 * variable and removes the variable. */
void handover_take(void);
/* Executes the second program with the inherited signal actions, all signals blocked, and the
 * standard descriptors in `closed` closed. Returns only on failure: only the signals have changed
 * then, and *err says which program is missing and what to do. */
void handover(char **argv, char **env, unsigned closed, struct err *err);

#endif
