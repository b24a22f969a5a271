/* SPDX-License-Identifier: Apache-2.0
 *
 * test_controlmsg: what a request of pchctl may hold, and what a client is told of one that it may
 * not.
 */
#include "status/controlmsg.h"

#include "unit.h"

#include "base/clock.h"
#include "base/str.h"

#include <stdio.h>
#include <string.h>

static bool reads(const char *line, struct control_request *ret, struct err *err)
{
    return controlmsg_read(line, strlen(line), ret, err);
}

Test(controlmsg, each_verb)
{
    struct control_request request;
    struct err err;
    char line[128];
    for (unsigned i = 0; i < CONTROL__COUNT; i++) {
        enum control_verb verb;
        const char *name = control_name((enum control_verb)i);
        cr_assert(control_verb_of(name, &verb) && verb == i, "%s", name);
        snprintf(line, sizeof line, "{\"version\":1,\"do\":\"%s\"}", name);
        cr_assert(reads(line, &request, &err), "%s", err.text);
        cr_assert_eq(request.verb, i);
        cr_assert(!request.follows && !request.text[0]);
        cr_assert_eq(request.left_ns, NOTICE_LEFT_UNKNOWN);
    }
}

Test(controlmsg, all_members)
{
    struct control_request request;
    struct err err;
    cr_assert(reads("{\"version\":1,\"do\":\"drain\",\"left_ms\":1500,\"text\":\"a\\u0007b\"}",
                    &request, &err));
    cr_assert_eq(request.left_ns, 1500 * NS_PER_MS);
    cr_assert_str_eq(request.text, "a?b", "a terminal is not to obey it");
    cr_assert(reads("{\"follow\":true,\"do\":\"events\",\"version\":1}", &request, &err));
    cr_assert(request.follows && !request.is_of_all);
    cr_assert(reads("{\"version\":1,\"do\":\"status\",\"all\":true}", &request, &err));
    cr_assert(request.is_of_all);
}

Test(controlmsg, what_is_wrong_is_told)
{
    static const struct {
        const char *line, *why;
    } rows[] = {
        {"", "request:1:1"},
        {"status", "request:1:6"},
        {"[]", "a request is an object, not a list"},
        {"{\"do\":\"status\"}", "speaks version 1"},
        {"{\"version\":2,\"do\":\"status\"}", "use the pchctl that came with it"},
        {"{\"version\":2,\"new\":7}", "speaks version 1"},
        {"{\"version\":1}", "names no request"},
        {"{\"version\":1,\"do\":\"dance\"}", "names no request"},
        {"{\"version\":1,\"do\":7}", "names no request"},
        {"{\"version\":1,\"do\":\"stop\",\"force\":true}", "a request has no \"force\""},
        {"{\"version\":1,\"do\":\"events\",\"follow\":1}", "\"follow\" is not true or false"},
        {"{\"version\":1,\"do\":\"status\",\"all\":\"yes\"}", "\"all\" is not true or false"},
        {"{\"version\":1,\"do\":\"drain\",\"left_ms\":-1}", "of a year at most"},
        {"{\"version\":1,\"do\":\"drain\",\"left_ms\":9223372036854775807}", "of a year at most"},
        {"{\"version\":1,\"do\":\"drain\",\"left_ms\":1.5}", "of a year at most"},
        {"{\"version\":1,\"do\":\"drain\",\"text\":7}", "not a text"},
        {"{\"version\":1,\"do\":\"stop\",\"do\":\"status\"}", "duplicate object key"},
    };
    struct control_request request;
    struct err err;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        cr_assert(!reads(rows[i].line, &request, &err), "%s", rows[i].line);
        cr_assert(strstr(err.text, rows[i].why), "%s: %s", rows[i].line, err.text);
    }
}

Test(controlmsg, a_text_has_a_bound)
{
    struct control_request request;
    struct err err;
    char line[256], text[CONTROL_TEXT_MAX + 2];
    memset(text, 'x', sizeof text);
    snprintf(line, sizeof line, "{\"version\":1,\"do\":\"drain\",\"text\":\"%.*s\"}",
             CONTROL_TEXT_MAX, text);
    cr_assert(reads(line, &request, &err));
    cr_assert_eq(strlen(request.text), CONTROL_TEXT_MAX);
    snprintf(line, sizeof line, "{\"version\":1,\"do\":\"drain\",\"text\":\"%.*s\"}",
             CONTROL_TEXT_MAX + 1, text);
    cr_assert(!reads(line, &request, &err));
}
