/* SPDX-License-Identifier: Apache-2.0
 * See rows.h.
 */
#include "top/view/rows.h"

#include "base/str.h"
#include "ctl/waits.h"
#include "ctl/words.h"
#include "top/view/cells.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The sort key of a rank or node that comes first, and of one without this value, which is last. */
#define FIRST (-1e15)
#define LAST  1e15

/* --- orders --- */

enum order { ORDER_BEHIND, ORDER_NUMBER, ORDER_AGE, ORDER_OWN, ORDER_PACE, ORDER_HEARD };
enum { ORDERS_MAX = 5 };

static const struct {
    enum order order;
    const char *name;
} orders[TABLE__COUNT][ORDERS_MAX] = {
    [TABLE_RANKS] = {{ORDER_BEHIND, "furthest behind first"},
                     {ORDER_NUMBER, "by rank"},
                     {ORDER_AGE, "longest without a step first"},
                     {ORDER_OWN, "longest own part of a step first"},
                     {ORDER_PACE, "fewest steps/s first"}},
    [TABLE_NODES] = {{ORDER_BEHIND, "furthest behind first"},
                     {ORDER_NUMBER, "by node"},
                     {ORDER_AGE, "longest without a step first"},
                     {ORDER_HEARD, "longest unheard first"}},
    [TABLE_EVENTS] = {{ORDER_NUMBER, "newest first"}, {ORDER_AGE, "oldest first"}},
};

int rows_orders(enum table table)
{
    int n = 0;
    while (n < ORDERS_MAX && orders[table][n].name)
        n++;
    return n;
}

const char *rows_order_name(enum table table, int order)
{
    return orders[table][order].name;
}

/* The largest value first; unknown ones, which are below 0, last. */
static double largest_first(double value)
{
    return value < 0 ? LAST : -value;
}

/* So that ranks that make steps do not change their places all the time; -1: unknown. */
static double whole_seconds(double age)
{
    return age < 0 ? -1 : age < 1e9 ? (double)(int64_t)age : 1e9;
}

/* A rank that is done is behind none. */
static void row_set_keys(struct row *row, enum order order)
{
    bool is_done = json_bool_at(row->item, "done");
    double pace = json_real_at(row->item, "steps_per_second", 0);
    double age = json_real_at(row->item, "step_age", -1);
    switch (order) {
    case ORDER_BEHIND:
        row->first = is_done ? LAST : (double)row->step;
        row->then = row->is_waited ? FIRST - whole_seconds(age) : largest_first(whole_seconds(age));
        break;
    case ORDER_NUMBER:
        break;
    case ORDER_AGE:
        row->first = is_done ? LAST : largest_first(age);
        break;
    case ORDER_OWN:
        row->first = largest_first(json_real_at(row->item, "own_seconds", -1));
        break;
    case ORDER_PACE:
        row->first = is_done || pace <= 0 ? LAST : pace;
        break;
    case ORDER_HEARD:
        row->first = largest_first(json_real_at(row->item, "heard_age", -1));
        break;
    }
}

static int row_compare(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    if (x->then != y->then)
        return x->then < y->then ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

/* --- the filter --- */

/* A number selects the rank or node with this number; and any text that has it in it. */
static bool row_matches(const struct row *row, const char *filter, const char *word)
{
    char number[24];
    snprintf(number, sizeof number, "%" PRId64, row->number);
    return !*filter || (row->item && str_is(number, filter)) || strcasestr(row->host, filter) ||
           strcasestr(word, filter);
}

static void row_set_step(struct row *row, int64_t step, const struct tally *tally)
{
    row->step = step > 0 ? step : 0;
    row->behind = tally->top > row->step ? tally->top - row->step : 0;
}

static void rows_add(struct rows *rows, const struct row *row, const char *filter, const char *word)
{
    rows->all++;
    if (!row_matches(row, filter, word))
        return;
    int width = cells_width(row->host);
    rows->host_width = width > rows->host_width ? width : rows->host_width;
    rows->list[rows->n++] = *row;
}

/* --- the tables --- */

/* Finds the hosts of ranks. Ranks and nodes come in one order, so each search begins at the node
 * of the one before. */
struct hosts {
    const struct json *answer, *node;
};

static const char *hosts_find(struct hosts *hosts, int64_t number)
{
    for (int turn = 0; turn < 2; turn++) {
        for (; hosts->node; hosts->node = json_next(hosts->node))
            if (json_int_at(hosts->node, "node_rank", -1) == number)
                return json_text_at(hosts->node, "host");
        hosts->node = json_items_at(hosts->answer, "nodes");
    }
    return tally_host(hosts->answer, number);
}

static void rows_take_ranks(struct rows *rows, const struct json *answer, const struct tally *tally,
                            const struct rows_wish *wish)
{
    struct hosts hosts = {.answer = answer};
    const struct json *rank = json_items_at(answer, "ranks");
    for (; rank; rank = json_next(rank)) {
        struct row row = {.item = rank,
                          .number = json_int_at(rank, "rank", 0),
                          .host = hosts_find(&hosts, json_int_at(rank, "node_rank", -1)),
                          .is_waited = waits_has_rank(answer, tally, rank)};
        row_set_step(&row, tally_step(rank), tally);
        row_set_keys(&row, orders[TABLE_RANKS][wish->order].order);
        rows_add(rows, &row, wish->filter, words_rank(rank));
    }
}

static void rows_take_nodes(struct rows *rows, const struct json *answer, const struct tally *tally,
                            const struct rows_wish *wish)
{
    const struct json *node = json_items_at(answer, "nodes");
    for (; node; node = json_next(node)) {
        struct row row = {.item = node,
                          .number = json_int_at(node, "node_rank", 0),
                          .host = json_text_at(node, "host"),
                          .is_waited = waits_has_node(answer, node)};
        row_set_step(&row, json_int_at(node, "lowest_step", 0), tally);
        row_set_keys(&row, orders[TABLE_NODES][wish->order].order);
        rows_add(rows, &row, wish->filter, json_text_at(node, "state"));
    }
}

static void rows_take_events(struct rows *rows, const struct events *events,
                             const struct rows_wish *wish)
{
    bool is_newest_first = orders[TABLE_EVENTS][wish->order].order == ORDER_NUMBER;
    for (uint64_t i = events->first; i < events->next && i < wish->events_next; i++) {
        struct row row = {.event = events_at(events, i), .number = (int64_t)i};
        row.first = is_newest_first ? -(double)i : (double)i;
        row.host = row.event->text;
        rows_add(rows, &row, wish->filter, row.event->kind);
    }
}

/* How many rows there may be. */
static int rows_count(const struct picture *picture, enum table table)
{
    int n = 0;
    if (table == TABLE_EVENTS)
        return EVENTS_MAX;
    const struct json *item =
        json_items_at(picture->answer, table == TABLE_RANKS ? "ranks" : "nodes");
    for (; item; item = json_next(item))
        n++;
    return n;
}

static bool rows_make_room(struct rows *rows, int n, struct err *err)
{
    if (n <= rows->cap)
        return true;
    struct row *list = reallocarray(rows->list, (size_t)n, sizeof *list);
    if (!list)
        return err_set(err, ERR_SYSTEM, ENOMEM, "cannot show %d ranks", n);
    rows->list = list;
    rows->cap = n;
    return true;
}

bool rows_take(struct rows *rows, const struct picture *picture, const struct tally *tally,
               const struct rows_wish *wish, struct err *err)
{
    char step[TALLY_NUMBER_SIZE];
    rows->n = rows->all = rows->host_width = 0;
    rows->table = wish->table;
    rows->has_nodes = json_int_at(picture->answer, "report.nnodes", 1) > 1;
    rows->step_width = cells_width(tally_number(tally->top, step));
    if (!rows_make_room(rows, rows_count(picture, wish->table), err))
        return false;
    if (wish->table == TABLE_RANKS)
        rows_take_ranks(rows, picture->answer, tally, wish);
    else if (wish->table == TABLE_NODES)
        rows_take_nodes(rows, picture->answer, tally, wish);
    else if (picture->events)
        rows_take_events(rows, picture->events, wish);
    if (rows->n > 1)
        qsort(rows->list, (size_t)rows->n, sizeof *rows->list, row_compare);
    return true;
}

void rows_free(struct rows *rows)
{
    free(rows->list);
    *rows = (struct rows){0};
}
