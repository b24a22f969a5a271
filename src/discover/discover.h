/* SPDX-License-Identifier: Apache-2.0
 *
 * discover: which nodes the job has and which of them this is, told from the variables that a
 * scheduler, a launcher or an operator sets. No packet is sent and no program is run; of files only
 * /etc/hosts is read, inside a Kubernetes Job.
 *
 * Each source is a row of the table in discover.c; its finder is a pure function of the
 * environment. One that is half there is an error, and so are two that contradict each other: a
 * guess would start two jobs, or none. Owns nothing. Any thread.
 */
#ifndef PCHRUN_DISCOVER_DISCOVER_H
#define PCHRUN_DISCOVER_DISCOVER_H

#include "base/err.h"
#include "discover/found.h"

/* What a source is and what it reads: mdoc, whole sentences; and what is to be said of all. */
const char *discover_manual(enum discover_from from);
extern const char discover_manual_head[];

/* `env` ends with NULL; `root` stands before /etc/hosts: "" for this machine's. False: a source is
 * half there, or two differ; *err names the variables, their values and what to set. */
MUST_CHECK bool discover(char **env, const char *root, enum discover_from from,
                         struct discovery *ret, struct err *err);

/* All sources, where nobody has asked for it: one that is half there, and does not tell of several
 * nodes, is left out, with a warning (ret->warning). */
MUST_CHECK bool discover_unasked(char **env, const char *root, struct discovery *ret,
                                 struct err *err);

/* Was this one started below another pchrun? The variables may be the other's, then. */
bool discover_is_inner(char **env);
/* The same, but that one's socket is not there: it has ended, and the variables are what a batch
 * script has from the job that submitted it; or it is outside of this container. */
bool discover_outer_is_gone(char **env);

#endif
