/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as what a peer (FUZZ_PEER), or else a training process or its supervisor sends: cut
 * into frames, decoded, and encoded again. An accepted message comes out as the same bytes: a
 * message has one encoding. A peer's refusal, and its greeting, are read in any version.
 */
#include "fuzz.h"

#include "wire/frame.h"
#ifdef FUZZ_PEER
#include "wire/peermsg.h"
#define MAGIC   FRAME_PEER
#define VERSION PEERMSG_VERSION
#define DECODE  peermsg_decode
#define ENCODE  peermsg_encode
typedef struct peermsg message;
#else
#include "wire/procmsg.h"
#define MAGIC   FRAME_PROC
#define VERSION PROCMSG_VERSION
#define DECODE  procmsg_decode
#define ENCODE  procmsg_encode
typedef struct procmsg message;
#endif

#include <string.h>

static void try_frame(const struct frame *frame)
{
    static message msg;
    uint8_t again[FRAME_MAX];
    if (!DECODE(frame, &msg) || frame->version != VERSION)
        return;
    FUZZ_MUST(ENCODE(&msg, again, sizeof again) == FRAME_HEADER_BYTES + frame->len);
    FUZZ_MUST(memcmp(again + FRAME_HEADER_BYTES, frame->payload, frame->len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct frame frame;
    size_t taken;
    while (frame_parse(MAGIC, data, size, &frame, &taken) == FRAME_OK) {
        try_frame(&frame);
        data += taken;
        size -= taken;
    }
    return 0;
}
