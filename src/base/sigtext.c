/* SPDX-License-Identifier: Apache-2.0
 * See sigtext.h.
 */
#include "base/sigtext.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

const char *sigtext(int number, char text[SIGTEXT_MAX])
{
    const char *name = sigabbrev_np(number);
    if (name)
        snprintf(text, SIGTEXT_MAX, "SIG%s", name);
    else if (number >= SIGRTMIN && number <= SIGRTMAX)
        snprintf(text, SIGTEXT_MAX, "SIGRTMIN+%d", number - SIGRTMIN);
    else
        snprintf(text, SIGTEXT_MAX, "signal %d", number);
    return text;
}
