/* SPDX-License-Identifier: Apache-2.0
 *
 * finder: the finders, one function per source.
 *
 * A finder runs if one of its source's variables is set. It fills in what the variables say.
 * Without information about nodes (a batch script without srun) it changes nothing; for a single
 * node it sets a count of 1. False: *err names the missing (ERR_NOT_FOUND) or wrong variable, and
 * *ret has the node count if known. discover() adds the advice. Pure but for /etc/hosts. Any
 * thread.
 */
#ifndef PCHRUN_DISCOVER_FINDER_H
#define PCHRUN_DISCOVER_FINDER_H

#include "base/err.h"
#include "discover/found.h"

struct place {
    char **env;
    const char *root;
};

typedef bool finder_fn(const struct place *place, struct discovery *ret, struct err *err);

finder_fn find_slurm, find_torchrun, find_kubeflow, find_tf_config, find_mpi, find_lws, find_jobset,
    find_aws_batch, find_tpu, find_kubernetes;

#endif
