/* SPDX-License-Identifier: Apache-2.0
 *
 * frame: how messages are cut out of a stream of bytes, the same towards peers and towards
 * processes.
 *
 *   magic (2)  version (1)  type (1)  length of what follows (4)   -- little-endian, then the
 * payload
 *
 * Pure; any thread. A bad frame is final for its connection: nothing behind it can be trusted.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define FRAME_HEADER_BYTES 8
#define FRAME_PAYLOAD_MAX  8192
#define FRAME_MAX          (FRAME_HEADER_BYTES + FRAME_PAYLOAD_MAX)

enum frame_magic { FRAME_PEER = 0x5043, FRAME_PROC = 0x5050 };

struct frame {
    uint8_t version, type;
    const uint8_t *payload; /* inside the bytes that were given */
    uint32_t len;
};

enum frame_result { FRAME_OK, FRAME_MORE, FRAME_BAD_MAGIC, FRAME_TOO_LONG };

/* Looks at the start of `data`. FRAME_OK: *ret is the first frame, and *ret_size what it takes up
 * with its header. FRAME_MORE: not all of it is there yet. */
enum frame_result frame_parse(enum frame_magic magic, const uint8_t *data, size_t len,
                              struct frame *ret, size_t *ret_size);
/* Writes the header for a payload of `len` bytes at `data`. */
void frame_header(enum frame_magic magic, uint8_t version, uint8_t type, uint32_t len,
                  uint8_t data[FRAME_HEADER_BYTES]);
