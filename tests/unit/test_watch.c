/* SPDX-License-Identifier: Apache-2.0
 *
 * watch: dates, the readers of answers, the tracker of events, and the lines that are printed; all
 * of it without a service, a clock or a file but those of a test.
 */
#include "base/clock.h"
#include "base/str.h"
#include "watch/answers/body.h"
#include "watch/watchrun.h"

#include "folder.h"

#include <inttypes.h>

/* ---- answers ---- */

/* "type id text@seconds; …", "bad" for an answer that says nothing. */
static const char *tell(bool ok, const struct events *events)
{
    static char text[2048];
    text[0] = '\0';
    for (unsigned i = 0; ok && i < events->count; i++) {
        const struct event *event = &events->list[i];
        str_addf(text, sizeof text, "%s%s%s %s", i ? "; " : "", notice_type_name(event->type),
                 event->is_mild ? "?" : "", event->id);
        if (event->at_ns != EVENT_AT_UNKNOWN)
            str_addf(text, sizeof text, "@%" PRId64, event->at_ns / NS_PER_S);
    }
    str_addf(text, sizeof text, "%s", ok && events->is_partial ? " ..." : "");
    return ok ? text : "bad";
}

static const char *read_with(body_fn *fn, const char *body)
{
    struct events events = {0};
    struct err err = {.text = ""};
    bool ok = fn(body, strlen(body), &events, &err);
    cr_expect(ok || err.text[0], "no reason for %s", body);
    cr_expect(!strchr(err.text, '\n'));
    return tell(ok, &events);
}

struct reading {
    const char *body, *wanted;
};
#define EXPECT_READINGS(fn, ...)                                                            \
    do {                                                                                    \
        static const struct reading readings[] = {__VA_ARGS__};                             \
        for (size_t i_ = 0; i_ < ARRAY_LEN(readings); i_++)                                 \
            cr_expect_str_eq(read_with((fn), readings[i_].body), readings[i_].wanted, "%s", \
                             readings[i_].body);                                            \
    } while (0)

Test(body, gce)
{
    EXPECT_READINGS(
        body_gce_maintenance, {"NONE", ""}, {"NONE\n", ""}, {"\"NONE\"", ""},
        {"TERMINATE_ON_HOST_MAINTENANCE", "terminate TERMINATE_ON_HOST_MAINTENANCE"},
        {"\"TERMINATE_ON_HOST_MAINTENANCE\"\n", "terminate TERMINATE_ON_HOST_MAINTENANCE"},
        {"MIGRATE_ON_HOST_MAINTENANCE", "log? MIGRATE_ON_HOST_MAINTENANCE"},
        {"TERMINATE_ON_HOST_MAINT", "bad"}, {"terminate_on_host_maintenance", "bad"}, {"", "bad"},
        {"<html>", "bad"}, {"NONE\001", "bad"}, {"NONENONE", "bad"});
    EXPECT_READINGS(body_gce_preempted, {"FALSE", ""}, {"TRUE\n", "terminate preempted"},
                    {"true", "bad"}, {"", "bad"}, {"TRUE TRUE", "bad"});
}

Test(body, gce_upcoming)
{
    EXPECT_READINGS(
        body_gce_upcoming, {"{}", ""}, {"{ }\n", ""}, {"NONE", ""}, {"\"NONE\"", ""},
        {"{\"error\": \"no notifications have been received yet, try again later\"}", "bad"},
        {"{\"type\": \"SCHEDULED\"}", "bad"}, {"[]", "bad"}, {"", "bad"}, {"{\"window_sta", "bad"},
        {"{\"window_start_time\": 7}", "terminate upcoming-maintenance"},
        {"{\"window_start_time\": \"2026-04-11T22:26:58Z\"}",
         "terminate upcoming-maintenance-2026-04-11T22:26:58Z@1775946418"},
        {"{\"windowStartTime\": \"2026-04-11T22:26:58Z\", \"maintenanceStatus\": \"PENDING\"}",
         "terminate upcoming-maintenance-2026-04-11T22:26:58Z@1775946418"},
        {"{\"window-start-time\": \"2026-04-11T22:26:58Z\", \"can-reschedule\": \"TRUE\"}",
         "terminate upcoming-maintenance-2026-04-11T22:26:58Z@1775946418"},
        {"{\"window_start_time\": \"2026-04-11T22:26:58Z\", \"maintenance_status\": \"ONGOING\"}",
         "terminate upcoming-maintenance-2026-04-11T22:26:58Z"},
        {"{\"window_start_time\": \"2026-04-11T22:26:58Z\", \"maintenance_status\": \"COMPLETE\"}",
         ""},
        {"{\"window_start_time\": \"soon\"}", "terminate upcoming-maintenance-soon"},
        {"{\"Upcoming maintenance\": {\"window_start_time\": \"2026-04-11T22:26:58Z\"}}",
         "terminate upcoming-maintenance-2026-04-11T22:26:58Z@1775946418"},
        {"{\"upcomingMaintenance\": {\"windowStartTime\": \"2026-04-11T22:26:58Z\"}}",
         "terminate upcoming-maintenance-2026-04-11T22:26:58Z@1775946418"},
        {"{\"Upcoming maintenance\": {}}", ""}, {"{\"Upcoming maintenance\": 7}", "bad"},
        {"{\"Upcoming maintenance\": {\"type\": \"SCHEDULED\"}}", "bad"});
}

static bool says_none(const char *body)
{
    return body_gce_says_none(body, strlen(body));
}

/* The server's words for a machine that has never been told of a maintenance. */
Test(body, gce_none_yet)
{
    cr_expect(
        says_none("{ \"error\": \"no notifications have been received yet, try again later\" }"));
    cr_expect(says_none("{\"error\": \"No notifications have been received yet\"}\n"));
    static const char *const others[] = {
        "",
        "{}",
        "NONE",
        "no notifications have been received yet",
        "{\"error\": \"try again later\"}",
        "{\"error\": 503}",
        "{\"error\": \"no notifications have been received yet",
        "[\"no notifications have been received yet\"]",
        "{\"what\": \"no notifications have been received yet\"}",
    };
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        cr_expect(!says_none(others[i]), "%s", others[i]);
}

Test(body, gce_stop)
{
    EXPECT_READINGS(body_gce_stop, {"PENDING_STOP", "terminate stop"},
                    {"\"PENDING_STOP\"\n", "terminate stop"}, {"STOPPING", "terminate stop"},
                    {"UNSPECIFIED", ""}, {"STOP_STATE_UNSPECIFIED\n", ""}, {"NONE", ""},
                    {"", "bad"}, {"pending_stop", "bad"}, {"PENDING STOP", "bad"},
                    {"<html>", "bad"}, {"{}", "bad"});
}

Test(body, gce_end_of_stop)
{
    static const struct {
        const char *since, *duration;
        int64_t wanted_s; /* -1: cannot be read */
    } rows[] = {
        {"2026-04-11T22:26:58Z", "600", 1775947018},
        {"2026-04-11T22:26:58Z", "600s", 1775947018},
        {"2026-04-11T15:26:58.000-07:00", "10m", 1775947018},
        {"2026-04-11T22:26:58Z", "0", 1775946418},
        {"2026-04-11T22:26:58Z", "", -1},
        {"2026-04-11T22:26:58Z", "-600", -1},
        {"2026-04-11T22:26:58Z", "soon", -1},
        {"2026-04-11T22:26:58Z", "9223372036854775807", -1},
        {"1775946418", "600", -1},
        {"", "600", -1},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int64_t at = -1;
        struct err err = {.text = ""};
        bool ok = body_gce_stop_end(rows[i].since, rows[i].duration, &at, &err);
        cr_expect_eq(ok, rows[i].wanted_s >= 0, "row %zu", i);
        cr_expect(!ok || at == rows[i].wanted_s * NS_PER_S, "row %zu: %" PRId64, i, at);
        cr_expect(ok || err.text[0], "no reason for row %zu", i);
    }
}

Test(body, aws_spot)
{
    EXPECT_READINGS(body_aws_action,
                    {"{\"action\": \"terminate\", \"time\": \"2017-09-18T08:22:00Z\"}",
                     "terminate spot-terminate-2017-09-18T08:22:00Z@1505722920"},
                    {"{\"action\": \"hibernate\"}", "terminate spot-hibernate-"},
                    {"{\"action\": \"stop\", \"time\": 1505722920}", "terminate spot-stop-"},
                    {"{}", "bad"}, {"{\"time\": \"2017-09-18T08:22:00Z\"}", "bad"}, {"[]", "bad"},
                    {"null", "bad"}, {"", "bad"},
                    {"{\"action\": \"terminate\", \"time\": \"2017-", "bad"});
    EXPECT_READINGS(
        body_aws_termination,
        {"2017-09-18T08:22:00Z", "terminate spot-terminate-2017-09-18T08:22:00Z@1505722920"},
        {"marked-for-nothing", ""}, {"", "bad"}, {"\001\002", "bad"},
        {"2017-09-18T08:22", "terminate spot-terminate-2017-09-18T08:22"});
    EXPECT_READINGS(
        body_alibaba_termination,
        {"2017-09-18T08:22:00Z", "terminate spot-terminate-2017-09-18T08:22:00Z@1505722920"},
        {"\"2017-09-18T08:22:00Z\"\n", "terminate spot-terminate-2017-09-18T08:22:00Z@1505722920"},
        {"", "bad"}, {"soon", "bad"}, {"<html>", "bad"}, {"7", "bad"});
    EXPECT_READINGS(
        body_tencent_termination,
        {"2017-09-18 16:22:00", "terminate spot-terminate-2017-09-18T08:22:00.000Z@1505722920"},
        {"2017-09-18T16:22:00\n", "terminate spot-terminate-2017-09-18T08:22:00.000Z@1505722920"},
        {"2017-09-18T08:22:00Z", "terminate spot-terminate-2017-09-18T08:22:00Z@1505722920"},
        {"", "bad"}, {"404 page not found", "bad"}, {"18-09", "bad"});
    EXPECT_READINGS(body_aws_rebalance,
                    {"{\"noticeTime\": \"2020-10-27T08:22:00Z\"}",
                     "checkpoint? rebalance-2020-10-27T08:22:00Z"},
                    {"{}", "bad"}, {"[]", "bad"});
}

Test(body, aws_others)
{
    EXPECT_READINGS(
        body_aws_scheduled, {"[]", ""}, {"{}", "bad"}, {"", "bad"}, {"[7]", " ..."},
        {"[{}]", " ..."},
        {"[{\"Code\": \"instance-retirement\", \"State\": \"active\", \"EventId\": \"e-1\", "
         "\"NotBefore\": \"21 Jan 2019 09:00:43 GMT\"}]",
         "terminate e-1@1548061243"},
        {"[{\"Code\": \"system-maintenance\", \"State\": \"active\", \"EventId\": \"e-2\"}, "
         "{\"Code\": \"instance-stop\", \"State\": \"completed\", \"EventId\": \"e-3\"}, "
         "{\"Code\": \"instance-stop\", \"State\": \"canceled\", \"EventId\": \"e-4\"}, "
         "{\"Code\": \"something-new\", \"State\": \"active\", \"EventId\": \"e-5\"}]",
         "checkpoint? e-2; checkpoint? e-5"});
    EXPECT_READINGS(body_aws_lifecycle, {"InService", ""}, {"Warmed:Stopped\n", ""},
                    {"Terminated", "terminate autoscaling-terminated"}, {"", "bad"},
                    {"<html></html>", "bad"}, {"{\"a\": 1}", "bad"});
}

Test(body, aws_event_without_an_id_has_one_all_the_same)
{
    static const char body[] = "[{\"Code\": \"instance-stop\", \"State\": \"active\", "
                               "\"NotBefore\": \"21 Jan 2019 09:00:43 GMT\"}]";
    char first[EVENT_ID_MAX];
    struct events events = {0};
    cr_assert(body_aws_scheduled(body, strlen(body), &events, NULL));
    str_copy(first, sizeof first, events.list[0].id);
    cr_assert(first[0]);
    events = (struct events){0};
    cr_assert(body_aws_scheduled(body, strlen(body), &events, NULL));
    cr_assert_str_eq(events.list[0].id, first);
}

#define AZURE(events) "{\"DocumentIncarnation\": 1, \"Events\": [" events "]}"

static bool azure_of_n1(const char *data, size_t len, struct events *ret, struct err *err)
{
    return body_azure(data, len, "n1", ret, err);
}

Test(body, azure)
{
    EXPECT_READINGS(
        azure_of_n1, {AZURE(""), ""}, {"{}", "bad"}, {"[]", "bad"}, {"{\"Events\": {}}", "bad"},
        {"", "bad"}, {AZURE("7"), " ..."}, {AZURE("{\"EventId\": \"a\"}"), " ..."},
        {AZURE("{\"EventId\": \"a\", \"EventType\": \"Preempt\", \"EventStatus\": \"Scheduled\", "
               "\"Resources\": [\"N1\"], \"NotBefore\": \"Mon, 11 Apr 2026 22:26:58 GMT\"}"),
         "terminate a@1775946418"},
        {AZURE("{\"EventId\": \"a\", \"EventType\": \"Reboot\", \"EventStatus\": \"Started\", "
               "\"Resources\": [\"n0\", \"n1\"], \"NotBefore\": \"\"}"),
         "terminate a"},
        {AZURE("{\"EventId\": \"a\", \"EventType\": \"Reboot\", \"Resources\": [\"n0\"]}"), ""},
        {AZURE("{\"EventId\": \"a\", \"EventType\": \"Reboot\", \"EventStatus\": \"Completed\"}"),
         ""},
        {AZURE("{\"EventId\": \"a\", \"EventType\": \"Freeze\", \"DurationInSeconds\": 5}, "
               "{\"EventId\": \"b\", \"EventType\": \"Freeze\", \"DurationInSeconds\": 11}, "
               "{\"EventId\": \"c\", \"EventType\": \"Freeze\", \"DurationInSeconds\": -1}, "
               "{\"EventId\": \"d\", \"EventType\": \"Unheard\"}"),
         "log? a; checkpoint b; log? c; log? d"});
}

static bool notice_of_1000(const char *data, size_t len, struct events *ret, struct err *err)
{
    return body_notice(data, len, 1000 * NS_PER_S, ret, err);
}

Test(body, notice)
{
    EXPECT_READINGS(notice_of_1000, {"", "terminate "}, {"drained\nat noon", "terminate "},
                    {"{\"type\": \"terminate\"}", "terminate "},
                    {" \n{\"type\": \"log\", \"id\": \"x\"}", "log x"},
                    {"{\"type\": \"cancel\", \"id\": \"x\"}", ""},
                    {"{\"type\": \"terminate\", \"deadline_seconds\": 30}", "terminate @1030"},
                    {"{\"type\": \"terminate\", \"deadline_seconds\": -30.5}", "terminate @969"},
                    {"{\"type\": \"terminate\", \"deadline\": \"2026-04-11T22:26:58Z\"}",
                     "terminate @1775946418"},
                    {"{\"type\": \"log\", \"id\": 7}", "log 7"},
                    {"{\"type\": \"terminate\", \"deadline\": \"soon\"}", "terminate "},
                    {"{\"type\": \"terminate\", \"deadline_seconds\": 1e300}", "terminate "},
                    {"{\"type\": \"terminate\", \"deadline_seconds\": NaN}", "bad"},
                    {"{\"type\": \"explode\"}", "bad"}, {"{}", "bad"}, {"{\"type\": 7}", "bad"},
                    {"{\"type\": \"term", "bad"});
}

Test(body, id_of_a_megabyte_becomes_a_short_one)
{
    static char body[(1 << 20) + 64];
    struct events events = {0};
    struct err err;
    size_t len = (size_t)snprintf(body, sizeof body, "{\"type\": \"log\", \"id\": \"");
    memset(body + len, 'x', 1 << 20);
    str_copy(body + len + (1 << 20), 3, "\"}");
    cr_assert(body_notice(body, strlen(body), 0, &events, &err), "%s", err.text);
    cr_assert_eq(strlen(events.list[0].id), 16);
}

/* A member of a wrong type once took its notice, or its deadline, without a word. */
struct wrong_type {
    body_fn *fn;
    const char *body, *wanted, *remark;
};

#define NO_TIME(name, kind) name " is " kind ", not a time in a string: the notice"
#define PREEMPT             "\"EventId\": \"a\", \"EventType\": \"Preempt\""
#define CONDITION(status)   "{\"type\": \"DisruptionTarget\", \"status\": " status "}"
#define ONE_TAINT(members)  "{\"kind\": \"Node\", \"spec\": {\"taints\": [{" members "}]}}"

static void expect_remarks(const struct wrong_type *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct events events = {0};
        struct err err = {.text = ""};
        bool ok = rows[i].fn(rows[i].body, strlen(rows[i].body), &events, &err);
        cr_expect_str_eq(tell(ok, &events), rows[i].wanted, "%s", rows[i].body);
        cr_expect(strstr(events.remark, rows[i].remark), "%s: %s", rows[i].body, events.remark);
    }
}

Test(body, wrong_type_loses_no_notice_of_a_cloud)
{
    static const struct wrong_type rows[] = {
        {azure_of_n1, AZURE("{" PREEMPT ", \"NotBefore\": 1795391940}"), "terminate a",
         NO_TIME("NotBefore", "a number")},
        {azure_of_n1, AZURE("{" PREEMPT ", \"NotBefore\": null}"), "terminate a",
         NO_TIME("NotBefore", "null")},
        {azure_of_n1, AZURE("{" PREEMPT ", \"NotBefore\": {}}"), "terminate a",
         NO_TIME("NotBefore", "an object")},
        {azure_of_n1, AZURE("{" PREEMPT ", \"Resources\": \"n0\"}"), "terminate a ...",
         "Resources is a string, not a list"},
        {azure_of_n1, AZURE("{" PREEMPT ", \"Resources\": [\"n0\", 1]}"), "terminate a",
         "an item of Resources is a number, not a string"},
        {azure_of_n1, AZURE("{" PREEMPT ", \"EventStatus\": 1}"), "terminate a",
         "EventStatus is a number, not a string"},
        {azure_of_n1, AZURE("{\"EventId\": 7, \"EventType\": \"Preempt\"}"), "terminate Preempt-",
         "EventId is a number, not a string"},
        {azure_of_n1, AZURE("{\"EventId\": \"a\", \"EventType\": []}"), " ...",
         "EventType is a list, not a string; an event without a readable EventType"},
        {azure_of_n1,
         AZURE("{\"EventId\": \"a\", \"EventType\": \"Freeze\", \"DurationInSeconds\": \"30\"}"),
         "log? a", "DurationInSeconds is a string, not a number"},
        {azure_of_n1, AZURE("7"), " ...", "an event without a readable EventType"},
        {body_aws_action, "{\"action\": 1, \"time\": \"2017-09-18T08:22:00Z\"}",
         "terminate spot-terminate-2017-09-18T08:22:00Z@1505722920",
         "action is a number, not a string"},
        {body_aws_action, "{\"action\": \"stop\", \"time\": 1505722920}", "terminate spot-stop-",
         NO_TIME("time", "a number")},
        {body_aws_rebalance, "{\"noticeTime\": 1}", "checkpoint? rebalance",
         "noticeTime is a number, not a string"},
        {body_aws_scheduled,
         "[{\"Code\": \"instance-stop\", \"State\": 1, \"EventId\": \"e\", \"NotBefore\": 2}]",
         "terminate e", "State is a number, not a string; " NO_TIME("NotBefore", "a number")},
        {body_aws_scheduled, "[{\"Code\": 1}]", " ...", "Code is a number, not a string"},
        {body_gce_upcoming, "{\"window_start_time\": 1795391940, \"type\": 1}",
         "terminate upcoming-maintenance", NO_TIME("window_start_time", "a number")},
    };
    expect_remarks(rows, ARRAY_LEN(rows));
}

Test(body, wrong_type_loses_no_notice_of_a_file)
{
    static const struct wrong_type rows[] = {
        {notice_of_1000, "{\"type\": \"terminate\", \"deadline\": 7}", "terminate ",
         NO_TIME("deadline", "a number")},
        {notice_of_1000, "{\"type\": \"terminate\", \"deadline_seconds\": \"30\"}", "terminate ",
         "deadline_seconds is no number of seconds within a hundred years: the notice has no"},
        {notice_of_1000, "{\"type\": \"terminate\", \"id\": [], \"text\": {}}", "terminate ",
         "id is a list, not a string; text is an object, not a string"},
    };
    expect_remarks(rows, ARRAY_LEN(rows));
}

static const char *annotation(const char *file, const char *key)
{
    static char text[256];
    struct buf value;
    buf_init(&value, 64);
    bool ok = body_annotation(file, strlen(file), key, &value, NULL);
    snprintf(text, sizeof text, "%s",
             !ok                    ? "bad"
             : buf_len(&value) == 0 ? "none"
                                    : (const char *)buf_bytes(&value));
    buf_free(&value);
    return text;
}

Test(body, annotations)
{
    static const char file[] = "a=\"1\"\nab=\"x\\\"y\\\\\\n\\t\\x41\\u00e4\\u20ac\\U0001f600\"\n"
                               "c=\"no end\nd=\"\\q\"\ne=\"\\u12\"\nf=f\ng=\"last\"";
    cr_expect_str_eq(annotation(file, "a"), "1");
    cr_expect_str_eq(annotation(file, "ab"), "x\"y\\\n\tA\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80");
    cr_expect_str_eq(annotation(file, "c"), "bad");
    cr_expect_str_eq(annotation(file, "d"), "bad");
    cr_expect_str_eq(annotation(file, "e"), "bad");
    cr_expect_str_eq(annotation(file, "f"), "none");
    cr_expect_str_eq(annotation(file, "g"), "last");
    cr_expect_str_eq(annotation(file, "nowhere"), "none");
    cr_expect_str_eq(annotation("", "a"), "none");
}

/* ---- Kubernetes ---- */

static struct pod pod;

static void forget_pod(void)
{
    json_free(pod.root);
    pod = (struct pod){.root = NULL};
}

static bool read_pod(const char *data, size_t len, struct events *ret, struct err *err)
{
    return body_pod(data, len, &pod, ret, err);
}

static bool read_node(const char *data, size_t len, struct events *ret, struct err *err)
{
    return body_node(data, len, &pod, ret, err);
}

#define POD(meta, conditions)                                                   \
    "{\"kind\": \"Pod\", \"metadata\": {\"name\": \"p\", \"uid\": \"u-1\"" meta \
    "}, \"spec\": {\"nodeName\": \"n1\"}, \"status\": {\"conditions\": [" conditions "]}}"
#define DISRUPTED                                             \
    "{\"type\": \"Ready\", \"status\": \"True\"}, "           \
    "{\"type\": \"DisruptionTarget\", \"status\": \"True\", " \
    "\"reason\": \"EvictionByEvictionAPI\", \"message\": \"evicting\"}"
#define DELETED ", \"deletionTimestamp\": \"2026-04-11T22:26:58Z\""

Test(body, wrong_type_loses_no_notice_of_a_pod, .fini = forget_pod)
{
    static const struct wrong_type rows[] = {
        {read_pod, POD(", \"deletionTimestamp\": 1", ""), "terminate pod-u-1",
         NO_TIME("deletionTimestamp", "a number")},
        {read_pod, POD(", \"deletionTimestamp\": null", ""), "", ""},
        {read_pod, POD("", CONDITION("true")), "terminate pod-u-1", "status is a boolean"},
        {read_pod, POD("", CONDITION("false")), "", "status is a boolean, not a string"},
        {read_pod, POD("", CONDITION("null")), "", ""},
        {read_pod, "{\"kind\": \"Pod\", \"status\": {\"conditions\": {}}}", " ...",
         "status.conditions is an object, not a list"},
        {read_pod,
         "{\"kind\": \"Pod\", \"spec\": {\"tolerations\": [{\"key\": 1, \"operator\": "
         "\"Exists\"}, {\"key\": \"k\", \"operator\": \"Exists\", \"tolerationSeconds\": "
         "\"30\"}]}}",
         "", ""},
        {read_node, ONE_TAINT("\"key\": \"k\", \"effect\": \"NoExecute\""),
         "terminate k-:NoExecute", "a member of spec.tolerations is a number, not a string"},
        {read_node, ONE_TAINT("\"key\": \"k\", \"effect\": \"NoExecute\""),
         "terminate k-:NoExecute", "tolerationSeconds is a string, not a whole number"},
        {read_node, ONE_TAINT("\"key\": \"k\", \"effect\": 1"), "terminate k-:NoExecute",
         "effect is a number, not a string"},
        {read_node, ONE_TAINT("\"key\": 1"), " ...", "key is a number, not a string"},
        {read_node, "{\"kind\": \"Node\", \"spec\": {\"taints\": \"k\"}}", " ...",
         "spec.taints is a string, not a list"},
    };
    expect_remarks(rows, ARRAY_LEN(rows));
}

Test(body, pod)
{
    EXPECT_READINGS(
        read_pod, {POD("", ""), ""}, {POD("", "{\"type\": \"Ready\", \"status\": \"False\"}"), ""},
        {POD("", "{\"type\": \"DisruptionTarget\", \"status\": \"False\"}"), ""},
        {POD("", DISRUPTED), "terminate pod-u-1"},
        {POD(DELETED, ""), "terminate pod-u-1@1775946418"},
        {POD(DELETED, DISRUPTED), "terminate pod-u-1@1775946418"}, {"{}", "bad"}, {"[]", "bad"},
        {"", "bad"}, {"{\"kind\": \"Status\", \"status\": \"Failure\"}", "bad"},
        {"{\"kind\": \"Pod\", \"spec\": 7, \"status\": {\"conditions\": [3, {}]}}", ""});
    forget_pod();
}

#define TOLERANT                                                                     \
    "{\"kind\": \"Pod\", \"spec\": {\"nodeName\": \"n1\", \"tolerations\": ["        \
    "{\"key\": \"for-ever\", \"operator\": \"Exists\"}, "                            \
    "{\"key\": \"a-while\", \"operator\": \"Exists\", \"effect\": \"NoExecute\", "   \
    "\"tolerationSeconds\": 300}, "                                                  \
    "{\"key\": \"a-while\", \"operator\": \"Exists\", \"tolerationSeconds\": 200}, " \
    "{\"key\": \"of-value\", \"value\": \"x\", \"tolerationSeconds\": 60}, "         \
    "{\"key\": \"of-effect\", \"operator\": \"Exists\", \"effect\": \"NoSchedule\"}]}}"
#define NODE(taint) \
    "{\"kind\": \"Node\", \"metadata\": {\"uid\": \"u-2\"}, \"spec\": {\"taints\": [" taint "]}}"
#define TAINT(key, effect)                                           \
    "{\"key\": \"" key "\", \"value\": \"x\", \"effect\": \"" effect \
    "\", \"timeAdded\": \"2026-04-11T22:26:58Z\"}"

/* How long a pod stays on a node with a taint is what its tolerations say. */
Test(body, node_by_tolerations)
{
    cr_assert_str_eq(read_with(read_pod, TOLERANT), "");
    cr_assert_str_eq(pod.node, "n1");
    EXPECT_READINGS(
        read_node, {NODE(""), ""}, {NODE(TAINT("for-ever", "NoExecute")), ""},
        {NODE(TAINT("a-while", "NoSchedule")), ""},
        {NODE(TAINT("a-while", "NoExecute")),
         "terminate a-while-2026-04-11T22:26:58Z:NoExecute@1775946618"},
        {NODE(TAINT("of-value", "NoExecute")),
         "terminate of-value-2026-04-11T22:26:58Z:NoExecute@1775946478"},
        {NODE(TAINT("of-effect", "NoExecute")),
         "terminate of-effect-2026-04-11T22:26:58Z:NoExecute"},
        {NODE(TAINT("other", "NoExecute")), "terminate other-2026-04-11T22:26:58Z:NoExecute"},
        {NODE("{\"key\": \"other\", \"effect\": \"NoExecute\"}"), "terminate other-u-2:NoExecute"},
        {NODE("{\"effect\": \"NoExecute\"}"), " ..."}, {"{}", "bad"}, {"", "bad"},
        {"{\"kind\": \"Pod\"}", "bad"});
    forget_pod();
}

/* The effect is part of the taint: a node may have both, and one of them may go. */
Test(body, node_with_a_key_of_two_effects)
{
    cr_assert_str_eq(read_with(read_pod, POD("", "")), "");
    EXPECT_READINGS(read_node, {NODE(TAINT("karpenter.sh/disrupted", "NoSchedule") ", " TAINT(
                                    "karpenter.sh/disrupted", "NoExecute")),
                                "terminate karpenter.sh.disrupted-2026-04-11T22:26:58Z:NoSchedule; "
                                "terminate karpenter.sh.disrupted-2026-04-11T22:26:58Z:NoExecute"});
    forget_pod();
}

/* All tolerations count, however many there are: the last is the one that fits. */
Test(body, pod_of_many_tolerations)
{
    char text[8192] = "{\"kind\": \"Pod\", \"spec\": {\"tolerations\": [";
    for (unsigned i = 0; i < 100; i++)
        str_addf(text, sizeof text, "{\"key\": \"k%u\", \"operator\": \"Exists\"}%s", i,
                 i < 99 ? ", " : "]}}");
    cr_assert_str_eq(read_with(read_pod, text), "");
    cr_expect_str_eq(read_with(read_node, NODE(TAINT("k99", "NoExecute"))), "");
    cr_expect_str_eq(read_with(read_node, NODE(TAINT("k100", "NoExecute"))),
                     "terminate k100-2026-04-11T22:26:58Z:NoExecute");
    forget_pod();
}

/* The version goes into the URL of the next request. Nothing else becomes a part of that URL. */
Test(body, versions_of_pod_and_node)
{
    cr_assert_str_eq(read_with(read_pod, POD(", \"resourceVersion\": \"17\"", "")), "");
    cr_expect_str_eq(pod.version, "17");
    cr_assert_str_eq(read_with(read_node, "{\"kind\": \"Node\", \"metadata\": "
                                          "{\"resourceVersion\": \"9x\"}}"),
                     "");
    cr_expect_str_eq(pod.node_version, "9x");
    cr_assert_str_eq(read_with(read_pod, POD(", \"resourceVersion\": \"1&a=b\"", "")), "");
    cr_expect_str_eq(pod.version, "");
    cr_expect_str_eq(pod.node_version, "9x");
    cr_assert_str_eq(read_with(read_pod, POD("", "")), "");
    cr_expect_str_eq(pod.version, "");
    forget_pod();
}

Test(body, node_that_goes)
{
    cr_assert_str_eq(read_with(read_pod, POD("", "")), "");
    EXPECT_READINGS(
        read_node,
        {NODE("{\"key\": \"ToBeDeletedByClusterAutoscaler\", \"effect\": \"NoSchedule\"}"),
         "terminate ToBeDeletedByClusterAutoscaler-u-2:NoSchedule"},
        {NODE("{\"key\": \"node.kubernetes.io/unschedulable\", \"effect\": \"NoSchedule\"}, "
              "{\"key\": \"karpenter.sh/disrupted\", \"effect\": \"NoSchedule\"}, "
              "{\"key\": \"nvidia.com/gpu\", \"effect\": \"NoSchedule\"}"),
         "log? node.kubernetes.io.unschedulable-u-2:NoSchedule; "
         "terminate karpenter.sh.disrupted-u-2:NoSchedule"});
    forget_pod();
}

/* ---- the tracker ---- */

static struct tracker tracker;

/* Takes the news since the last call. */
static const char *told(void)
{
    static char text[2048];
    text[0] = '\0';
    for (; tracker.news_count > 0; tracker_drop(&tracker, 0)) {
        const struct event *news = &tracker.news[0];
        str_addf(text, sizeof text, "%s%s %s", text[0] ? "; " : "", notice_type_name(news->type),
                 news->id);
        if (news->at_ns != EVENT_AT_UNKNOWN)
            str_addf(text, sizeof text, "@%" PRId64, news->at_ns / NS_PER_S);
    }
    return text;
}

static void begin(struct tracker_rules rules)
{
    tracker = (struct tracker){.rules = rules};
}

static const struct tracker_rules usual = {.lead_ns = 3600 * NS_PER_S, .mild = NOTICE_CANCEL};

static void begin_usual(void)
{
    begin(usual);
}

TestSuite(tracker, .init = begin_usual);

static struct tracker_now now_of(int64_t real_s, int64_t mono_s)
{
    return (struct tracker_now){.real_ns = real_s * NS_PER_S, .mono_ns = mono_s * NS_PER_S};
}

/* Returns what the tracker tells of one event, or of none (NULL). Spot events keep the earliest. */
static const char *update(unsigned topic, const char *key, int64_t at_s, struct tracker_now now)
{
    struct events events = {0};
    (void)told();
    if (key) {
        struct event *event = events_add(&events, NOTICE_TERMINATE, key);
        event->at_ns = at_s < 0 ? EVENT_AT_UNKNOWN : at_s * NS_PER_S;
        event->keeps_earliest = str_starts(key, "spot");
    }
    tracker_update(&tracker, topic, &events, now);
    return told();
}

Test(tracker, event_comes_and_goes)
{
    struct tracker_now now = now_of(10000, 50);
    cr_expect_str_eq(update(0, NULL, 0, now), "");
    cr_expect_str_eq(update(0, "a", 10030, now), "terminate a@80");
    cr_expect_str_eq(update(0, "a", 10030, now), "");
    cr_expect_str_eq(update(0, "a", 10031, now), "", "a second is not material");
    cr_expect_str_eq(update(0, "a", 10020, now), "terminate a@70");
    cr_expect_str_eq(update(0, "a", -1, now), "terminate a");
    cr_expect_str_eq(update(0, "b", -1, now), "terminate b; cancel a");
    cr_expect_str_eq(update(0, NULL, 0, now), "cancel b");
    cr_expect_str_eq(update(0, "a", -1, now), "terminate a", "it has come again");
}

Test(tracker, small_moves_add_up)
{
    struct tracker_now now = now_of(10000, 50);
    update(0, "a", 10030, now);
    cr_expect_str_eq(update(0, "a", 10029, now), "");
    cr_expect_str_eq(update(0, "a", 10028, now), "terminate a@78");
}

Test(tracker, clock_that_steps_moves_nothing)
{
    update(0, "a", 10030, now_of(10000, 50));
    cr_expect_str_eq(update(0, "a", 10030, now_of(99999, 51)), "");
    cr_expect_str_eq(update(0, "a", 10030, now_of(1, 52)), "");
    cr_expect_str_eq(update(0, NULL, 0, now_of(1, 53)), "cancel a@80");
}

Test(tracker, two_topics_of_one_event)
{
    struct tracker_now now = now_of(0, 0);
    cr_expect_str_eq(update(1, "a", -1, now), "terminate a");
    cr_expect_str_eq(update(2, "a", -1, now), "");
    cr_expect_str_eq(update(1, NULL, 0, now), "");
    cr_expect_str_eq(update(2, NULL, 0, now), "cancel a");
}

Test(tracker, absence_is_believed_the_second_time_in_a_row)
{
    struct tracker_now now = now_of(0, 0);
    update(0, "a", -1, now);
    tracker_absent(&tracker, 0, now);
    update(0, "a", -1, now);
    tracker_absent(&tracker, 0, now);
    cr_expect_str_eq(told(), "");
    tracker_absent(&tracker, 1, now); /* another topic's */
    cr_expect_str_eq(told(), "");
    tracker_absent(&tracker, 0, now);
    cr_expect_str_eq(told(), "cancel a");
}

Test(tracker, far_events_are_for_the_record)
{
    cr_expect_str_eq(update(0, "a", 20000, now_of(10000, 0)), "log a@10000");
    cr_expect_eq(tracker_next(&tracker), (10000 - 3600) * NS_PER_S);
    tracker_tick(&tracker, now_of(16399, 6399));
    cr_expect_str_eq(told(), "");
    tracker_tick(&tracker, now_of(16400, 6400));
    cr_expect_str_eq(told(), "terminate a@10000");
    cr_expect_eq(tracker_next(&tracker), CLOCK_NEVER);
    cr_expect_str_eq(update(0, "a", 40000, now_of(16400, 6400)), "log a@30000", "moved away");
}

Test(tracker, deadlines_at_the_ends_of_time)
{
    struct tracker_now now = now_of(1775946418, INT64_MAX / NS_PER_S / 2);
    struct events events = {0};
    events_add(&events, NOTICE_TERMINATE, "first")->at_ns = 0;
    events_add(&events, NOTICE_TERMINATE, "last")->at_ns = INT64_MAX;
    tracker_update(&tracker, 0, &events, now);
    const char *text = told();
    cr_expect(strstr(text, "terminate first@"), "%s", text);
    cr_expect(strstr(text, "log last@9223372036"), "%s", text);
}

Test(tracker, mild_events_ask_for_what_the_user_says)
{
    struct events events = {0};
    events_add(&events, NOTICE_LOG, "m")->is_mild = true;
    struct tracker_rules rules = usual;
    for (int i = 0; i < 2; i++) {
        rules.mild = i ? NOTICE_CHECKPOINT : NOTICE_CANCEL;
        begin(rules);
        tracker_update(&tracker, 0, &events, now_of(0, 0));
        cr_expect_str_eq(told(), i ? "checkpoint m" : "log m");
    }
}

Test(tracker, earliest_deadline_is_kept_where_asked)
{
    struct tracker_now now = now_of(1000, 0);
    cr_expect_str_eq(update(0, "spot", 1120, now), "terminate spot@120");
    cr_expect_str_eq(update(0, "spot", 1130, now), "");
    cr_expect_str_eq(update(0, "spot", -1, now), "");
    cr_expect_str_eq(update(0, "spot", 1060, now), "terminate spot@60");
    cr_expect_str_eq(update(1, "a", 1120, now), "terminate a@120");
    cr_expect_str_eq(update(1, "a", 1130, now), "terminate a@130", "another event of the source");
}

Test(tracker, answer_that_is_not_whole_ends_nothing)
{
    struct events events = {.is_partial = true};
    update(0, "a", -1, now_of(0, 0));
    tracker_update(&tracker, 0, &events, now_of(0, 0));
    cr_expect_str_eq(told(), "");
}

/* An event that one answer has twice, with different contents, would be news for ever. */
Test(event, one_of_each_key)
{
    struct events events = {0};
    cr_expect(events_add(&events, NOTICE_LOG, "a") && events_add(&events, NOTICE_LOG, "b"));
    cr_expect(!events_add(&events, NOTICE_TERMINATE, "a") && !events.is_partial);
    cr_expect(events.count == 2 && events.list[0].type == NOTICE_LOG);
}

Test(tracker, more_than_fit)
{
    for (unsigned topic = 0; topic < 4; topic++) {
        struct events events = {0};
        for (unsigned i = 0; i < EVENTS_MAX + 1; i++) {
            char key[16];
            snprintf(key, sizeof key, "%u-%u", topic, i);
            events_add(&events, NOTICE_LOG, key);
        }
        cr_expect(events.is_partial && events.count == EVENTS_MAX);
        tracker_update(&tracker, topic, &events, now_of(0, 0));
    }
    cr_expect_eq(tracker.count, TRACKER_LIVE_MAX);
}

/* ---- ids ---- */

Test(event, ids)
{
    char id[EVENT_ID_MAX], other[EVENT_ID_MAX], longest[200];
    cr_expect_str_eq(event_id(id, "spot", "2017-09-18T08:22:00Z"), "spot-2017-09-18T08:22:00Z");
    cr_expect_str_eq(event_id(id, "", "C7061BAC-AFDC-4513-B24B-AA5F13A16123"),
                     "C7061BAC-AFDC-4513-B24B-AA5F13A16123");
    event_id(id, "x", "a b");
    event_id(other, "x", "a c");
    cr_expect(str_starts(id, "x-") && strlen(id) == 18 && !str_is(id, other));
    memset(longest, 'n', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    event_id(id, longest, "a");
    event_id(other, longest, "b");
    cr_expect(strlen(id) < EVENT_ID_MAX && !str_is(id, other));
}

Test(event, time_that_cannot_be_read_is_remarked_on)
{
    struct events events = {0};
    struct event *event = events_add(&events, NOTICE_TERMINATE, "a");
    events_set_time(&events, event, "NotBefore", "");
    cr_expect(event->at_ns == EVENT_AT_UNKNOWN && !events.remark[0]);
    events_set_time(&events, event, "NotBefore", "2026-04-11T22:26:58Z");
    cr_expect(event->at_ns == 1775946418 * NS_PER_S && !events.remark[0]);
    events_set_time(&events, event, "NotBefore", "no\nw");
    cr_expect_eq(event->at_ns, EVENT_AT_UNKNOWN);
    cr_expect(
        str_starts(events.remark, "NotBefore is \"no?w\", which is not a time: the notice a "),
        "%s", events.remark);
}

Test(event, remarks_are_all_kept)
{
    struct events events = {0};
    events_remark(&events, "one");
    events_remark(&events, "%d", 2);
    cr_expect_str_eq(events.remark, "one; 2");
    for (int i = 0; i < EVENTS_REMARK_MAX; i++)
        events_remark(&events, "more");
    cr_expect_eq(strlen(events.remark), EVENTS_REMARK_MAX - 1);
}

Test(event, ids_are_of_one_machine)
{
    struct events one = {0}, two;
    events_add(&one, NOTICE_TERMINATE, "preempted");
    two = one;
    events_bind(&one, "boot-1");
    events_bind(&two, "boot-2");
    cr_expect(str_starts(one.list[0].id, "preempted-") && !str_is(one.list[0].id, two.list[0].id));
    cr_expect_str_eq(one.list[0].key, two.list[0].key);
}

/* ---- lines ---- */

Test(say, lines)
{
    char out[SAY_LINE_MAX];
    struct event line = {.type = NOTICE_TERMINATE, .at_ns = 130 * NS_PER_S - 1};
    str_copy(line.id, sizeof line.id, "a-1");
    str_copy(line.text, sizeof line.text, "\"x\"\n\xff");
    size_t len = say_format(&line, 100 * NS_PER_S, out);
    out[len] = '\0';
    cr_expect_str_eq(out,
                     "{\"type\": \"terminate\", \"id\": \"a-1\", \"deadline_seconds\": 29.999, "
                     "\"text\": \"\\\"x\\\"\\n\xef\xbf\xbd\"}\n");
    line = (struct event){.type = NOTICE_CANCEL, .at_ns = 5, .id = "a-1"};
    out[say_format(&line, 0, out)] = '\0';
    cr_expect_str_eq(out, "{\"type\": \"cancel\", \"id\": \"a-1\"}\n");
    line = (struct event){.type = NOTICE_LOG, .at_ns = 99 * NS_PER_S + 1};
    out[say_format(&line, 100 * NS_PER_S, out)] = '\0';
    cr_expect_str_eq(out, "{\"type\": \"log\", \"deadline_seconds\": -1}\n");
}

/* A deadline that is near is told to the millisecond, never later than it is. */
Test(say, seconds)
{
    static const struct {
        int64_t left_ns;
        const char *wanted;
    } rows[] = {
        {2870 * NS_PER_MS, "2.87"},
        {2870 * NS_PER_MS - 1, "2.869"},
        {0, "0"},
        {NS_PER_MS - 1, "0"},
        {-1, "-0.001"},
        {999 * NS_PER_S + 999 * NS_PER_MS, "999.999"},
        {1000 * NS_PER_S + 999 * NS_PER_MS, "1000"},
        {INT64_C(604799999) * NS_PER_MS, "604799"},
        {INT64_C(-604799999) * NS_PER_MS, "-604800"},
        {INT64_C(9000000000) * NS_PER_S, "9000000000"},
    };
    char out[SAY_LINE_MAX], wanted[96];
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct event line = {.type = NOTICE_TERMINATE, .at_ns = rows[i].left_ns};
        out[say_format(&line, 0, out)] = '\0';
        snprintf(wanted, sizeof wanted, "{\"type\": \"terminate\", \"deadline_seconds\": %s}\n",
                 rows[i].wanted);
        cr_expect_str_eq(out, wanted);
    }
}

/* ---- endpoints ---- */

Test(endpoint, addresses)
{
    static const struct endpoint_rule rule = {{"WATCH_A", "WATCH_B"}, "169.254.169.254"};
    char url[ENDPOINT_MAX];
    struct err err;
    cr_assert(endpoint_find(&rule, NULL, "/nowhere", url, &err));
    cr_expect_str_eq(url, "http://169.254.169.254:80");
    setenv("WATCH_B", "h:8080", 1);
    cr_assert(endpoint_find(&rule, NULL, "/nowhere", url, &err));
    cr_expect_str_eq(url, "http://h:8080");
    setenv("WATCH_A", "", 1);
    cr_assert(endpoint_find(&rule, NULL, "/nowhere", url, &err));
    cr_expect_str_eq(url, "http://h:8080");
    cr_assert(endpoint_find(&rule, "http://[fd00:ec2::254]/", "/nowhere", url, &err));
    cr_expect_str_eq(url, "http://[fd00:ec2::254]:80");
    static const char *const bad[] = {"https://h", "ftp://h", "http://", "",    "h:0",       "h:x",
                                      "u@h",       "h/p",     "h?q",     "h h", "h\r\nX: y", "-o"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        cr_expect(!endpoint_find(&rule, bad[i], "/nowhere", url, &err), "%s is taken", bad[i]);
    setenv("WATCH_A", "u@h", 1);
    cr_expect(!endpoint_find(&rule, NULL, "/nowhere", url, &err) && strstr(err.text, "WATCH_A"));
}

Test(endpoint, machines, .init = folder_make, .fini = folder_remove)
{
    static const struct endpoint_rule rule = {
        .variables = {"WATCH_A"},
        .fallback = "169.254.169.254",
        .owner = "X's",
        .marks = {{"product_name", "Google"}, {"bios_version", "amazon"}}};
    char url[ENDPOINT_MAX];
    struct err err;
    cr_expect(endpoint_find(&rule, NULL, folder, url, &err), "a machine that does not say");
    folder_put("sys_vendor", "QEMU\n");
    cr_expect(!endpoint_find(&rule, NULL, folder, url, &err));
    cr_expect(strstr(err.text, "\"QEMU\"") && strstr(err.text, "--endpoint"), "%s", err.text);
    cr_expect(endpoint_find(&rule, "h", folder, url, &err), "the user says where");
    setenv("WATCH_A", "h", 1);
    cr_expect(endpoint_find(&rule, NULL, folder, url, &err), "the environment says where");
    unsetenv("WATCH_A");
    folder_put("product_name", "Google Compute Engine\n");
    cr_expect(endpoint_find(&rule, NULL, folder, url, &err));
    folder_put("product_name", "KVM\n");
    folder_put("bios_version", "4.11.Amazon\n");
    cr_expect(endpoint_find(&rule, NULL, folder, url, &err));
}
