/* SPDX-License-Identifier: Apache-2.0
 *
 * place: what a value that comes from a file is told of that file, and where in it the reading
 * stood when it failed. Plain data, on its user's stack.
 */
#ifndef PCHRUN_CONFIG_PLACE_H
#define PCHRUN_CONFIG_PLACE_H

#include "json/json.h"

struct place {
    const char *folder;    /* absolute: what relative paths are relative to */
    const struct json *at; /* the value, or the part of it that was looked at last */
};

#endif
