/* SPDX-License-Identifier: Apache-2.0
 *
 * vars: the finders, one function per source, and what they share: they read variables of an
 * environment strictly, and note each finding with its variable.
 *
 * A finder runs if one of its source's variables is set. It fills in what the variables say.
 * Without information about nodes (a batch script without srun) it changes nothing; for a single
 * node it sets a count of 1. False: *err names the missing (ERR_NOT_FOUND) or wrong variable, and
 * *ret has the node count if known. discover() adds the advice. Pure, except that /etc/hosts is
 * read. Any thread.
 */
#pragma once

#include "base/err.h"
#include "discover/discover.h"

#include <stddef.h>
#include <stdint.h>

struct place {
    char **env;
    const char *root; /* is put before /etc/hosts */
    bool is_typed;    /* a user has typed the command in a shell at a terminal */
};

typedef bool finder_fn(const struct place *place, struct discovery *ret, struct err *err);

finder_fn find_slurm, find_torchrun, find_kubeflow, find_tf_config, find_mpi, find_lws, find_jobset,
    find_aws_batch, find_tpu, find_kubernetes;

/* NULL: it is not set, or empty. */
const char *vars_get(const struct place *place, const char *name);

/* A missing variable is the error ERR_NOT_FOUND. *ret is unchanged on failure. `with` is the
 * variable that is set and makes this one necessary. */
MUST_CHECK const char *vars_need(const struct place *place, const char *name, const char *with,
                                 struct err *err);
MUST_CHECK bool vars_number(const struct place *place, const char *name, const char *with, int *ret,
                            struct err *err);
/* If the variable is not set, *ret is unchanged. */
MUST_CHECK bool vars_number_if_set(const struct place *place, const char *name, int *ret,
                                   struct err *err);
/* Reads a number that is only an id, as of a job or a step; it may have any size. */
MUST_CHECK bool vars_id(const struct place *place, const char *name, const char *with,
                        uint64_t *ret, struct err *err);

/* Takes the number of nodes and the rank of this node from two variables. Both are necessary: on
 * failure *ret has the count, if known. The rank is below the count. */
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

#define HOSTLIST_NAME_MAX 256

struct hostlist {
    char first[HOSTLIST_NAME_MAX]; /* the first host */
    size_t n;
};

/* Reads Slurm's short form of many hosts: "node[001-003,007],gpu1". A part in brackets stands for
 * each of its numbers, which keep their leading zeros. If a name has several such parts, the
 * rightmost number changes fastest. A host that is named twice counts twice. No text may follow the
 * last bracket of a name. The expanded list can be far longer than its text, so the hosts are only
 * counted. False: the list is malformed, a name is too long, or there are more than
 * DISCOVER_NODES_MAX hosts. */
MUST_CHECK bool hostlist_read(const char *text, struct hostlist *ret, struct err *err);
