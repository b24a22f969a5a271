/* SPDX-License-Identifier: Apache-2.0
 * See gaveup.h. One table of the texts, as PyTorch 2.1 to 2.13 print them.
 */
#include "core/common/gaveup.h"

#include "base/str.h"

#include <string.h>

/* Both parts are in one line, in this order. */
static const struct {
    const char *part, *then;
} texts[] = {
    /* gloo: an operation, the end of its connections, and its monitored barrier */
    {"Timed out waiting ", "ms for "},
    {"Application timeout caused pair closure", ""},
    {" failed to pass monitoredBarrier in ", " ms"},
    {" timed out in monitoredBarrier after ", ""},
    /* NCCL: the watchdog, on the rank itself, on another rank, and stuck itself */
    {"Watchdog caught collective operation timeout", ""},
    {"Timeout at NCCL work: ", ""},
    {"ran for ", " milliseconds before timing out"},
    {"ProcessGroupNCCL's watchdog got stuck for ", ""},
    {"due to a collective timeout from ", ""},
    /* the store, by which ranks find each other */
    {"imed out after ", " seconds waiting for clients"},
    {"wait timeout after ", "ms, keys: "},
    {"barrier timeout after ", "ms, key: "},
    {"Timeout waiting for key: ", ""},
};

static bool line_tells(const char *line, size_t len)
{
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        const char *at = memmem(line, len, texts[i].part, strlen(texts[i].part));
        if (at && memmem(at, (size_t)(line + len - at), texts[i].then, strlen(texts[i].then)))
            return true;
    }
    return false;
}

/* The first such line, and its length; NULL: there is none. */
static const char *told_line(const char *text, size_t *ret_len)
{
    for (const char *line = text; *line; line += *ret_len + (line[*ret_len] == '\n')) {
        *ret_len = strcspn(line, "\n");
        if (line_tells(line, *ret_len))
            return line;
    }
    return NULL;
}

bool gaveup_is_told(const char *text)
{
    size_t len;
    return told_line(text, &len);
}

bool gaveup_line(const char *text, char *ret, size_t size)
{
    size_t len;
    const char *line = told_line(text, &len);
    if (!line)
        return false;
    len = len < size ? len : size - 1;
    memcpy(ret, line, len);
    ret[len] = '\0';
    return true;
}
