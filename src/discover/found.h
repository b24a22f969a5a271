/* SPDX-License-Identifier: Apache-2.0
 *
 * found: the sources of discovery, and the result of one or all. Plain values; owns nothing.
 */
#pragma once

#include "base/address.h"

/* The sources, from the third on, are in the order of the search. */
enum discover_from {
    DISCOVER_NONE, /* do not look */
    DISCOVER_AUTO, /* look at all sources below */
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

/* Ports made from a job's id: above those of JAX and torchrun, below the kernel's ephemeral
 * ones. */
enum { DISCOVER_PORT_FIRST = 20000, DISCOVER_PORTS = 8192 };

/* The discovered nodes. Each text names the variable ("SLURM_PROCID is 3"). */
struct discovery {
    enum discover_from from;      /* DISCOVER_NONE: nothing */
    int nnodes;                   /* 0: unknown */
    int node_rank;                /* -1: unknown */
    char chief[ADDRESS_HOST_MAX]; /* where node 0 is; "": unknown, or only one node */
    char bind[ADDRESS_HOST_MAX];  /* another address for node 0 to listen on; "": none */
    int port;                     /* for this job alone, if jobs may share a machine; 0: none */
    char nnodes_why[DISCOVER_TEXT_MAX], node_rank_why[DISCOVER_TEXT_MAX];
    char chief_why[DISCOVER_TEXT_MAX], port_why[DISCOVER_TEXT_MAX];
    char why[DISCOVER_WHY_MAX];     /* the sources found, the variables missing, or why there was no
                                       search */
    char warning[DISCOVER_WHY_MAX]; /* why there may be other nodes, without proof; "": none */
};
