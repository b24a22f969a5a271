/* SPDX-License-Identifier: Apache-2.0
 * See control.h.
 */
#include "wire/control.h"

const char *const control_names[CONTROL__COUNT] = {
    [CONTROL_STATUS] = "status",   [CONTROL_SAVE] = "checkpoint", [CONTROL_DRAIN] = "drain",
    [CONTROL_CANCEL] = "cancel",   [CONTROL_STOP] = "stop",       [CONTROL_EVENTS] = "events",
    [CONTROL_METRICS] = "metrics",
};
