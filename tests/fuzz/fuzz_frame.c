/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a stream of frames. A frame that is cut out lies within the bytes, and its header
 * matches its fields. For a part of a frame, the parser asks for more. The first byte selects the
 * protocol.
 */
#include "fuzz.h"

#include "wire/frame.h"

#include <string.h>

static void try_frame(enum frame_magic magic, const uint8_t *data, const struct frame *frame,
                      size_t taken)
{
    uint8_t header[FRAME_HEADER_BYTES];
    struct frame part;
    size_t part_taken;
    FUZZ_MUST(frame->payload == data + FRAME_HEADER_BYTES && frame->len <= FRAME_PAYLOAD_MAX &&
              taken == FRAME_HEADER_BYTES + frame->len);
    frame_header(magic, frame->version, frame->type, frame->len, header);
    FUZZ_MUST(memcmp(header, data, sizeof header) == 0);
    for (size_t len = 0; len < taken; len += len < FRAME_HEADER_BYTES ? 1 : 1 + taken / 4)
        FUZZ_MUST(frame_parse(magic, data, len, &part, &part_taken) == FRAME_MORE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct frame frame;
    size_t taken;
    enum frame_magic magic = size && *data % 2 ? FRAME_PEER : FRAME_PROC;
    for (size_t at = 1; at < size; at += taken) {
        if (frame_parse(magic, data + at, size - at, &frame, &taken) != FRAME_OK)
            break;
        try_frame(magic, data + at, &frame, taken);
    }
    return 0;
}
