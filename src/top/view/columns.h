/* SPDX-License-Identifier: Apache-2.0
 *
 * columns: which columns of a table fit into a line, and how its lines are written. The less
 * important columns are left out first. Pure; any thread.
 */
#pragma once

#include "top/view/cells.h"
#include "top/view/rows.h"

enum { COLUMNS_MAX = 16 };

struct columns {
    enum table table;
    int width[COLUMNS_MAX]; /* 0: the column is left out */
};

/* Chooses the columns of these rows for a line of `cols` characters. */
void columns_choose(struct columns *columns, const struct rows *rows, int cols);
void columns_write_titles(const struct columns *columns, struct pen *pen);
void columns_write_row(const struct columns *columns, const struct row *row, struct pen *pen);
