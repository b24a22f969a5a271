/* SPDX-License-Identifier: Apache-2.0
 *
 * address: how people write addresses.
 */
#include "base/address.h"
#include "base/str.h"

#include <criterion/criterion.h>
#include <string.h>

static const struct {
    const char *text, *host;
    int port;
} good[] = {
    {"n0", "n0", 14242},
    {"n0:1", "n0", 1},
    {"n0:65535", "n0", 65535},
    {"train-3.cluster_a.example.com.:99", "train-3.cluster_a.example.com.", 99},
    {"10.0.0.1", "10.0.0.1", 14242},
    {"10.0.0.1:5", "10.0.0.1", 5},
    {"::1", "::1", 14242},
    {"fd00::1:5", "fd00::1:5", 14242},
    {"[::1]", "::1", 14242},
    {"[fd00::1]:5", "fd00::1", 5},
    {"[fe80::1%lo]:5", "fe80::1%lo", 5},
};

Test(address, what_people_write)
{
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        struct address a;
        struct err err;
        cr_assert(address_parse(good[i].text, 14242, &a, &err), "%s", err.text);
        cr_assert_str_eq(a.host, good[i].host);
        cr_assert_eq(a.port, good[i].port, "%s", good[i].text);
    }
}

Test(address, what_is_shown_can_be_typed)
{
    static const char *const texts[] = {"n0:1", "10.0.0.1:14242", "[fd00::1]:9"};
    char shown[ADDRESS_TEXT_MAX];
    struct address address;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        cr_assert(address_parse(texts[i], 7, &address, NULL));
        cr_expect_str_eq(address_text(&address, shown), texts[i]);
    }
    cr_assert(address_parse("fd00::1", 7, &address, NULL));
    cr_expect_str_eq(address_text(&address, shown), "[fd00::1]:7");
}

Test(address, what_they_must_not)
{
    static const char *const bad[] = {
        "",      ":",     ":5",       "n0:",     "n0:0",      "n0:65536", "n0:x", "n0:5 ",
        "n 0",   "a/b",   "[::1",     "[::1]5",  "[::1]:",    "[n0]:5",   "[]:5", "1:2:3",
        "14242", "a:b:c", "::1:zzzz", "[::1]:0", "http://n0", "-x",       ".x",
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct address a = {.port = -7};
        struct err err = {0};
        cr_assert(!address_parse(bad[i], 14242, &a, &err), "'%s' was taken", bad[i]);
        cr_assert_eq(a.port, -7, "the result was touched");
        cr_assert(strstr(err.text, bad[i]), "'%s' does not show '%s'", err.text, bad[i]);
    }
    char long_name[400];
    memset(long_name, 'a', sizeof long_name);
    long_name[sizeof long_name - 1] = '\0';
    struct address a;
    cr_assert(!address_parse(long_name, 1, &a, NULL));
}

Test(address, surely_this_machine)
{
    static const char *const yes[] = {"127.0.0.1", "127.8.9.10", "::1", "localhost", "LocalHost"};
    static const char *const no[] = {"10.0.0.1", "128.0.0.1", "::", "::2", "n0", "localhost.x"};
    struct address a = {0};
    for (size_t i = 0; i < ARRAY_LEN(yes); i++) {
        str_copy(a.host, sizeof a.host, yes[i]);
        cr_assert(address_is_loopback(&a), "%s", yes[i]);
    }
    for (size_t i = 0; i < ARRAY_LEN(no); i++) {
        str_copy(a.host, sizeof a.host, no[i]);
        cr_assert(!address_is_loopback(&a), "%s", no[i]);
    }
}

Test(address, written_alike)
{
    struct address a = {"n0", 1}, b = {"N0", 1}, c = {"n0", 2}, d = {"n1", 1};
    cr_assert(address_compare(&a, &b) == 0);
    cr_assert(address_compare(&a, &c) != 0);
    cr_assert(address_compare(&a, &d) != 0);
}
