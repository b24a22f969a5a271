/* SPDX-License-Identifier: Apache-2.0
 * See columns.h.
 */
#include "top/view/columns.h"

#include "base/str.h"
#include "ctl/figures.h"
#include "ctl/words.h"

#include <inttypes.h>
#include <stdio.h>

enum { TEXT_MAX = 320 };

/* Widths that depend on the job: of its steps, its hosts, and what is left of the line. */
enum { WIDE_STEP = -1, WIDE_HOST = -2, WIDE_REST = -3 };
/* The least width of a host, and of the rest. */
enum { HOST_LEAST = 4, HOST_MOST = 40, REST_LEAST = 14, STEP_LEAST = 7 };

struct column {
    const char *title;
    int width;
    int turn; /* columns with a lower number get their place first */
    bool is_right;
    void (*write)(const struct row *row, char text[TEXT_MAX]);
    bool is_of_nodes; /* only in a job of several nodes */
};

/* --- texts --- */

static void write_count(int64_t number, char text[TEXT_MAX])
{
    if (number < 0)
        str_copy(text, TEXT_MAX, "-");
    else
        tally_number(number, text);
}

/* Tenths of a second: more would only flicker. */
static void write_age(double seconds, bool is_least, char text[TEXT_MAX])
{
    figures_seconds(seconds < 1e9 ? (double)(int64_t)(seconds * 10) / 10 : -1, is_least, text);
}

/* '!' also without colours: the job waits for this one. '~': it is slow. */
static void column_mark(const struct row *row, char text[TEXT_MAX])
{
    bool is_slow = json_real_at(row->item, "slow", 0) > 0;
    str_copy(text, TEXT_MAX, row->is_waited ? "!" : is_slow ? "~" : "");
}

static void column_number(const struct row *row, char text[TEXT_MAX])
{
    snprintf(text, TEXT_MAX, "%" PRId64, row->number);
}

static void column_node(const struct row *row, char text[TEXT_MAX])
{
    snprintf(text, TEXT_MAX, "%" PRId64, json_int_at(row->item, "node_rank", -1));
}

static void column_local(const struct row *row, char text[TEXT_MAX])
{
    snprintf(text, TEXT_MAX, "%" PRId64, json_int_at(row->item, "local_rank", -1));
}

static void column_pid(const struct row *row, char text[TEXT_MAX])
{
    snprintf(text, TEXT_MAX, "%" PRId64, json_int_at(row->item, "pid", 0));
}

static void column_host(const struct row *row, char text[TEXT_MAX])
{
    str_copy(text, TEXT_MAX, *row->host ? row->host : "-");
}

static void column_phase(const struct row *row, char text[TEXT_MAX])
{
    str_copy(text, TEXT_MAX, words_rank(row->item));
}

static void column_state(const struct row *row, char text[TEXT_MAX])
{
    str_copy(text, TEXT_MAX, json_text_at(row->item, "state"));
}

static void column_step(const struct row *row, char text[TEXT_MAX])
{
    write_count(row->step, text);
}

static void column_behind(const struct row *row, char text[TEXT_MAX])
{
    write_count(row->behind, text);
}

static void column_saved(const struct row *row, char text[TEXT_MAX])
{
    bool counts = json_bool_at(row->item, "counts_only");
    write_count(counts ? -1 : json_int_at(row->item, "saved_step", -1), text);
}

static void column_pace(const struct row *row, char text[TEXT_MAX])
{
    figures_pace(json_real_at(row->item, "steps_per_second", 0), text);
}

static void column_age(const struct row *row, char text[TEXT_MAX])
{
    write_age(json_real_at(row->item, "step_age", -1), json_bool_at(row->item, "step_age_is_least"),
              text);
}

static void column_own(const struct row *row, char text[TEXT_MAX])
{
    figures_seconds(json_real_at(row->item, "own_seconds", -1), false, text);
}

static void column_slow(const struct row *row, char text[TEXT_MAX])
{
    double slow = json_real_at(row->item, "slow", 0);
    if (slow > 0)
        snprintf(text, TEXT_MAX, "%.3g x", slow);
    else
        str_copy(text, TEXT_MAX, "-");
}

static void column_heard(const struct row *row, char text[TEXT_MAX])
{
    write_age(json_real_at(row->item, "heard_age", -1), false, text);
}

static void column_ranks(const struct row *row, char text[TEXT_MAX])
{
    figures_ranks(row->item, text);
}

static void column_note(const struct row *row, char text[TEXT_MAX])
{
    const char *why = json_text_at(row->item, "why");
    bool is_missing = json_is_at(row->item, "state", "missing");
    str_copy(text, TEXT_MAX, json_bool_at(row->item, "notice") ? "has a notice" : "");
    if (row->is_waited && !is_missing)
        str_addf(text, TEXT_MAX, "%sno connection", *text ? ", " : "");
    if (*why)
        str_addf(text, TEXT_MAX, "%s%s", *text ? ": " : "", why);
}

static void column_time(const struct row *row, char text[TEXT_MAX])
{
    str_copy(text, TEXT_MAX, row->event->time);
}

static void column_kind(const struct row *row, char text[TEXT_MAX])
{
    str_copy(text, TEXT_MAX, row->event->kind);
}

static void column_text(const struct row *row, char text[TEXT_MAX])
{
    str_copy(text, TEXT_MAX, row->event->text);
}

/* --- the tables --- */

static const struct column columns_of[TABLE__COUNT][COLUMNS_MAX] =
    {
        [TABLE_RANKS] =
            {
                {"", 1, 0, false, column_mark, false},
                {"RANK", 5, 0, true, column_number, false},
                {"NODE", 4, 7, true, column_node, true},
                {"LOCAL", 5, 10, true, column_local, true},
                {"HOST", WIDE_HOST, 2, false, column_host, true},
                {"PHASE", 12, 1, false, column_phase, false},
                {"STEP", WIDE_STEP, 0, true, column_step, false},
                {"BEHIND", WIDE_STEP, 4, true, column_behind, false},
                {"AGE", 8, 3, true, column_age, false},
                {"STEPS/S", 7, 5, true, column_pace, false},
                {"OWN", 8, 8, true, column_own, false},
                {"SLOW", 6, 9, true, column_slow, false},
                {"SAVED", WIDE_STEP, 6, true, column_saved, false},
                {"PID", 8, 11, true, column_pid, false},
            },
        [TABLE_NODES] =
            {
                {"", 1, 0, false, column_mark, false},
                {"NODE", 5, 0, true, column_number, false},
                {"HOST", WIDE_HOST, 1, false, column_host, false},
                {"STATE", 9, 2, false, column_state, false},
                {"RANKS", 9, 4, true, column_ranks, false},
                {"STEP", WIDE_STEP, 3, true, column_step, false},
                {"BEHIND", WIDE_STEP, 6, true, column_behind, false},
                {"AGE", 8, 8, true, column_age, false},
                {"STEPS/S", 7, 9, true, column_pace, false},
                {"HEARD", 8, 7, true, column_heard, false},
                {"", WIDE_REST, 5, false, column_note, false},
            },
        [TABLE_EVENTS] =
            {
                {"UTC", 8, 1, false, column_time, false},
                {"EVENT", 13, 0, false, column_kind, false},
                {"", WIDE_REST, 2, false, column_text, false},
            },
};

/* --- widths --- */

static int clamp(int number, int least, int most)
{
    return number < least ? least : number > most ? most : number;
}

static int least_width(const struct column *column, const struct rows *rows, int cols)
{
    switch (column->width) {
    case WIDE_STEP:
        return rows->step_width > STEP_LEAST ? rows->step_width : STEP_LEAST;
    case WIDE_HOST: /* a quarter of the line, if it is needed */
        return clamp(rows->host_width, HOST_LEAST, cols / 4 > HOST_LEAST ? cols / 4 : HOST_LEAST);
    case WIDE_REST:
        return REST_LEAST;
    default:
        return column->width;
    }
}

/* Gives what is left to the hosts, then to the rest. */
static void columns_widen(struct columns *columns, int host_width, int left)
{
    const struct column *all = columns_of[columns->table];
    for (int i = 0; i < COLUMNS_MAX && all[i].title; i++) {
        bool is_host = all[i].width == WIDE_HOST && columns->width[i] > 0;
        int wanted = host_width < HOST_MOST ? host_width : HOST_MOST;
        int more = is_host && wanted > columns->width[i] ? wanted - columns->width[i] : 0;
        more = more < left ? more : left;
        columns->width[i] += more;
        left -= more;
    }
    for (int i = 0; i < COLUMNS_MAX && all[i].title; i++)
        if (all[i].width == WIDE_REST && columns->width[i] > 0)
            columns->width[i] += left;
}

void columns_choose(struct columns *columns, const struct rows *rows, int cols)
{
    const struct column *all = columns_of[rows->table];
    int left = cols + 1; /* no space is needed behind the last column */
    bool is_full = false;
    *columns = (struct columns){.table = rows->table};
    for (int turn = 0; turn < COLUMNS_MAX; turn++)
        for (int i = 0; i < COLUMNS_MAX && all[i].title; i++) {
            int width = least_width(&all[i], rows, cols) + 1;
            if (all[i].turn != turn || (all[i].is_of_nodes && !rows->has_nodes))
                continue;
            /* No less important column takes the place of one that does not fit. */
            is_full = is_full || width > left;
            columns->width[i] = is_full ? 0 : width - 1;
            left -= is_full ? 0 : width;
        }
    columns_widen(columns, rows->host_width, left);
}

/* --- lines --- */

static void column_put(struct pen *pen, enum style style, const char *text, int width,
                       bool is_right)
{
    int end = pen->end, from = pen->col, pad = width - cells_width(text);
    pen->end = from + width < end ? from + width : end;
    if (is_right)
        pen_fill(pen, style, from + pad);
    pen_add(pen, style, text);
    pen_fill(pen, style, from + width);
    pen->end = end;
    pen_fill(pen, style, from + width + 1);
}

void columns_write_titles(const struct columns *columns, struct pen *pen)
{
    const struct column *all = columns_of[columns->table];
    for (int i = 0; i < COLUMNS_MAX && all[i].title; i++)
        if (columns->width[i] > 0)
            column_put(pen, STYLE_TITLE, all[i].title, columns->width[i], all[i].is_right);
    pen_fill(pen, STYLE_TITLE, pen->end);
}

static enum style row_style(const struct row *row)
{
    static const char *const lost[] = {"gone", "failed", "lost", NULL};
    if (row->event)
        return events_is_bad(row->event)               ? STYLE_BAD
               : str_is(row->event->kind, "committed") ? STYLE_GOOD
                                                       : STYLE_PLAIN;
    if (row->is_waited || str_is_one_of(json_text_at(row->item, "state"), lost))
        return STYLE_BAD;
    if (json_bool_at(row->item, "done"))
        return STYLE_DIM;
    return json_real_at(row->item, "slow", 0) > 0 || json_bool_at(row->item, "notice")
               ? STYLE_WARN
               : STYLE_PLAIN;
}

void columns_write_row(const struct columns *columns, const struct row *row, struct pen *pen)
{
    char text[TEXT_MAX];
    const struct column *all = columns_of[columns->table];
    enum style style = row_style(row);
    for (int i = 0; i < COLUMNS_MAX && all[i].title; i++) {
        if (columns->width[i] == 0)
            continue;
        text[0] = '\0';
        all[i].write(row, text);
        column_put(pen, style, text, columns->width[i], all[i].is_right);
    }
}
