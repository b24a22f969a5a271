/* SPDX-License-Identifier: Apache-2.0
 *
 * test_strikes: how often each host was not healthy, over the attempts of a job.
 */
#include "record/strikes.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

TestSuite(strikes);

static struct strikes strikes;

static void read_text(const char *text)
{
    struct err err;
    struct json *root = json_read("text", text, strlen(text), &err);
    cr_assert(root, "%s", err.text);
    strikes_read(&strikes, root);
    json_free(root);
}

/* Writes them, and reads them again. */
static void turn_around(void)
{
    struct writer w;
    size_t len;
    writer_init(&w, 100000, WRITER_PRETTY);
    writer_object(&w, NULL);
    strikes_write(&strikes, &w);
    writer_end(&w);
    const char *text = writer_done(&w, &len);
    cr_assert(text);
    read_text(text);
    writer_free(&w);
}

static const char *hosts(int64_t since)
{
    static char text[2048];
    return strikes_hosts(&strikes, since, text, sizeof text);
}

Test(strikes, each_host_is_counted)
{
    strikes_add(&strikes, "n7", "gpu3: Xid 79", 10);
    strikes_add(&strikes, "n9", "disk", 20);
    strikes_add(&strikes, "n7", "gpu1: GPU is lost", 30);
    turn_around();
    cr_assert_eq(strikes.n, 2);
    cr_expect_str_eq(strikes.list[1].host, "n7");
    cr_expect_str_eq(strikes.list[1].text, "gpu1: GPU is lost");
    cr_expect(strikes.list[1].count == 2 && strikes.list[1].at == 30);
    cr_expect(strikes.list[0].count == 1 && strikes.list[0].at == 20);
    cr_expect_str_eq(hosts(0), "n7,n9");
    cr_expect_str_eq(hosts(21), "n7");
    cr_expect_str_eq(hosts(31), "");
}

Test(strikes, the_oldest_makes_room)
{
    char host[16];
    for (int i = 0; i < STRIKES_HOSTS + 1; i++) {
        snprintf(host, sizeof host, "n%d", i);
        strikes_add(&strikes, host, "", i);
        if (i == 10)
            strikes_add(&strikes, "n0", "", i);
    }
    cr_assert_eq(strikes.n, STRIKES_HOSTS);
    cr_expect_str_eq(strikes.list[0].host, "n2", "n1 had the oldest strike, but %s is the first",
                     strikes.list[0].host);
    cr_expect_str_eq(strikes.list[STRIKES_HOSTS - 1].host, host);
}

Test(strikes, a_name_that_is_none)
{
    static const char *const names[] = {"", "a b", "a,b", "$(x)", "-o", "n\n"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        strikes_add(&strikes, names[i], "", 1);
    cr_expect_eq(strikes.n, 0);
}

Test(strikes, a_damaged_one_is_left_out)
{
    read_text("{}");
    cr_expect_eq(strikes.n, 0);
    read_text("{\"strikes\": [7, {}, {\"host\": \"n1\"}, {\"host\": \"a,b\", \"count\": 1}, "
              "{\"host\": \"n2\", \"count\": -1}, {\"host\": \"n3\", \"count\": 2}, "
              "{\"host\": \"n4\", \"count\": 1, \"at_ns\": -1}]}");
    cr_assert_eq(strikes.n, 1);
    cr_expect_str_eq(strikes.list[0].host, "n3");
}

Test(strikes, a_list_is_cut_between_hosts)
{
    char text[8];
    strikes_add(&strikes, "n1", "", 1);
    strikes_add(&strikes, "n22222222", "", 1);
    strikes_add(&strikes, "n3", "", 1);
    cr_expect_str_eq(strikes_hosts(&strikes, 0, text, sizeof text), "n3,n1");
}
