/* SPDX-License-Identifier: Apache-2.0
 *
 * netaddr and noderank: addresses as the kernel has them, and which of them are this machine's.
 */
#include "base/clock.h"
#include "base/str.h"
#include "net/netaddr.h"
#include "peers/noderank.h"

#include <criterion/criterion.h>
#include <string.h>

static union netaddr numeric(const char *host, int port)
{
    struct address where = {.port = port};
    str_copy(where.host, sizeof where.host, host);
    struct netaddr_list list;
    cr_assert(netaddr_numeric(&where, &list), "%s", host);
    cr_assert_eq(list.n, 1);
    return list.all[0];
}

Test(netaddr, names_are_not_numeric)
{
    struct address where = {.host = "localhost"};
    struct netaddr_list list;
    cr_assert(!netaddr_numeric(&where, &list));
}

Test(netaddr, loopback)
{
    static const char *const yes[] = {"127.0.0.1", "127.8.9.10", "::1", "::ffff:127.0.0.1"};
    static const char *const no[] = {
        "10.0.0.1", "128.0.0.1", "0.0.0.0", "::", "::2", "fe80::1", "::ffff:10.0.0.1"};
    for (size_t i = 0; i < ARRAY_LEN(yes); i++) {
        union netaddr a = numeric(yes[i], 1);
        cr_assert(netaddr_is_loopback(&a), "%s", yes[i]);
        cr_assert(netaddr_is_local(&a), "%s", yes[i]);
    }
    for (size_t i = 0; i < ARRAY_LEN(no); i++) {
        union netaddr a = numeric(no[i], 1);
        cr_assert(!netaddr_is_loopback(&a), "%s", no[i]);
    }
    /* Addresses for documentation: no machine has them. */
    union netaddr a = numeric("203.0.113.1", 0), b = numeric("2001:db8::1", 0);
    cr_assert(!netaddr_is_local(&a));
    cr_assert(!netaddr_is_local(&b));
}

Test(netaddr, same_host)
{
    union netaddr a = numeric("10.0.0.1", 1), b = numeric("::ffff:10.0.0.1", 2),
                  c = numeric("10.0.0.2", 1), d = numeric("fd00::1", 1), e = numeric("fd00::1", 9),
                  f = numeric("fd00::2", 1);
    cr_assert(netaddr_same_host(&a, &b));
    cr_assert(!netaddr_same_host(&a, &c));
    cr_assert(!netaddr_same_host(&a, &d));
    cr_assert(netaddr_same_host(&d, &e));
    cr_assert(!netaddr_same_host(&d, &f));
}

Test(netaddr, text)
{
    char text[NETADDR_TEXT_MAX];
    union netaddr a = numeric("10.0.0.1", 14242), b = numeric("fd00::1", 5);
    cr_assert_str_eq(netaddr_text(&a, text, sizeof text), "10.0.0.1:14242");
    cr_assert_str_eq(netaddr_text(&b, text, sizeof text), "[fd00::1]:5");
    netaddr_set_port(&b, 0);
    cr_assert_str_eq(netaddr_text(&b, text, sizeof text), "fd00::1");
    union netaddr c = numeric("fe80::1%lo", 5);
    cr_assert_str_eq(netaddr_text(&c, text, sizeof text), "[fe80::1%lo]:5");
    union netaddr d = numeric("::ffff:10.0.0.1", 14242);
    cr_assert_str_eq(netaddr_text(&d, text, sizeof text), "10.0.0.1:14242");
}

/* "Invalid argument" alone does not tell the user what to write. */
Test(netaddr, a_link_local_address_lacks_its_interface)
{
    union netaddr bare = numeric("fe80::1", 5), whole = numeric("fe80::1%lo", 5);
    union netaddr other = numeric("fd00::1", 5), v4 = numeric("169.254.0.1", 5);
    cr_assert(strstr(netaddr_lacks(&bare), "write fe80::1%eth0"), "%s", netaddr_lacks(&bare));
    cr_assert_str_eq(netaddr_lacks(&whole), "");
    cr_assert_str_eq(netaddr_lacks(&other), "");
    cr_assert_str_eq(netaddr_lacks(&v4), "");
}

/* -1: none is found. */
static int find(const char *const *entries, size_t n, struct err *err)
{
    struct config config = {.cluster = {.nnodes = (int)n, .node_rank = -1}};
    config.cluster.nodes = (char **)(uintptr_t)entries;
    cr_assert_eq(noderank_settle(&config, err), config.cluster.node_rank >= 0);
    return config.cluster.node_rank;
}

Test(noderank, the_one_local_entry)
{
    struct err err;
    const char *entries[] = {"203.0.113.1", "203.0.113.2:7", "127.0.0.1:14242", "[2001:db8::1]:5",
                             NULL};
    cr_assert_eq(find(entries, 4, &err), 2);
    const char *v6[] = {"203.0.113.1", "[::1]:7", NULL};
    cr_assert_eq(find(v6, 2, &err), 1);
}

Test(noderank, names_are_looked_up)
{
    struct err err = {0};
    const char *entries[] = {"203.0.113.1", "localhost", NULL};
    cr_assert_eq(find(entries, 2, &err), 1, "%s", err.text);
}

Test(noderank, none_is_local)
{
    struct err err;
    const char *entries[] = {"203.0.113.1", "203.0.113.2:7", "203.0.113.3",
                             "203.0.113.4", "203.0.113.5",   "203.0.113.6",
                             "203.0.113.7", "203.0.113.8",   NULL};
    cr_assert_eq(find(entries, 8, &err), -1);
    cr_assert(strstr(err.text, "203.0.113.2:7 (203.0.113.2)"), "%s", err.text);
    cr_assert(strstr(err.text, " and 2 more; give --node-rank or PCHRUN_NODE_RANK"), "%s",
              err.text);
    cr_assert_eq(find(NULL, 0, &err), -1);
}

Test(noderank, several_are_local)
{
    struct err err;
    const char *entries[] = {"127.0.0.1:1", "203.0.113.1", "127.0.0.1:2", NULL};
    cr_assert_eq(find(entries, 3, &err), -1);
    cr_assert_str_eq(err.text, "cannot tell which of the 3 nodes this is: several entries of "
                               "cluster.nodes are this machine: 127.0.0.1:1 "
                               "(127.0.0.1), 127.0.0.1:2 (127.0.0.1); give --node-rank or "
                               "PCHRUN_NODE_RANK");
}

Test(noderank, an_entry_is_no_address)
{
    struct err err;
    const char *entries[] = {"127.0.0.1:1", "no such host", NULL};
    cr_assert_eq(find(entries, 2, &err), -1);
    cr_assert(str_starts(err.text, "cannot tell which of the 2 nodes this is: cluster.nodes: "
                                   "'no such host' is not an address"),
              "%s", err.text);
}
