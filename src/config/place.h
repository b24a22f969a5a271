/* SPDX-License-Identifier: Apache-2.0
 *
 * place: the file of a value, and the place of an error in it. Plain data, on the caller's stack.
 */
#ifndef PCHRUN_CONFIG_PLACE_H
#define PCHRUN_CONFIG_PLACE_H

#include "json/json.h"

struct place {
    const char *folder;    /* absolute: what relative paths are relative to */
    const struct json *at; /* the value, or its part read last */
};

#endif
