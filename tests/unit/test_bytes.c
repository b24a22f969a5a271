/* SPDX-License-Identifier: Apache-2.0
 *
 * bytes: numbers and texts as bytes, little-endian. An error is final, and nothing is read or
 * written after it.
 */
#include "base/str.h"
#include "wire/bytes.h"

#include <criterion/criterion.h>
#include <stddef.h>

struct sample {
    uint64_t wide;
    uint16_t narrow;
    char text[4];
};

static const struct bytes_field sample_fields[] = {
    BYTES_NUMBER(struct sample, wide),
    BYTES_NUMBER(struct sample, narrow),
    BYTES_TEXT(struct sample, text),
};

Test(bytes, little_endian)
{
    uint8_t data[14];
    struct sample sample = {0x1122334455667788, 0xaabb, "hi"}, got = {.text = "zzz"};
    struct bytes out = bytes_writer(data, sizeof data);
    bytes_fields(&out, &sample, sample_fields, 3);
    cr_assert(out.ok);
    cr_assert_arr_eq(data, "\x88\x77\x66\x55\x44\x33\x22\x11\xbb\xaa\x02\x00hi", 14);
    struct bytes in = bytes_reader(data, sizeof data);
    bytes_fields(&in, &got, sample_fields, 2);
    cr_assert(!bytes_done(&in));
    bytes_fields(&in, &got, sample_fields + 2, 1);
    cr_assert(bytes_done(&in));
    cr_assert(got.wide == sample.wide && got.narrow == sample.narrow);
    cr_assert_str_eq(got.text, "hi");
}

Test(bytes, failure_is_final)
{
    uint8_t data[5] = {0};
    struct sample sample = {.wide = UINT64_MAX, .narrow = UINT16_MAX}, got = {0};
    struct bytes out = bytes_writer(data, sizeof data);
    bytes_fields(&out, &sample, sample_fields, 3);
    cr_assert(!out.ok);
    cr_assert_arr_eq(data, "\0\0\0\0", sizeof data, "written after a failure");
    struct bytes in = bytes_reader((const uint8_t *)"\x01\x02\x03", 3);
    bytes_fields(&in, &got, sample_fields, 2);
    cr_assert(got.wide == 0 && got.narrow == 0, "read after a failure");
    cr_assert(!bytes_done(&in));
}

Test(bytes, a_text_without_its_nul)
{
    uint8_t data[16];
    struct sample sample = {.text = {'f', 'u', 'l', 'l'}};
    struct bytes out = bytes_writer(data, sizeof data);
    bytes_fields(&out, &sample, sample_fields, 3);
    cr_assert(!out.ok);
}

Test(bytes, bad_texts)
{
    static const struct {
        const char *bytes;
        size_t len;
    } bad[] = {{"\x04\x00"
                "abcd",
                6}, /* no room for the text's NUL */
               {"\x02\x00"
                "a\0",
                4}, /* a NUL inside */
               {"\x03\x00"
                "ab",
                4},         /* cut */
               {"\x03", 1}, /* the length is cut */
               {"\xff\xff", 2}};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct sample got = {0};
        struct bytes in = bytes_reader((const uint8_t *)bad[i].bytes, bad[i].len);
        bytes_fields(&in, &got, sample_fields + 2, 1);
        cr_assert(!in.ok, "text %zu was taken", i);
        cr_assert_str_empty(got.text);
    }
}
