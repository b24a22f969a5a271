/* SPDX-License-Identifier: Apache-2.0
 *
 * Slurm's host lists: the first host and the number of those that scontrol show hostnames prints,
 * and what it refuses; then lists made at random, whose hosts are known because they were made from
 * them.
 */
#include "base/str.h"
#include "discover/vars.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct hostlist got;

static bool is_read(const char *list, struct err *err)
{
    return hostlist_read(list, &got, err);
}

/* The hosts have a space behind each. */
static bool is_got(const char *hosts)
{
    size_t n = 0, first = strcspn(hosts, " ");
    for (const char *p = hosts; *p; p++)
        n += *p == ' ';
    return got.n == n && strlen(got.first) == first && strncmp(got.first, hosts, first) == 0;
}

Test(slurmvars, as_slurm_expands_them)
{
    static const struct {
        const char *list, *hosts;
    } rows[] = {
        {"n1", "n1 "},
        {"node[001-003,007],gpu1", "node001 node002 node003 node007 gpu1 "},
        {"n[1-2],n[2-3]", "n1 n2 n2 n3 "},
        {"a[1-2]b[3-4]", "a1b3 a1b4 a2b3 a2b4 "},
        {"a[1-2][3-4]", "a13 a14 a23 a24 "},
        {"r[1,3]c[08-10]n[0-1]", "r1c08n0 r1c08n1 r1c09n0 r1c09n1 r1c10n0 r1c10n1 r3c08n0 r3c08n1 "
                                 "r3c09n0 r3c09n1 r3c10n0 r3c10n1 "},
        {"n[9-11]", "n9 n10 n11 "},
        {"n[09-11]", "n09 n10 n11 "},
        {"n[099-101]", "n099 n100 n101 "},
        {"n[7]", "n7 "},
        {"n[007]", "n007 "},
        {"n[0-0]", "n0 "},
        {"[1-3]", "1 2 3 "},
        {"gpu-a100-[01-02].cluster,login", NULL}, /* text after the last bracket */
        {"ip-10-0-0-1,ip-10-0-0-2", "ip-10-0-0-1 ip-10-0-0-2 "},
        {"n[999999998-999999999]", "n999999998 n999999999 "},
        {"n[1-3,10-11,20]", "n1 n2 n3 n10 n11 n20 "},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err err = {0};
        bool ok = is_read(rows[i].list, &err);
        if (!rows[i].hosts) {
            cr_expect(!ok, "%s", rows[i].list);
            continue;
        }
        cr_expect(ok, "%s: %s", rows[i].list, err.text);
        cr_expect(is_got(rows[i].hosts), "%s: %zu, %s", rows[i].list, got.n, got.first);
    }
}

/* Texts that are no list, each with the words of its error. */
Test(slurmvars, what_is_no_list)
{
    static const struct {
        const char *list, *words;
    } rows[] = {
        {"", "character 1: a name is missing"},
        {",n1", "character 1: a name is missing"},
        {"n1,", "character 4: a name is missing"},
        {"n1,,n2", "character 4: a name is missing"},
        {"n[1-2]-ib0", "character 7: text follows the last bracket"},
        {"a[1-2]b[3-4]c", "character 13: text follows the last bracket"},
        {"n[3-1]", "character 3: the range has no end, or ends before it begins"},
        {"n[1-3", "character 2: '[' without ']'"},
        {"n[1-2],m[", "character 9: '[' without ']'"},
        {"n]", "character 2: ']' without '['"},
        {"n[]", "character 3: a number of at most 9 digits is wanted"},
        {"n[1-]", "the range has no end"},
        {"n[-3]", "a number of at most 9 digits is wanted"},
        {"n[1,]", "character 5: a number of at most 9 digits is wanted"},
        {"n[a-b]", "a number of at most 9 digits is wanted"},
        {"n[1-2-3]", "character 6: ',' or ']' is wanted"},
        {"n[[1]]", "character 3: a number of at most 9 digits is wanted"},
        {"a[1]b,c[2]", "character 5: text follows the last bracket"},
        {"n[[1]", "character 3: a number of at most 9 digits is wanted"},
        {"n[1 2]", "character 4: it is not allowed in a name"},
        {"(null)", "character 1: it is not allowed in a name"},
        {"n[1-9999999999]", "the range has no end"},
        {"n[0-4096]", "has more than 4096 hosts"},
        {"n[0-999999999]", "has more than 4096 hosts"},
        {"n[1-99][1-99][1-99][1-99][1-99][1-99][1-99][1-99]", "has more than 4096 hosts"},
        {"n[1][1][1][1][1][1][1][1][1]", "character 26: a name has too many brackets"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err err = {0};
        cr_expect(!is_read(rows[i].list, &err), "%s", rows[i].list);
        cr_expect(strstr(err.text, rows[i].words), "%s: %s", rows[i].list, err.text);
    }
}

Test(slurmvars, as_many_as_are_allowed)
{
    struct err err = {0};
    cr_expect(is_read("n[0001-4096]", &err) && got.n == DISCOVER_NODES_MAX, "%s", err.text);
}

Test(slurmvars, a_name_that_is_too_long)
{
    char list[2 * HOSTLIST_NAME_MAX];
    struct err err = {0};
    memset(list, 'n', sizeof list);
    list[HOSTLIST_NAME_MAX] = '\0';
    cr_expect(!is_read(list, &err) && strstr(err.text, "too long"), "%s", err.text);
    strcpy(list + HOSTLIST_NAME_MAX - 3, "[100]");
    cr_expect(!is_read(list, &err) && strstr(err.text, "too long"), "%s", err.text);
    strcpy(list + HOSTLIST_NAME_MAX - 4, "[100]");
    cr_expect(is_read(list, &err) && got.n == 1, "%s", err.text);
}

/* --- lists made at random --- */

static char list[4096], wanted[64 * 1024];
static size_t wanted_n;

/* "b[03-05,9]", and its numbers as texts. */
static size_t add_part(char numbers[64][16])
{
    size_t n = 0, ranges = 1 + (size_t)(rand() % 3);
    str_addf(list, sizeof list, "%c[", 'a' + rand() % 26);
    for (size_t i = 0; i < ranges; i++) {
        int width = rand() % 4, first = rand() % 120, length = 1 + rand() % 4;
        char text[16];
        int len = snprintf(text, sizeof text, "%0*d", width, first);
        str_addf(list, sizeof list, "%s%s", i > 0 ? "," : "", text);
        if (length > 1 || rand() % 2)
            str_addf(list, sizeof list, "-%d", first + length - 1);
        for (int k = 0; k < length; k++)
            snprintf(numbers[n++], 16, "%0*d", len, first + k);
    }
    str_addf(list, sizeof list, "]");
    return n;
}

static void add_name(void)
{
    char first[64][16], second[64][16];
    char a, b = '\0';
    size_t at = strlen(list), n, m = 1;
    n = add_part(first);
    a = list[at];
    second[0][0] = '\0';
    if (rand() % 2) {
        at = strlen(list);
        m = add_part(second);
        b = list[at];
    }
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < m; k++, wanted_n++) {
            str_addf(wanted, sizeof wanted, "%c%s", a, first[i]);
            if (b)
                str_addf(wanted, sizeof wanted, "%c%s", b, second[k]);
            str_addf(wanted, sizeof wanted, " ");
        }
}

Test(slurmvars, what_was_made_from_hosts_stands_for_them)
{
    srand(7);
    for (int round = 0; round < 2000; round++) {
        struct err err = {0};
        list[0] = wanted[0] = '\0';
        wanted_n = 0;
        for (int names = 1 + rand() % 4; names > 0; names--) {
            add_name();
            if (names > 1)
                str_addf(list, sizeof list, ",");
        }
        cr_assert(is_read(list, &err), "%s: %s", list, err.text);
        cr_assert(is_got(wanted), "%s: %zu, %s, not %s", list, got.n, got.first, wanted);
        /* A list that is cut anywhere is valid or refused. It never has more hosts, and is never
         * read beyond its memory. */
        list[(size_t)rand() % strlen(list)] = '\0';
        cr_assert(!is_read(list, &err) || got.n <= wanted_n);
    }
}
