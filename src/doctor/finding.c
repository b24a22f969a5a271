/* SPDX-License-Identifier: Apache-2.0
 * See finding.h.
 */
#include "doctor/finding.h"

#include "base/str.h"

void finding_set(struct finding *ret, enum finding_verdict verdict, const char *seen,
                 const char *advice)
{
    ret->verdict = verdict;
    str_copy(ret->seen, sizeof ret->seen, seen);
    str_copy(ret->advice, sizeof ret->advice, advice);
}
