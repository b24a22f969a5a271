/* SPDX-License-Identifier: Apache-2.0
 * See figures.h.
 */
#include "ctl/figures.h"

#include "base/str.h"

#include <inttypes.h>
#include <stdio.h>

char *figures_seconds(double seconds, bool is_least, char text[FIGURES_SIZE])
{
    char about[24];
    if (seconds < 0 || seconds > 1e9)
        str_copy(text, FIGURES_SIZE, "-");
    else
        snprintf(text, FIGURES_SIZE, "%s%s", is_least ? ">" : "",
                 str_about((int64_t)(seconds * 1e9), about, sizeof about));
    return text;
}

char *figures_pace(double pace, char text[FIGURES_SIZE])
{
    if (pace > 0)
        snprintf(text, FIGURES_SIZE, "%.3g", pace);
    else
        str_copy(text, FIGURES_SIZE, "-");
    return text;
}

char *figures_ranks(const struct json *node, char text[FIGURES_SIZE])
{
    int64_t attached = json_int_at(node, "ranks_attached", 0);
    int64_t expected = json_int_at(node, "ranks_expected", -1);
    if (expected < 0)
        snprintf(text, FIGURES_SIZE, "%" PRId64 "/?", attached);
    else
        snprintf(text, FIGURES_SIZE, "%" PRId64 "/%" PRId64, attached, expected);
    return text;
}
