/* SPDX-License-Identifier: Apache-2.0
 *
 * instrument: environment variables with which an unchanged Python program takes part (option
 * `instrument`). Our folder comes first in PYTHONPATH. Its sitecustomize.py does the rest in every
 * interpreter that reads the variable (contrib/python/instrument). Owns nothing. Fails if pchrun is
 * not installed as a whole.
 */
#ifndef PCHRUN_COMMANDS_INSTRUMENT_H
#define PCHRUN_COMMANDS_INSTRUMENT_H

#include "base/err.h"

/* The value of PYTHONPATH: our folder, then `inherited` (NULL: none). The caller frees it. NULL:
 * *err. */
MUST_CHECK char *instrument_python_path(const char *inherited, struct err *err);

#endif
