/* SPDX-License-Identifier: Apache-2.0
 *
 * answer: answers pchctl: whether its request was accepted, and how the job stands. Node 0 answers,
 * on request, with the ranks of all nodes.
 *
 * Writing thousands of ranks takes a while, so it is done in pieces between other events. Clients
 * that ask meanwhile get the same answer. Owns its memory: answer_free(). Main thread.
 */
#ifndef PCHRUN_STATUS_ANSWER_H
#define PCHRUN_STATUS_ANSWER_H

#include "peers/rankquery.h"
#include "status/journal.h"
#include "status/status.h"
#include "wire/control.h"

struct answer_text;
struct control;
struct control_client;

struct answer {
    const struct core_params *params;
    const char *chief; /* the address of node 0, for people; NULL: there is one node */
    const struct attach *attach;
    const struct report *report;
    const struct journal *journal;
    struct steprate *steprate;
    struct cluster *cluster;
    struct control *control;
    /* private from here on */
    struct rankquery call;
    struct answer_text *text; /* the answer of all nodes, while it is written; else NULL */
    bool is_asked;            /* clients wait for `text` */
    struct watch clock;
};

/* Set all fields above `call` first; `control` may be set later. */
MUST_CHECK bool answer_open(struct answer *answer, struct event_base *base, struct err *err);
void answer_free(struct answer *answer);

/* Answers with this node. `bad`: why the request is refused; NULL: it is accepted. `was`: how the
 * job stood before the request. */
void answer_client(struct answer *answer, struct control_client *client, const struct err *bad,
                   const struct core_report *was);
/* Answers with all nodes, later. */
void answer_of_all(struct answer *answer, struct control_client *client,
                   const struct core_report *was);
/* A LOOK or RANKS message has arrived. */
void answer_peer(struct answer *answer, int conn, const struct peermsg *msg);
/* The job has ended: answers all waiting clients with what is known. */
void answer_end(struct answer *answer);

#endif
