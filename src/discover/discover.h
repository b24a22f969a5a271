/* SPDX-License-Identifier: Apache-2.0
 *
 * discover: finds the job's nodes and this node's rank from variables of a scheduler, a launcher or
 * an operator. No packet is sent and no program is run; of files only /etc/hosts is read, inside a
 * Kubernetes Job.
 *
 * Each source is a row of the table in discover.c; its finder is a pure function of the
 * environment. A source with a missing variable is an error, and so are two contradicting sources:
 * a guess could start two jobs, or none. Owns nothing. Any thread.
 */
#pragma once

#include "base/err.h"
#include "discover/found.h"

/* Manual text (mdoc) about one source, and about all. */
const char *discover_manual(enum discover_from from);
extern const char discover_manual_head[];

/* `env` ends with NULL; `root` is put before /etc/hosts; "" except in tests. False: a source lacks
 * a variable, or two differ; *err names the variables, their values and what to set. */
MUST_CHECK bool discover(char **env, const char *root, enum discover_from from,
                         struct discovery *ret, struct err *err);

/* Looks at all sources when the user did not ask for discovery. An incomplete source without
 * several nodes gives only a warning (ret->warning). */
MUST_CHECK bool discover_unasked(char **env, const char *root, struct discovery *ret,
                                 struct err *err);

/* True if this pchrun runs below another one. The variables may then belong to the outer one. */
bool discover_is_inner(char **env);
/* True if, in addition, the socket of the outer pchrun is missing. Either the outer pchrun has
 * ended, and this batch script inherited its variables; or it runs outside of this container. */
bool discover_outer_is_gone(char **env);
