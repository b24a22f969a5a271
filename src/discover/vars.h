/* SPDX-License-Identifier: Apache-2.0
 *
 * vars: reads variables of an environment strictly, and notes each finding with its variable. Any
 * thread.
 */
#ifndef PCHRUN_DISCOVER_VARS_H
#define PCHRUN_DISCOVER_VARS_H

#include "discover/finder.h"

#include <stdint.h>

/* NULL: it is not set, or empty. */
const char *vars_get(const struct place *place, const char *name);
bool vars_has(const struct place *place, const char *name);

/* A missing variable is the error ERR_NOT_FOUND. *ret is unchanged on failure. `with` is the
 * variable that is set and makes this one necessary. */
MUST_CHECK const char *vars_need(const struct place *place, const char *name, const char *with,
                                 struct err *err);
MUST_CHECK bool vars_number(const struct place *place, const char *name, const char *with, int *ret,
                            struct err *err);
/* A number that is only an identity, of any size. */
MUST_CHECK bool vars_id(const struct place *place, const char *name, const char *with,
                        uint64_t *ret, struct err *err);

/* Takes the number of nodes and the rank of this node from two variables. Both are necessary: on
 * failure *ret has the count, if known. The rank is within the count. */
MUST_CHECK bool vars_take_nodes(const struct place *place, const char *count, const char *rank,
                                struct discovery *ret, struct err *err);

/* Takes the address of node 0 from the text of `variable`, which may have a port. */
MUST_CHECK bool vars_take_chief(struct discovery *ret, const char *text, const char *variable,
                                struct err *err);
/* All nodes are on this machine; `why` is the reason. */
void vars_take_loopback(struct discovery *ret, const char *why);
/* Derives a port of the job from a number that no other job on this machine should have. The number
 * comes from `variable`, with the value `id`. */
void vars_take_port(struct discovery *ret, uint64_t number, const char *variable, const char *id);

#endif
