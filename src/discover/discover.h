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

/* `env` ends with NULL; `root` stands before /etc/hosts: "" for this machine's. False: a source
 * lacks a variable, or two differ; *err names the variables, their values and what to set. */
MUST_CHECK bool discover(char **env, const char *root, enum discover_from from,
                         struct discovery *ret, struct err *err);

/* All sources, if the user did not ask for discovery. An incomplete source without several nodes
 * gives only a warning (ret->warning). */
MUST_CHECK bool discover_unasked(char **env, const char *root, struct discovery *ret,
                                 struct err *err);

/* Does this pchrun run below another one? Then the variables may be the outer one's. */
bool discover_is_inner(char **env);
/* The same, but the outer one's socket is missing. Either it has ended, and this batch script
 * inherited variables of the job that submitted it; or it runs outside of this container. */
bool discover_outer_is_gone(char **env);
