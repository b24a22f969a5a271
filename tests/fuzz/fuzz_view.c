/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as what `pchctl top` gets: a line with two bytes for the size of the screen and then
 * the keys, then the answer of a supervisor, which also stands for an event. Every cell of the
 * screen is one that a terminal prints.
 */
#include "fuzz.h"

#include "base/str.h"
#include "top/view/view.h"

#include <locale.h>
#include <string.h>
#include <wctype.h>

enum { ROWS_MAX = 70, COLS_MAX = 250 };

static void check_cells(const struct cells *cells)
{
    for (int row = 0; row < cells->rows; row++)
        for (int col = 0; col < cells->cols; col++) {
            wchar_t ch = cells_at(cells, row, col)->ch;
            FUZZ_MUST(ch == 0 ? col > 0 : iswprint((wint_t)ch));
        }
}

static void draw(struct view *view, const struct picture *picture, struct cells *cells)
{
    struct err err;
    FUZZ_MUST(view_draw(view, picture, cells, &err));
    check_cells(cells);
}

/* A byte from 0x80 on is a key that is no character. */
static void press(struct view *view, const struct picture *picture, uint8_t key)
{
    uint32_t special = VIEW_KEY_NONE + key % (VIEW_KEY_BACKSPACE - VIEW_KEY_NONE + 1);
    if (!view_press(view, picture, key < 0x80 ? key : special))
        view_renew(view);
}

static void use(const struct json *answer, const uint8_t *line, size_t len)
{
    static struct events events;
    struct err err;
    struct view view = {0};
    struct cells cells = {0};
    struct picture picture = {.answer = answer, .events = &events};
    int rows = len > 0 ? line[0] % ROWS_MAX + 1 : 24, cols = len > 1 ? line[1] % COLS_MAX + 1 : 80;
    events_take(&events, answer);
    for (size_t i = 1; i < len; i++) {
        FUZZ_MUST(cells_reset(&cells, rows, cols, &err));
        draw(&view, &picture, &cells);
        press(&view, &picture, line[i]);
    }
    picture.lost_why = picture.end = json_text_at(answer, "report.why");
    view_renew(&view);
    FUZZ_MUST(cells_reset(&cells, rows, cols, &err));
    draw(&view, &picture, &cells);
    view_free(&view);
    cells_free(&cells);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err;
    const uint8_t *end = memchr(data, '\n', size);
    if (!end || !setlocale(LC_CTYPE, "C.UTF-8"))
        return 0;
    size_t len = (size_t)(end - data);
    JSON_CLEANUP struct json *answer = json_read("answer", end + 1, size - len - 1, &err);
    if (answer)
        use(answer, data, len < 64 ? len : 64);
    return 0;
}
