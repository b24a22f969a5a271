/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as what a training process (or its supervisor) sends: cut into frames, decoded, and
 * encoded again. Nothing may crash, and what was taken for a message must come out as the same
 * bytes: a message has one encoding.
 */
#include "wire/frame.h"
#include "wire/procmsg.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_frame(const struct frame *frame)
{
    static struct procmsg msg;
    uint8_t again[FRAME_MAX];
    if (!procmsg_decode(frame, &msg))
        return;
    size_t n = procmsg_encode(&msg, again, sizeof again);
    if (n != FRAME_HEADER_BYTES + frame->len ||
        memcmp(again + FRAME_HEADER_BYTES, frame->payload, frame->len) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct frame frame;
    size_t taken;
    while (frame_parse(FRAME_PROC, data, size, &frame, &taken) == FRAME_OK) {
        try_frame(&frame);
        data += taken;
        size -= taken;
    }
    return 0;
}
