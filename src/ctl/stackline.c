/* SPDX-License-Identifier: Apache-2.0
 * See stackline.h. The file has a line "  rank 3: train.py:88 in backward", and behind the stacks
 * one that begins with "rank 3, process 12 (python3): ", and has ", at step 41 for ".
 */
#include "ctl/stackline.h"

#include "base/str.h"
#include "ctl/ctl.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The file of another node is beside that of the node that has answered. False: there is none. */
static bool stackline_path(const struct json *answer, int64_t node, char path[PATH_MAX])
{
    const char *own = json_text_at(answer, "report.evidence"), *slash = strrchr(own, '/');
    return slash &&
           snprintf(path, PATH_MAX, "%.*s/hang.%" PRId64 ".%" PRId64 ".txt", (int)(slash - own),
                    own, node, json_int_at(answer, "report.generation", 0)) < PATH_MAX;
}

/* True if the line is of this rank, and names its step. */
static bool stackline_step(const char *line, const char *head, int64_t *ret)
{
    const char *at = str_starts(line, head) ? strstr(line, ", at step ") : NULL;
    char digits[24] = "";
    return at && sscanf(at, ", at step %20[0-9]", digits) == 1 &&
           str_to_i64(digits, 0, INT64_MAX, ret);
}

bool stackline_find(const struct json *answer, const struct wait *wait, char *ret, size_t size)
{
    char path[PATH_MAX], head[40], place[40], *line = NULL;
    size_t room = 0;
    int64_t stood_at = -1;
    FILE *file =
        wait->rank >= 0 && stackline_path(answer, wait->node, path) ? openfile_text(path) : NULL;
    if (!file)
        return false;
    ret[0] = '\0';
    snprintf(place, sizeof place, "  rank %" PRId64 ": ", wait->rank);
    snprintf(head, sizeof head, "rank %" PRId64 ", process ", wait->rank);
    while (stood_at < 0 && getline(&line, &room, file) > 0)
        if (str_starts(line, place))
            str_copy(ret, size, str_printable(str_one_line(line + strlen(place))));
        else if (!stackline_step(line, head, &stood_at))
            stood_at = -1;
    free(line);
    fclose(file);
    return ret[0] && stood_at == wait->step;
}
