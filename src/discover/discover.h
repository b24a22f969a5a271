/* SPDX-License-Identifier: Apache-2.0
 *
 * discover: finds the job's nodes and this node's rank from variables of a scheduler, a launcher or
 * an operator. No packet is sent and no program is run; of files only /etc/hosts is read, inside a
 * Kubernetes Job.
 *
 * Each source is a row of the table in sources.c; its finder is a pure function of the
 * environment. A source with a missing variable is an error, and so are two contradicting sources:
 * a guess could start two jobs, or none. Owns nothing. Any thread.
 */
#pragma once

#include "base/address.h"
#include "base/err.h"

#include <stdint.h>

/* From the third on, these are the sources, in the order of the search. */
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
    DISCOVER__COUNT,
    /* Like DISCOVER_AUTO, but the user did not ask for it: an incomplete source gives only a
     * warning if it shows no second node. */
    DISCOVER_UNASKED = DISCOVER__COUNT,
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
                                     * search */
    char warning[DISCOVER_WHY_MAX]; /* a sign that there may be other nodes, which is no proof; "":
                                     * there is no sign */
};

/* `env` ends with NULL; `root` is put before /etc/hosts; "" except in tests. False: a source lacks
 * a variable, or two differ; *err names the variables, their values and what to set. */
MUST_CHECK bool discover(char **env, const char *root, enum discover_from from,
                         struct discovery *ret, struct err *err);

enum { JOB_NAME_MAX = 63 }; /* bytes of a job's name */

struct job_name {
    char name[JOB_NAME_MAX + 4]; /* with room for a cut character, which is then removed */
    char why[DISCOVER_TEXT_MAX];
};

/* A name for a job that its user has not named: by the scheduler, the pod, or the current folder.
 * On another node, and at the next start, it may differ. `host`: this machine's name. Pure. */
void discover_job_name(char **env, const char *folder, const char *host, struct job_name *ret);

/* How often the scheduler has started this job again, as it counts; 0: never, or it does not count.
 * Pure. */
int discover_restarts(char **env);

/* When the scheduler started this job, in seconds since 1970, by its own clock; 0: it does not say.
 * Pure. */
int64_t discover_job_start(char **env);

/* The socket of the outer pchrun, if this pchrun runs below another; else NULL. The variables may
 * then belong to the outer pchrun. If the socket is missing, the outer pchrun has ended, and this
 * batch script inherited its variables; or the outer one runs outside of this container. */
const char *discover_outer(char **env);
