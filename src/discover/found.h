/* SPDX-License-Identifier: Apache-2.0
 *
 * found: the sources by which nodes can be discovered, and what one of them, or all, have told.
 * Plain values; owns nothing.
 */
#ifndef PCHRUN_DISCOVER_FOUND_H
#define PCHRUN_DISCOVER_FOUND_H

#include "base/address.h"

/* In the order in which they are looked at, but for the first two. */
enum discover_from {
    DISCOVER_NONE, /* do not look */
    DISCOVER_AUTO, /* at all of those below */
    DISCOVER_SLURM,
    DISCOVER_TORCHRUN,
    DISCOVER_KUBEFLOW,
    DISCOVER_TF_CONFIG,
    DISCOVER_MPI,
    DISCOVER_LWS,
    DISCOVER_JOBSET,
    DISCOVER_AWS_BATCH,
    DISCOVER_TPU,
    DISCOVER_KUBERNETES,
    DISCOVER__COUNT
};

/* Ends with NULL. */
extern const char *const discover_names[];

enum { DISCOVER_TEXT_MAX = 160, DISCOVER_WHY_MAX = 512, DISCOVER_NODES_MAX = 4096 };

/* Ports that are made from a job's id: between those of JAX and torchrun and those that the kernel
 * hands out. */
enum { DISCOVER_PORT_FIRST = 20000, DISCOVER_PORTS = 8192 };

/* What was found. Each text says by which variable ("SLURM_PROCID is 3"). */
struct discovery {
    enum discover_from from;      /* DISCOVER_NONE: nothing */
    int nnodes;                   /* 0: not told */
    int node_rank;                /* -1: not told */
    char chief[ADDRESS_HOST_MAX]; /* where node 0 is; "": not told, or there is one node */
    char bind[ADDRESS_HOST_MAX];  /* what node 0 listens on instead; "": the same */
    int port;                     /* of this job alone, where jobs may share a machine; 0: any */
    char nnodes_why[DISCOVER_TEXT_MAX], node_rank_why[DISCOVER_TEXT_MAX];
    char chief_why[DISCOVER_TEXT_MAX], port_why[DISCOVER_TEXT_MAX];
    char why[DISCOVER_WHY_MAX]; /* the sources that are there, what was looked for in vain, or why
                                   nothing was */
    char warning[DISCOVER_WHY_MAX]; /* there may be other nodes, but nothing says so; "": none */
};

#endif
