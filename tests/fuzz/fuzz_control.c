/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a request of pchctl. An accepted request has a known verb, its text can be shown,
 * and its times do not overflow.
 */
#include "fuzz.h"

#include "base/str.h"
#include "status/control.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct control_request request;
    struct err err = {0};
    if (!control_read((const char *)data, size, &request, &err)) {
        FUZZ_MUST(err.text[0] && memchr(err.text, '\0', sizeof err.text));
        return 0;
    }
    FUZZ_MUST(request.verb < CONTROL__COUNT);
    FUZZ_MUST(request.pid == 0 && request.uid == 0);
    FUZZ_MUST(request.left_ns == NOTICE_LEFT_UNKNOWN ||
              (request.left_ns >= 0 && request.left_ns < INT64_MAX / 2));
    FUZZ_MUST(memchr(request.text, '\0', sizeof request.text));
    for (const char *p = request.text; *p; p += str_utf8_len(p))
        FUZZ_MUST(str_utf8_len(p) > 0 && (unsigned char)*p >= 0x20 && *p != 0x7f);
    return 0;
}
