/* SPDX-License-Identifier: Apache-2.0
 *
 * handover: from the pchrun of one node to that of several.
 *
 * The first may be linked statically, which makes every start quicker; it then can neither look up
 * names nor load OpenSSL. Who has found out that there are several nodes becomes the other program,
 * which is the same but for the linking and reads the same arguments and environment anew. A signal
 * that comes between the two stays pending for the second, which is told by a variable of the
 * environment what was blocked when the first was started. Owns nothing. Main thread, before
 * anything is opened or started.
 */
#ifndef PCHRUN_RUN_HANDOVER_H
#define PCHRUN_RUN_HANDOVER_H

#include "base/err.h"

/* After signals_begin(): if we are the second, takes what the first has told, and removes it. */
void handover_take(void);
/* Executes it, as we were started: signals as inherited, but blocked; and those standard
 * descriptors closed again that are in the bits of `closed`. Returns only if that fails: nothing
 * but the signals has changed then, and *err says which program is missing, and what to do. */
void handover(char **argv, char **env, unsigned closed, struct err *err);

#endif
