/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as what a notice source prints: taken apart into lines, in pieces as long as the first
 * byte says, and each line read. A notice that comes out can be shown, has a deadline within a
 * year, and does not depend on the pieces.
 */
#include "fuzz.h"

#include "base/buf.h"
#include "base/str.h"
#include "notices/noticeline.h"

#include <string.h>

enum { PIECE_MAX = 256 };

static void must_be_shown(const char *text, size_t size)
{
    FUZZ_MUST(memchr(text, '\0', size));
    for (const char *p = text; *p; p += str_utf8_len(p))
        FUZZ_MUST(str_utf8_len(p) > 0 && (unsigned char)*p >= 0x20 && *p != 0x7f);
}

static uint64_t add(uint64_t sum, const void *data, size_t size)
{
    const unsigned char *p = data;
    while (size--)
        sum = sum * 31 + *p++;
    return sum;
}

static uint64_t read_one(const char *line, size_t len, bool is_poll)
{
    struct noticeline_reader reader = {"fuzz", INT64_C(1795262400000000000), is_poll};
    struct notice notice;
    struct err err;
    enum noticeline_result result = noticeline_read(&reader, line, len, &notice, &err);
    FUZZ_MUST(result == NOTICELINE_OK || err.text[0]);
    FUZZ_MUST(strlen(err.text) < sizeof err.text || result == NOTICELINE_OK);
    if (result == NOTICELINE_BAD)
        return 1;
    FUZZ_MUST(notice.type < NOTICE__COUNT && str_is(notice.source, "fuzz"));
    must_be_shown(notice.id, sizeof notice.id);
    must_be_shown(notice.text, sizeof notice.text);
    FUZZ_MUST(notice.left_ns == NOTICE_LEFT_UNKNOWN ||
              (notice.left_ns >= 0 && notice.left_ns <= NOTICELINE_LEFT_MAX_NS));
    return add(notice.type + 2, notice.id, strlen(notice.id));
}

/* A hash of all results. */
static uint64_t read_all(const uint8_t *data, size_t size, size_t piece)
{
    struct lines lines;
    char *line;
    size_t len;
    uint64_t sum = 0;
    enum lines_result result;
    lines_init(&lines, NOTICELINE_MAX, PIECE_MAX);
    for (size_t at = 0; at < size; at += piece) {
        FUZZ_MUST(lines_add(&lines, data + at, size - at < piece ? size - at : piece));
        while ((result = lines_next(&lines, &line, &len)) != LINES_NONE)
            sum = sum * 31 + (result == LINES_ONE ? read_one(line, len, false) : 7);
    }
    while ((result = lines_last(&lines, &line, &len)) != LINES_NONE)
        sum = sum * 31 + (result == LINES_ONE ? read_one(line, len, true) : 7);
    lines_free(&lines);
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    uint64_t whole = read_all(data + 1, size - 1, PIECE_MAX);
    FUZZ_MUST(read_all(data + 1, size - 1, 1 + data[0] % PIECE_MAX) == whole);
    return 0;
}
