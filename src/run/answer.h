/* SPDX-License-Identifier: Apache-2.0
 *
 * answer: what pchctl is told: whether its request was taken, and how the job stands; from node 0,
 * if it asks for that, with the ranks of all nodes.
 *
 * Thousands of ranks take a while to write down. It is done in pieces, between which the loop turns
 * to what matters; who asks meanwhile gets the same answer. Owns its memory: answer_free(). Main
 * thread.
 */
#ifndef PCHRUN_RUN_ANSWER_H
#define PCHRUN_RUN_ANSWER_H

#include "run/journal.h"
#include "run/rollcall.h"
#include "run/status.h"
#include "wire/control.h"

struct answer_text;
struct control;
struct control_client;

struct answer {
    const struct core_params *params;
    const char *chief; /* where node 0 is, for people; NULL: there is one node */
    const struct attach *attach;
    const struct report *report;
    const struct journal *journal;
    struct pace *pace;
    struct cluster *cluster;
    struct control *control;
    /* the rest is its own */
    struct rollcall call;
    struct answer_text *text;              /* that of all nodes; NULL: none is being written */
    uint64_t waiting[CONTROL_CLIENTS_MAX]; /* for that; numbers of clients */
    int n;
    struct watch clock;
};

/* Set all above `call` before; `control` may come later. */
MUST_CHECK bool answer_open(struct answer *answer, struct event_base *base, struct err *err);
void answer_free(struct answer *answer);

/* Tells it of this node; `bad`: why its request is refused, NULL: it is not; `was`: how the job
 * stood before the request. */
void answer_client(struct answer *answer, struct control_client *client, const struct err *bad,
                   const struct core_report *was);
/* Tells it of all nodes, in a while. */
void answer_of_all(struct answer *answer, struct control_client *client,
                   const struct core_report *was);
/* LOOK or RANKS has come. */
void answer_peer(struct answer *answer, int conn, const struct peermsg *msg);
/* The job has ended: who waits is told what is known. */
void answer_end(struct answer *answer);

#endif
