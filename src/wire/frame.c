/* SPDX-License-Identifier: Apache-2.0
 * See frame.h.
 */
#include "wire/frame.h"

#include <string.h>

/* The header as bytes. The machine is little-endian: see bytes.c. */
struct header {
    uint16_t magic;
    uint8_t version, type;
    uint32_t len;
};
_Static_assert(sizeof(struct header) == FRAME_HEADER_BYTES, "no gaps");

enum frame_result frame_parse(enum frame_magic magic, const uint8_t *data, size_t len,
                              struct frame *ret, size_t *ret_size)
{
    /* Check the first bytes of the magic at once: a stranger need not send a whole header. */
    if ((len >= 1 && data[0] != ((unsigned)magic & 0xff)) ||
        (len >= 2 && data[1] != (unsigned)magic >> 8))
        return FRAME_BAD_MAGIC;
    if (len < FRAME_HEADER_BYTES)
        return FRAME_MORE;
    struct header header;
    memcpy(&header, data, sizeof header);
    *ret = (struct frame){header.version, header.type, data + FRAME_HEADER_BYTES, header.len};
    if (ret->len > FRAME_PAYLOAD_MAX)
        return FRAME_TOO_LONG;
    if (len - FRAME_HEADER_BYTES < ret->len)
        return FRAME_MORE;
    *ret_size = FRAME_HEADER_BYTES + ret->len;
    return FRAME_OK;
}

void frame_header(enum frame_magic magic, uint8_t version, uint8_t type, uint32_t len,
                  uint8_t data[FRAME_HEADER_BYTES])
{
    struct header header = {(uint16_t)magic, version, type, len};
    memcpy(data, &header, sizeof header);
}
