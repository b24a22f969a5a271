/* SPDX-License-Identifier: Apache-2.0
 *
 * finder: what the files of this room have in common: one function for each source.
 *
 * A finder is called where one of its source's signs is set. It fills in what its variables tell; a
 * platform that is there but tells nothing of nodes (a batch script that no srun has started)
 * leaves everything as it is, and one node is a node count of 1. False: *err says which variable is
 * missing (ERR_NOT_FOUND) or wrong, and *ret how many nodes there are, if that is known; what to do
 * is added by discover(). Pure but for /etc/hosts. Any thread.
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
