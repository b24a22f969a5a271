/* SPDX-License-Identifier: Apache-2.0
 *
 * identity: which of several jobs of one name is the next attempt.
 */
#include "web/identity.h"

#include "unit.h"

#define OF(report, more) "{\"report\":{\"job\":\"run7\"," report "},\"state_dir\":" more "}"
#define TWO              "\"nnodes\":2"
#define ONE              "\"nnodes\":1"

static struct identity take(const char *text)
{
    struct identity ret;
    struct err err;
    JSON_CLEANUP struct json *answer = json_read("answer", text, strlen(text), &err);
    cr_assert(answer, "%s", err.text);
    identity_take(answer, &ret);
    return ret;
}

static bool is_same(const char *a, const char *b)
{
    struct identity x = take(a), y = take(b);
    cr_assert(identity_is_same(&x, &x) && identity_is_same(&y, &y));
    cr_assert_eq(identity_is_same(&x, &y), identity_is_same(&y, &x));
    return identity_is_same(&x, &y);
}

/* The next attempt may have more nodes, another node 0 and another command. */
Test(identity, a_state_directory_decides)
{
    const char *job = OF(TWO, "\"/s/a\",\"chief\":\"n1:29600\",\"command\":\"train\"");
    cr_expect(is_same(job, OF(ONE, "\"/s/a\",\"chief\":null,\"command\":\"train --more\"")));
    cr_expect(!is_same(job, OF(TWO, "\"/s/b\",\"chief\":\"n1:29600\",\"command\":\"train\"")));
    cr_expect(!is_same(job, OF(TWO, "null,\"chief\":\"n1:29600\",\"command\":\"train\"")));
    cr_expect(!is_same(job, "{\"report\":{\"job\":\"run8\"},\"state_dir\":\"/s/a\"}"));
}

Test(identity, without_one_it_is_the_address_of_node_0)
{
    const char *job = OF(TWO, "null,\"chief\":\"n1:29600\",\"command\":\"train\"");
    cr_expect(is_same(job, OF(TWO, "null,\"chief\":\"n1:29600\",\"command\":\"train -r 1\"")));
    cr_expect(!is_same(job, OF(TWO, "null,\"chief\":\"n1:29601\",\"command\":\"train\"")));
    cr_expect(!is_same(job, OF("\"nnodes\":3", "null,\"chief\":\"n1:29600\"")));
}

Test(identity, without_an_address_it_is_the_command)
{
    const char *job = OF(ONE, "null,\"chief\":null,\"command\":\"train a\"");
    cr_expect(is_same(job, OF(ONE, "null,\"command\":\"train a\"")));
    cr_expect(!is_same(job, OF(ONE, "null,\"command\":\"train b\"")));
}

/* pchctl's texts are printable, those of a picture are raw. */
Test(identity, control_characters_do_not_differ)
{
    cr_expect(is_same(OF(ONE, "\"/s/a\\u0007\""), OF(ONE, "\"/s/a?\"")));
}
