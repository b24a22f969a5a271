/* SPDX-License-Identifier: Apache-2.0
 * See clock.h.
 */
#include "base/clock.h"

#include <stdio.h>

char *clock_iso8601(int64_t real_ns, char *text, size_t size)
{
    time_t s = (time_t)(real_ns / NS_PER_S);
    struct tm tm;
    gmtime_r(&s, &tm);
    char date[32];
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(text, size, "%s.%03dZ", date, (int)(real_ns % NS_PER_S / NS_PER_MS));
    return text;
}
