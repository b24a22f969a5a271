/* SPDX-License-Identifier: Apache-2.0
 *
 * charlm_die: ends the example after an error. It writes a line on standard error and reports the
 * reason to pchrun, so the reason is in the job's report, not only in one rank's output.
 */
#include "charlm.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

pch_t *job;

void die(const char *fmt, ...)
{
    char why[1000];
    va_list args;
    va_start(args, fmt);
    vsnprintf(why, sizeof why, fmt, args);
    va_end(args);
    fprintf(stderr, "charlm[%ld]: %s\n", opt.rank, why);
    if (job)
        pch_error(job, 1, why);
    exit(1);
}
