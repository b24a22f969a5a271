/* SPDX-License-Identifier: Apache-2.0
 *
 * vars: variables of an environment, read strictly, and what was found noted with its reason. Any
 * thread.
 */
#ifndef PCHRUN_DISCOVER_VARS_H
#define PCHRUN_DISCOVER_VARS_H

#include "discover/finder.h"

#include <stdint.h>

/* NULL: it is not set, or empty. */
const char *vars_get(const struct place *place, const char *name);
bool vars_has(const struct place *place, const char *name);

/* The variables have to be there, else the error's code is ERR_NOT_FOUND. *ret is left alone on
 * failure. `with` is the one that is there and makes the other necessary. */
MUST_CHECK const char *vars_need(const struct place *place, const char *name, const char *with,
                                 struct err *err);
MUST_CHECK bool vars_number(const struct place *place, const char *name, const char *with, int *ret,
                            struct err *err);
/* A number that is only an identity, of any size. */
MUST_CHECK bool vars_id(const struct place *place, const char *name, const char *with,
                        uint64_t *ret, struct err *err);

/* How many nodes there are and which this is, as two variables tell; each alone is half of it: on
 * failure *ret has the count, if that is known. The rank is within the count. */
MUST_CHECK bool vars_take_nodes(const struct place *place, const char *count, const char *rank,
                                struct discovery *ret, struct err *err);

/* Where node 0 is, from a text that may have a port; `why` is the variable. */
MUST_CHECK bool vars_take_chief(struct discovery *ret, const char *text, const char *variable,
                                struct err *err);
/* All nodes are on this machine, as `why` tells. */
void vars_take_loopback(struct discovery *ret, const char *why);
/* A port of the job's own, from a number that no other job on this machine should have; `variable`
 * and its value `id` are where the number comes from. */
void vars_take_port(struct discovery *ret, uint64_t number, const char *variable, const char *id);

#endif
