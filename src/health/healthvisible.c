/* SPDX-License-Identifier: Apache-2.0
 * See healthvisible.h.
 */
#include "health/healthvisible.h"

#include "base/str.h"

#include <limits.h>
#include <string.h>
#include <strings.h>

enum { ENTRY_MAX = 96 };

/* Takes the first entry off the list. False: there is none, or CUDA reads no further. */
static bool take_entry(const char **list, char ret[ENTRY_MAX], int64_t *ret_number)
{
    size_t len = strcspn(*list, ",");
    ret[0] = '\0';
    if (len >= ENTRY_MAX)
        return false;
    memcpy(ret, *list, len);
    ret[len] = '\0';
    *list += len + ((*list)[len] == ',');
    *ret_number = -1;
    return str_to_i64(ret, 0, INT_MAX, ret_number) || str_starts(ret, "GPU-");
}

bool healthvisible_has(const char *list, unsigned number, const char *uuid)
{
    char entry[ENTRY_MAX];
    int64_t named;
    if (!list || str_starts(list, "MIG-"))
        return true;
    while (take_entry(&list, entry, &named))
        if (named == (int64_t)number ||
            (named < 0 && uuid[0] && strncasecmp(uuid, entry, strlen(entry)) == 0))
            return true;
    return false;
}

unsigned healthvisible_uuids(const char *list)
{
    char entry[ENTRY_MAX];
    int64_t named;
    unsigned n = 0;
    while (list && take_entry(&list, entry, &named))
        n += named < 0;
    return n;
}
