/* SPDX-License-Identifier: Apache-2.0
 * See cells.h.
 */
#include "top/view/cells.h"

#include "base/str.h"

#include <errno.h>
#include <stdlib.h>

/* --- characters --- */

/* The next character of a text, and its columns. Returns its bytes; 0: the text ends. */
static unsigned glyph_next(const char *text, wchar_t *ret, int *ret_width)
{
    if (!*text)
        return 0;
    unsigned len = str_utf8_len(text);
    uint32_t code = len > 0 ? str_utf8_code(text, len) : 0;
    int width = str_is_control(code) ? -1 : wcwidth((wchar_t)code);
    *ret = width < 0 ? L'?' : (wchar_t)code;
    *ret_width = width < 0 ? 1 : width;
    return len > 0 ? len : 1;
}

int cells_width(const char *text)
{
    int cols = 0, width;
    wchar_t code;
    for (unsigned n; (n = glyph_next(text, &code, &width)) > 0; text += n)
        cols += width;
    return cols;
}

size_t cells_fitting(const char *text, int cols)
{
    const char *at = text;
    int width;
    wchar_t code;
    for (unsigned n; (n = glyph_next(at, &code, &width)) > 0 && width <= cols; at += n)
        cols -= width;
    return (size_t)(at - text);
}

/* --- the grid --- */

bool cells_reset(struct cells *cells, int rows, int cols, struct err *err)
{
    size_t n = (size_t)rows * (size_t)cols;
    if (rows != cells->rows || cols != cells->cols) {
        struct cell *at = reallocarray(cells->at, n, sizeof *at);
        if (!at)
            return err_set(err, ERR_SYSTEM, ENOMEM, "cannot draw a screen of %d lines", rows);
        *cells = (struct cells){.rows = rows, .cols = cols, .at = at};
    }
    for (size_t i = 0; i < n; i++)
        cells->at[i] = (struct cell){.ch = L' '};
    return true;
}

void cells_free(struct cells *cells)
{
    free(cells->at);
    *cells = (struct cells){0};
}

struct cell *cells_at(const struct cells *cells, int row, int col)
{
    return &cells->at[(size_t)row * (size_t)cells->cols + (size_t)col];
}

/* --- the pen --- */

struct pen pen_at(struct cells *cells, int row)
{
    bool is_on = row >= 0 && row < cells->rows;
    return (struct pen){.cells = cells, .row = row, .end = is_on ? cells->cols : 0};
}

static void pen_put(struct pen *pen, enum style style, wchar_t ch)
{
    *cells_at(pen->cells, pen->row, pen->col++) = (struct cell){.ch = ch, .style = style};
}

void pen_add(struct pen *pen, enum style style, const char *text)
{
    int width;
    wchar_t code;
    for (unsigned n; (n = glyph_next(text, &code, &width)) > 0; text += n) {
        if (pen->col + width > pen->end)
            return;
        if (width > 0)
            pen_put(pen, style, code);
        if (width > 1)
            pen_put(pen, style, 0);
    }
}

void pen_fill(struct pen *pen, enum style style, int col)
{
    while (pen->col < col && pen->col < pen->end)
        pen_put(pen, style, L' ');
}
