/* SPDX-License-Identifier: Apache-2.0
 * See nearest.h.
 */
#include "base/nearest.h"

#include "base/str.h"

#include <stdio.h>
#include <string.h>

/* How many letters of a name are compared; all known names are shorter. */
enum { DISTANCE_MAX = 64 };

unsigned nearest_distance(const char *a, const char *b)
{
    size_t na = strnlen(a, DISTANCE_MAX), nb = strnlen(b, DISTANCE_MAX);
    unsigned row[DISTANCE_MAX + 1];
    for (size_t j = 0; j <= nb; j++)
        row[j] = (unsigned)j;
    for (size_t i = 1; i <= na; i++) {
        unsigned diagonal = row[0];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= nb; j++) {
            unsigned best = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[nb];
}

/* Suggests only names that differ in at most one letter of four, and one more. */
struct nearest nearest_to(const char *typed)
{
    return (struct nearest){.typed = typed,
                            .distance = 2 + (unsigned)strnlen(typed, DISTANCE_MAX) / 4};
}

/* True if the last parts of both are equal: "port" and "procs.port" suggest "cluster.port". */
static bool has_same_end(const char *typed, const char *name)
{
    const char *point = strrchr(typed, '.');
    const char *end = point ? point + 1 : typed;
    size_t n = strlen(name), m = strlen(end);
    return m > 0 && n > m && strchr(".-_", name[n - m - 1]) && str_is(name + n - m, end);
}

void nearest_consider(struct nearest *nearest, const char *prefix, const char *name)
{
    unsigned distance = nearest_distance(nearest->typed, name);
    if (distance > 1 && has_same_end(nearest->typed, name))
        distance = 1;
    if (distance >= nearest->distance)
        return;
    nearest->distance = distance;
    snprintf(nearest->name, sizeof nearest->name, "%s%s", prefix, name);
}
