/* SPDX-License-Identifier: Apache-2.0
 * See notice.h.
 */
#include "wire/notice.h"

#include <string.h>

static const char *const names[NOTICE__COUNT] = {
    [NOTICE_TERMINATE] = "terminate",
    [NOTICE_CHECKPOINT] = "checkpoint",
    [NOTICE_LOG] = "log",
    [NOTICE_CANCEL] = "cancel",
};

const char *notice_type_name(unsigned type)
{
    return type < NOTICE__COUNT ? names[type] : "unknown";
}

bool notice_type_of(const char *name, enum notice_type *ret)
{
    for (unsigned i = 0; i < NOTICE__COUNT; i++)
        if (strcmp(name, names[i]) == 0) {
            *ret = (enum notice_type)i;
            return true;
        }
    return false;
}
