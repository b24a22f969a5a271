/* SPDX-License-Identifier: Apache-2.0
 * See control.h.
 */
#include "wire/control.h"

#include <string.h>

static const char *const names[CONTROL__COUNT] = {
    [CONTROL_STATUS] = "status", [CONTROL_SAVE] = "checkpoint", [CONTROL_DRAIN] = "drain",
    [CONTROL_CANCEL] = "cancel", [CONTROL_STOP] = "stop",       [CONTROL_EVENTS] = "events",
};

const char *control_name(enum control_verb verb)
{
    return names[verb];
}

bool control_verb_of(const char *name, enum control_verb *ret)
{
    for (unsigned i = 0; i < CONTROL__COUNT; i++)
        if (strcmp(name, names[i]) == 0) {
            *ret = (enum control_verb)i;
            return true;
        }
    return false;
}
