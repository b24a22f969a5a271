/* SPDX-License-Identifier: Apache-2.0
 *
 * cells: the screen as a grid of characters, each with a style. Texts of hosts and programs are not
 * trusted: no control character gets into a cell, and no character without a width. Characters
 * count as the locale (LC_CTYPE) says. Owns its memory. One thread at a time.
 */
#pragma once

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

enum style {
    STYLE_PLAIN,
    STYLE_BOLD,
    STYLE_DIM,
    STYLE_BAR,   /* the first and the last line */
    STYLE_TITLE, /* above a table */
    STYLE_GOOD,
    STYLE_WARN,
    STYLE_BAD,
    STYLE__COUNT
};

struct cell {
    wchar_t ch; /* 0: the right half of the wide character before it */
    enum style style;
};

struct cells {
    int rows, cols;
    struct cell *at; /* rows * cols of them */
};

/* Makes all cells blank, with this size; each number at least 1. False: no memory. */
MUST_CHECK bool cells_reset(struct cells *cells, int rows, int cols, struct err *err);
void cells_free(struct cells *cells);
/* The cell in this place, which must be within the screen. */
struct cell *cells_at(const struct cells *cells, int row, int col);

/* Writes from left to right, and drops what is beyond `end`. */
struct pen {
    struct cells *cells;
    int row, col, end;
};

/* A row outside of the screen has no cells, so the pen writes nothing. */
struct pen pen_at(struct cells *cells, int row);
/* Writes a text in UTF-8. Invalid bytes, control characters and characters that the locale lacks
 * become '?'; characters without a width are left out. */
void pen_add(struct pen *pen, enum style style, const char *text);
/* Blanks up to this column. */
void pen_fill(struct pen *pen, enum style style, int col);

/* The columns of a text, as pen_add() writes it. */
int cells_width(const char *text);
/* How many bytes of a text fit into so many columns. */
size_t cells_fitting(const char *text, int cols);
