/* SPDX-License-Identifier: Apache-2.0
 * See prose.h.
 */
#include "top/view/prose.h"

#include "base/str.h"

#include <stdio.h>
#include <string.h>

/* Columns of a label; a narrow screen has no such column. */
enum { LABEL_WIDTH = 10, LABEL_FROM_COLS = 60 };

/* The bytes of the next line: to the last blank that fits, or to the end of the line. */
static size_t prose_break(const char *text, int cols)
{
    size_t fits = cells_fitting(text, cols), n = fits;
    if (!text[fits])
        return fits;
    while (n > 0 && text[n] != ' ')
        n--;
    return n > 0 ? n : fits > 0 ? fits : 1;
}

static void prose_add_line(struct prose *prose, enum style style, const char *label,
                           const char *text, size_t len)
{
    struct prose_line *line = &prose->list[prose->n++];
    line->style = style;
    snprintf(line->text, sizeof line->text, "%s%.*s", label, (int)len, text);
}

static bool prose_has_room(const struct prose *prose)
{
    return prose->n < prose->most && prose->n < PROSE_MAX;
}

void prose_add(struct prose *prose, enum style style, const char *label, const char *text, int most)
{
    char first[LABEL_WIDTH + 1];
    const char *indent = "";
    int cols = prose->cols;
    if (*label && cols >= LABEL_FROM_COLS) {
        snprintf(first, sizeof first, "%-*s", LABEL_WIDTH, label);
        indent = "          ";
        cols -= LABEL_WIDTH;
    } else {
        snprintf(first, sizeof first, "%s%s", label, *label ? " " : "");
        cols -= (int)strlen(first);
    }
    for (int i = 0; i < most && prose_has_room(prose) && (i == 0 || *text); i++) {
        size_t fits = cells_fitting(text, cols);
        bool is_cut = text[fits] && i == most - 1;
        size_t n = is_cut ? cells_fitting(text, cols - 3) : prose_break(text, cols);
        prose_add_line(prose, style, i == 0 ? first : indent, text, n);
        if (is_cut)
            str_addf(prose->list[prose->n - 1].text, PROSE_TEXT_MAX, "...");
        text += n + (text[n] == ' ');
        cols = *indent ? cols : prose->cols;
    }
}
