/* SPDX-License-Identifier: Apache-2.0
 *
 * answer: answers the requests of pchctl and pchrun-web: whether a request was accepted, the job's
 * state, its metrics. A request becomes an event of the core. Node 0 answers, on request, with the
 * ranks of all nodes.
 *
 * Writing thousands of ranks takes a while, so it is done in pieces between other events. Clients
 * that ask meanwhile get the same answer. Owns its memory: answer_free(). Main thread.
 */
#pragma once

#include "peers/rankquery.h"
#include "status/journal.h"
#include "status/metrics.h"
#include "status/report.h"
#include "status/status.h"

struct answer_text;
struct control;

struct answer {
    const struct core_params *params;
    char *const *command; /* of the job, for people; ends with NULL */
    struct attach *attach;
    const struct report *report;
    const struct journal *journal;
    const struct metrics *metrics;
    struct cluster *cluster;
    /* private from here on */
    struct control *control; /* NULL: the socket could not be opened */
    struct rankquery call;
    struct answer_text *text; /* the answer of all nodes, while it is written; else NULL */
    bool is_asked;            /* clients wait for `text` */
    struct watch clock;
    int64_t since_ns; /* when this pchrun started, by the wall clock */
};

/* Set all fields above `control` first. */
void answer_open(struct answer *answer);
void answer_free(struct answer *answer);

/* Call after the commands were started, or were refused: from here on pchctl can connect. */
void answer_listen(struct answer *answer);
/* Lines for the clients that follow the events; `ctx` is a struct answer. */
void answer_tell(void *ctx, const char *text, size_t len);
/* The job has ended: answers all waiting clients with what is known. */
void answer_end(struct answer *answer);
