/* SPDX-License-Identifier: Apache-2.0
 *
 * instrument: what is set for the commands so that a Python program takes part that knows nothing
 * of us (option `instrument`). A folder of ours goes before what its PYTHONPATH has; the
 * sitecustomize.py in it does the rest in every interpreter that reads that variable
 * (contrib/python/instrument). Owns nothing; fails where we are not installed as a whole.
 */
#ifndef PCHRUN_RUN_INSTRUMENT_H
#define PCHRUN_RUN_INSTRUMENT_H

#include "base/err.h"

/* The value of PYTHONPATH: ours, and behind it `inherited` (NULL: there is none). The caller frees
 * it; NULL: *err. */
MUST_CHECK char *instrument_python_path(const char *inherited, struct err *err);

#endif
