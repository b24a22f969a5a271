/* SPDX-License-Identifier: Apache-2.0
 * See view.h.
 */
#include "top/view/view.h"

#include "base/str.h"
#include "top/view/columns.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The bars, the line above the table, and its titles. */
enum { FRAME_ROWS = 4 };
/* From so many rows on, a blank line is above the table. */
enum { AIRY_ROWS = 20 };

enum { CTRL_U = 0x15, DELETE = 0x7f, CTRL_H = 0x08, TAB = 0x09 };

static const struct {
    const char *label, *text;
} help[] = {
    {"r, n, e", "the ranks, the nodes, the events of this node; Tab: the next of these"},
    {"s", "sort in another way"},
    {"/",
     "show only what has this text; Enter keeps it, Esc takes it away. A number is that rank or "
     "node, or a part of a host"},
    {"space", "keep this picture; again: go on"},
    {"arrows", "move, as PgUp, PgDn, Home and End"},
    {"?", "this text, and back"},
    {"q", "leave, as Ctrl-C; the job goes on"},
    {" ", ""},
    {"!  red", "the job waits for this rank or node"},
    {"~  yellow", "this rank's own part of a step is slow"},
    {"BEHIND", "how many steps the furthest rank has more"},
    {"AGE", "the time since its last finished step; > means at least"},
    {"OWN", "its own part of a step, without waits for other ranks"},
    {"SLOW", "how many times the median its own part is"},
    {"SAVED", "the last step that it saved"},
    {"HEARD", "the time since node 0 has heard of the node"},
};

/* --- keys --- */

void view_renew(struct view *view)
{
    view->has_gist = view->has_rows = false;
}

static void view_show(struct view *view, enum table table)
{
    view->table = table;
    view->is_helping = false;
    view->has_rows = false;
}

static void view_set_filter(struct view *view, const char *filter)
{
    str_copy(view->filter, sizeof view->filter, filter);
    view->at[view->table] = 0;
    view->has_rows = false;
}

/* Appends a character as UTF-8, if it fits. */
static void filter_add(struct view *view, uint32_t code)
{
    static const unsigned char marks[] = {0, 0xc0, 0xe0, 0xf0};
    char text[VIEW_FILTER_MAX], utf8[5] = {0};
    unsigned more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    utf8[0] = (char)(marks[more] | code >> (6 * more));
    for (unsigned i = 1; i <= more; i++)
        utf8[i] = (char)(0x80 | (code >> (6 * (more - i)) & 0x3f));
    if (snprintf(text, sizeof text, "%s%s", view->filter, utf8) < (int)sizeof text)
        view_set_filter(view, text);
}

/* Takes away the last character. */
static void filter_cut(struct view *view)
{
    char text[VIEW_FILTER_MAX];
    str_copy(text, sizeof text, view->filter);
    size_t len = strlen(text);
    while (len > 0 && ((unsigned char)text[--len] & 0xc0) == 0x80)
        ;
    text[len] = '\0';
    view_set_filter(view, text);
}

static void filter_press(struct view *view, uint32_t key)
{
    if (key == VIEW_KEY_ENTER)
        view->is_typing = false;
    else if (key == VIEW_KEY_BACKSPACE || key == DELETE || key == CTRL_H)
        filter_cut(view);
    else if (key == CTRL_U)
        view_set_filter(view, "");
    else if (key >= ' ' && key < VIEW_KEY_NONE)
        filter_add(view, key);
}

/* By how many rows the key moves; 0: it does not move. */
static int64_t view_rows_of(const struct view *view, uint32_t key)
{
    int page = view->page > 1 ? view->page : 1;
    switch (key) {
    case VIEW_KEY_UP:
        return -1;
    case VIEW_KEY_DOWN:
        return 1;
    case VIEW_KEY_PAGE_UP:
        return -page;
    case VIEW_KEY_PAGE_DOWN:
        return page;
    case VIEW_KEY_HOME:
        return INT32_MIN;
    case VIEW_KEY_END:
        return INT32_MAX;
    default:
        return 0;
    }
}

/* Drawing keeps the place within the table. */
static void view_move(struct view *view, int64_t rows)
{
    int *at = view->is_helping ? &view->help_at : &view->at[view->table];
    int64_t to = *at + rows;
    *at = to < 0 ? 0 : to > INT32_MAX ? INT32_MAX : (int)to;
}

static void view_pause(struct view *view, const struct picture *picture)
{
    view->is_paused = !view->is_paused;
    view->paused_events = picture->events ? picture->events->next : 0;
    view->has_rows = false;
}

static void view_escape(struct view *view)
{
    view->is_typing = false;
    if (view->is_helping)
        view->is_helping = false;
    else if (view->filter[0])
        view_set_filter(view, "");
}

/* False: no letter of a command. */
static bool view_press_letter(struct view *view, const struct picture *picture, uint32_t key)
{
    switch (key) {
    case 'r':
        view_show(view, TABLE_RANKS);
        return true;
    case 'n':
        view_show(view, TABLE_NODES);
        return true;
    case 'e':
        view_show(view, TABLE_EVENTS);
        return true;
    case TAB:
        view_show(view, (view->table + 1) % TABLE__COUNT);
        return true;
    case 's':
        view->order[view->table] = (view->order[view->table] + 1) % rows_orders(view->table);
        view->at[view->table] = 0;
        view->has_rows = false;
        return true;
    case '/':
        view->is_typing = true;
        view->is_helping = false;
        return true;
    case ' ':
        view_pause(view, picture);
        return true;
    case '?':
        view->is_helping = !view->is_helping;
        return true;
    default:
        return false;
    }
}

bool view_press(struct view *view, const struct picture *picture, uint32_t key)
{
    if (key == VIEW_KEY_ESCAPE)
        view_escape(view);
    else if (view_rows_of(view, key) != 0)
        view_move(view, view_rows_of(view, key));
    else if (view->is_typing)
        filter_press(view, key);
    else if (key == 'q' && view->is_helping)
        view->is_helping = false;
    else if (!view_press_letter(view, picture, key))
        return key != 'q';
    return true;
}

/* --- the bars --- */

static const char *view_mood(const struct view *view, const struct picture *picture)
{
    if (picture->end)
        return "ended";
    if (picture->lost_why)
        return "no contact";
    if (view->is_paused)
        return "paused";
    return picture->answer ? "live" : "asking";
}

/* Adds a part of the bar, if it fits as a whole. */
static void bar_add(struct pen *pen, const char *text)
{
    if (pen->col + cells_width(text) <= pen->end)
        pen_add(pen, STYLE_BAR, text);
}

static void bar_add_job(struct pen *pen, const struct json *answer, const struct tally *tally)
{
    char text[64], ranks[TALLY_NUMBER_SIZE];
    int64_t nodes = json_int_at(answer, "report.nnodes", 1);
    int64_t again = json_int_at(answer, "report.generation", 0);
    pen_add(pen, STYLE_BAR, " job ");
    pen_add(pen, STYLE_BAR, json_text_at(answer, "report.job"));
    snprintf(text, sizeof text, ", attempt %" PRId64, json_int_at(answer, "report.attempt", 0));
    bar_add(pen, text);
    snprintf(text, sizeof text, ", %" PRId64 " restart%s in place", again, again > 1 ? "s" : "");
    bar_add(pen, again > 0 ? text : "");
    snprintf(text, sizeof text, ", %" PRId64 " nodes", nodes);
    bar_add(pen, nodes > 1 ? text : "");
    snprintf(text, sizeof text, ", %s rank%s", tally_number(tally->ranks, ranks),
             tally->ranks == 1 ? "" : "s");
    bar_add(pen, text);
}

static void view_draw_bar(const struct view *view, const struct picture *picture,
                          struct cells *cells)
{
    char mood[16];
    struct pen pen = pen_at(cells, 0);
    int end = pen.end;
    pen.end -= snprintf(mood, sizeof mood, " %s ", view_mood(view, picture));
    if (picture->answer)
        bar_add_job(&pen, picture->answer, &view->gist.tally);
    else
        pen_add(&pen, STYLE_BAR, " pchctl top");
    pen_fill(&pen, STYLE_BAR, pen.end);
    pen.end = end;
    pen_add(&pen, STYLE_BAR, mood);
}

/* The keys, as many as fit. */
static void view_draw_keys(const struct view *view, struct cells *cells)
{
    static const char *const keys[] = {" q quit",    "  ? help",   "  r ranks", "  n nodes",
                                       "  e events", "  / filter", "  s sort",  "  space pause"};
    char text[VIEW_FILTER_MAX + 64];
    struct pen pen = pen_at(cells, cells->rows - 1);
    if (view->is_typing) {
        snprintf(text, sizeof text, " show only: %s_   Enter: keep  Esc: show all", view->filter);
        pen_add(&pen, STYLE_BAR, text);
    }
    for (size_t i = 0; i < ARRAY_LEN(keys) && !view->is_typing; i++)
        bar_add(&pen, keys[i]);
    pen_fill(&pen, STYLE_BAR, pen.end);
}

/* --- the table --- */

/* Keeps the place within `n` rows, of which `page` are seen. */
static void view_keep_within(int *at, int n, int page)
{
    int last = n > page ? n - page : 0;
    *at = *at > last ? last : *at;
}

/* "Ranks 1-14 of 1,024, furthest behind first" */
static void view_draw_caption(const struct view *view, struct cells *cells, int row, int page)
{
    static const char *const names[TABLE__COUNT] = {"Ranks", "Nodes", "Events of this node"};
    char text[VIEW_FILTER_MAX + 160], numbers[3][TALLY_NUMBER_SIZE];
    const struct rows *rows = &view->rows;
    struct pen pen = pen_at(cells, row);
    int from = view->at[view->table], to = from + page < rows->n ? from + page : rows->n;
    if (rows->n > page && page > 0)
        snprintf(text, sizeof text, "%s: %s-%s of %s", names[view->table],
                 tally_number(from + 1, numbers[0]), tally_number(to, numbers[1]),
                 tally_number(rows->n, numbers[2]));
    else
        snprintf(text, sizeof text, "%s: %s", names[view->table],
                 tally_number(rows->n, numbers[0]));
    if (view->filter[0])
        str_addf(text, sizeof text, " with \"%s\" (all: %s)", view->filter,
                 tally_number(rows->all, numbers[0]));
    str_addf(text, sizeof text, ", %s", rows_order_name(view->table, view->order[view->table]));
    pen_add(&pen, STYLE_BOLD, text);
}

/* A table without rows says why. */
static const char *view_why_empty(const struct view *view, const struct picture *picture)
{
    if (!picture->answer)
        return "";
    if (view->rows.all > 0)
        return "None has this text; Esc shows all.";
    if (view->table == TABLE_RANKS)
        return "No process has attached.";
    return view->table == TABLE_NODES ? "Only node 0 knows the nodes." : "No event so far.";
}

static void view_draw_table(struct view *view, const struct picture *picture, struct cells *cells,
                            int row)
{
    struct columns columns;
    int page = cells->rows - 1 - (row + 2);
    page = page > 0 ? page : 0;
    int *at = &view->at[view->table];
    view->page = page;
    view_keep_within(at, view->rows.n, page);
    columns_choose(&columns, &view->rows, cells->cols);
    view_draw_caption(view, cells, row, page);
    struct pen pen = pen_at(cells, row + 1);
    columns_write_titles(&columns, &pen);
    for (int i = 0; i < page && *at + i < view->rows.n; i++) {
        pen = pen_at(cells, row + 2 + i);
        columns_write_row(&columns, &view->rows.list[*at + i], &pen);
    }
    pen = pen_at(cells, row + 2);
    if (view->rows.n == 0 && page > 0)
        pen_add(&pen, STYLE_PLAIN, view_why_empty(view, picture));
}

/* --- all --- */

static void view_draw_prose(const struct prose *prose, int from, struct cells *cells, int rows)
{
    for (int i = 0; i < rows && from + i < prose->n; i++) {
        struct pen pen = pen_at(cells, 1 + i);
        pen_add(&pen, prose->list[from + i].style, prose->list[from + i].text);
    }
}

static void view_draw_help(struct view *view, struct cells *cells)
{
    struct prose prose = {.most = PROSE_MAX, .cols = cells->cols};
    for (size_t i = 0; i < ARRAY_LEN(help); i++)
        prose_add(&prose, STYLE_PLAIN, help[i].label, help[i].text, PROSE_MAX);
    view->page = cells->rows > 2 ? cells->rows - 2 : 0;
    view_keep_within(&view->help_at, prose.n, view->page);
    view_draw_prose(&prose, view->help_at, cells, view->page);
}

static bool view_take_rows(struct view *view, const struct picture *picture, struct err *err)
{
    struct rows_wish wish = {.table = view->table,
                             .order = view->order[view->table],
                             .filter = view->filter,
                             .events_next = view->is_paused ? view->paused_events : UINT64_MAX};
    if (!view->has_gist)
        gist_take(picture->answer, &view->gist);
    view->has_gist = true;
    view->has_rows =
        view->has_rows || rows_take(&view->rows, picture, &view->gist.tally, &wish, err);
    return view->has_rows;
}

static void view_draw_job(struct view *view, const struct picture *picture, struct cells *cells)
{
    int left = cells->rows - FRAME_ROWS;
    struct prose head = {.most = left > 1 ? left / 2 : left, .cols = cells->cols};
    head_build(&head, picture, &view->gist);
    view_draw_prose(&head, 0, cells, head.n);
    view_draw_table(view, picture, cells, 1 + head.n + (cells->rows >= AIRY_ROWS));
}

bool view_draw(struct view *view, const struct picture *picture, struct cells *cells,
               struct err *err)
{
    if (!view_take_rows(view, picture, err))
        return false;
    if (view->is_helping)
        view_draw_help(view, cells);
    else
        view_draw_job(view, picture, cells);
    view_draw_bar(view, picture, cells);
    view_draw_keys(view, cells);
    return true;
}

void view_free(struct view *view)
{
    rows_free(&view->rows);
}
