/* SPDX-License-Identifier: Apache-2.0
 * See finding.h.
 */
#include "doctor/finding.h"

#include <stdarg.h>
#include <stdio.h>

const char *const finding_names[FINDING__COUNT] = {[FINDING_NONE] = "",
                                                   [FINDING_OK] = "ok",
                                                   [FINDING_UNKNOWN] = "unknown",
                                                   [FINDING_WARN] = "warn",
                                                   [FINDING_BAD] = "bad"};

void finding_set(struct finding *ret, enum finding_verdict verdict, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(ret->seen, sizeof ret->seen, fmt, ap);
    va_end(ap);
    ret->verdict = verdict;
    ret->advice[0] = '\0';
}
