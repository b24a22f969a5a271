/* SPDX-License-Identifier: Apache-2.0
 *
 * prose: texts, broken into the lines of a screen. Pure; any thread.
 */
#pragma once

#include "top/view/cells.h"

enum { PROSE_MAX = 64, PROSE_TEXT_MAX = 1024 };

struct prose {
    struct prose_line {
        enum style style;
        char text[PROSE_TEXT_MAX];
    } list[PROSE_MAX];
    int n;
    int most; /* lines that there is room for */
    int cols; /* of a line */
};

/* Adds a text in at most `most` lines, which it breaks at blanks. The label is before the first
 * line, and the others are indented by its width; "": there is none. */
void prose_add(struct prose *prose, enum style style, const char *label, const char *text,
               int most);
