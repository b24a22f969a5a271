/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as what pchrun-web gets: three lines with the headers Host, Authorization and
 * Last-Event-ID of a browser, then the answer of a supervisor. A name of another machine and a
 * wrong token are refused, the next line is one that is kept, and both texts for the page are JSON
 * on one line.
 */
#include "fuzz.h"

#include "base/str.h"
#include "web/guard.h"
#include "web/kept.h"
#include "web/picture.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define TOKEN "0123456789abcdef"

enum { LINE_MAX_BYTES = 256, KEPT_LINES = 3 };

/* Cuts the next line off; a longer one is cut. */
static void take_line(const uint8_t **data, size_t *size, char line[LINE_MAX_BYTES])
{
    const uint8_t *end = memchr(*data, '\n', *size);
    size_t len = end ? (size_t)(end - *data) : *size;
    size_t kept = len < LINE_MAX_BYTES - 1 ? len : LINE_MAX_BYTES - 1;
    memcpy(line, *data, kept);
    line[kept] = '\0';
    *data += len + (end != NULL);
    *size -= len + (end != NULL);
}

static void check_headers(const char *host, const char *token)
{
    struct guard guard = {.listen = {.host = "127.0.0.1", .port = 8042}, .token = TOKEN};
    struct address asked;
    if (guard_knows_host(&guard, host))
        FUZZ_MUST(address_parse(host, 80, &asked, NULL) && address_is_loopback(&asked));
    FUZZ_MUST(guard_admits(&guard, token) ==
              (strncasecmp(token, "Bearer ", 7) == 0 && str_is(token + 7, TOKEN)));
}

static void check_id(const char *id)
{
    static struct kept kept;
    if (kept.last == 0) {
        kept_init(&kept, 7);
        FUZZ_MUST(kept_add(&kept, "a", 1) && kept_add(&kept, "b", 1) && kept_add(&kept, "c", 1));
    }
    uint64_t next = kept_after(&kept, id);
    FUZZ_MUST(next >= 1 && next <= KEPT_LINES + 1);
}

static void check_text(char *text, size_t len)
{
    struct err err;
    FUZZ_MUST(!text || (len == strlen(text) && !memchr(text, '\n', len)));
    if (text) {
        JSON_CLEANUP struct json *root = json_read("text", text, len, &err);
        FUZZ_MUST(root);
    }
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char host[LINE_MAX_BYTES], token[LINE_MAX_BYTES], id[LINE_MAX_BYTES];
    struct err err;
    size_t len;
    take_line(&data, &size, host);
    take_line(&data, &size, token);
    take_line(&data, &size, id);
    check_headers(host, token);
    check_id(id);
    JSON_CLEANUP struct json *answer = json_read("answer", data, size, &err);
    if (!answer)
        return 0;
    char *text = picture_layout(answer, &len);
    check_text(text, len);
    text = picture_state(answer, &len);
    check_text(text, len);
    return 0;
}
