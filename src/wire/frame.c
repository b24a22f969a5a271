/* SPDX-License-Identifier: Apache-2.0
 * See frame.h.
 */
#include "wire/frame.h"

#include "wire/bytes.h"

enum frame_result frame_parse(enum frame_magic magic, const uint8_t *data, size_t len,
                              struct frame *ret, size_t *ret_size)
{
    /* Check the first bytes of the magic at once: a stranger need not send a whole header. */
    if ((len >= 1 && data[0] != ((unsigned)magic & 0xff)) ||
        (len >= 2 && data[1] != (unsigned)magic >> 8))
        return FRAME_BAD_MAGIC;
    if (len < FRAME_HEADER_BYTES)
        return FRAME_MORE;
    struct bytes_in in = bytes_in(data + 2, FRAME_HEADER_BYTES - 2);
    ret->version = (uint8_t)bytes_get(&in, 1);
    ret->type = (uint8_t)bytes_get(&in, 1);
    ret->len = (uint32_t)bytes_get(&in, 4);
    if (ret->len > FRAME_PAYLOAD_MAX)
        return FRAME_TOO_LONG;
    if (len - FRAME_HEADER_BYTES < ret->len)
        return FRAME_MORE;
    ret->payload = data + FRAME_HEADER_BYTES;
    *ret_size = FRAME_HEADER_BYTES + ret->len;
    return FRAME_OK;
}

void frame_header(enum frame_magic magic, uint8_t version, uint8_t type, uint32_t len,
                  uint8_t data[FRAME_HEADER_BYTES])
{
    struct bytes_out out = bytes_out(data, FRAME_HEADER_BYTES);
    bytes_put(&out, (uint64_t)magic, 2);
    bytes_put(&out, version, 1);
    bytes_put(&out, type, 1);
    bytes_put(&out, len, 4);
}
