/* SPDX-License-Identifier: Apache-2.0
 *
 * rows: the ranks, the nodes or the events of a picture, filtered and sorted. Rows point into the
 * picture. Owns its memory. One thread at a time.
 */
#pragma once

#include "ctl/tally.h"
#include "top/view/events.h"
#include "json/json.h"

enum table { TABLE_RANKS, TABLE_NODES, TABLE_EVENTS, TABLE__COUNT };

/* The known facts about the job. Any may be missing. */
struct picture {
    const struct json *answer; /* to CONTROL_STATUS; NULL: none has come */
    int64_t age_ns;            /* of the answer */
    const struct events *events;
    const struct json *failed; /* the event with the first failure; NULL: none has come */
    const char *lost_why;      /* there is no contact with pchrun; NULL: there is */
    int64_t lost_ns;           /* for so long */
    const char *end;           /* how the job ended, as a sentence; NULL: it runs */
};

struct row {
    const struct json *item;        /* a rank or a node */
    const struct event_line *event; /* an event */
    const char *host;
    double first, then; /* sorted by these, the lowest first; then by the number */
    int64_t number;     /* of the rank, node or event */
    int64_t step,
        behind;     /* finished steps, of a node the fewest; and how many the first has more */
    bool is_waited; /* the job waits for this rank or node */
};

struct rows {
    struct row *list; /* `n` of them */
    int n, cap;
    int all; /* without the filter */
    enum table table;
    int host_width, step_width; /* columns of the longest host, and of the highest step */
    bool has_nodes;             /* the job has several */
};

struct rows_wish {
    enum table table;
    int order;            /* below rows_orders() */
    const char *filter;   /* "": none */
    uint64_t events_next; /* later events are not shown */
};

int rows_orders(enum table table);
/* "who is behind first": for people. */
const char *rows_order_name(enum table table, int order);
/* False: no memory; there are no rows then. The rows are valid as long as the picture. `tally`: of
 * its answer. */
MUST_CHECK bool rows_take(struct rows *rows, const struct picture *picture,
                          const struct tally *tally, const struct rows_wish *wish, struct err *err);
void rows_free(struct rows *rows);
