/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as an answer of a metadata service, or as a file that is a notice: the first byte says
 * of which. An accepted answer is made of whole values. The tracker reports the answer as new only
 * once. Its lines are JSON, and fit. A refused answer has an error.
 */
#include "fuzz.h"

#include "base/clock.h"
#include "base/log.h"
#include "watch/answers/body.h"
#include "watch/watchrun.h"
#include "json/json.h"

#include <string.h>

static bool read_azure(const char *data, size_t size, struct events *ret, struct err *err)
{
    return body_azure(data, size, "n1", ret, err);
}

static bool read_notice(const char *data, size_t size, struct events *ret, struct err *err)
{
    return body_notice(data, size, 1775946418 * NS_PER_S, ret, err);
}

static bool read_annotation(const char *data, size_t size, struct events *ret, struct err *err)
{
    struct buf value;
    buf_init(&value, 4096);
    bool ok = body_annotation(data, size, "pchrun/notice", &value, err);
    FUZZ_MUST(!ok || buf_len(&value) == 0 || buf_bytes(&value)[buf_len(&value) - 1] == '\0');
    if (ok && buf_len(&value) > 0)
        ok = read_notice((const char *)buf_bytes(&value), buf_len(&value) - 1, ret, err);
    buf_free(&value);
    return ok;
}

static bool read_none(const char *data, size_t size, struct events *ret, struct err *err)
{
    return body_gce_says_none(data, size) || err_set(err, ERR_PROTOCOL, 0, "it says other things");
}

/* "pod\nnode" */
static bool read_pod_and_node(const char *data, size_t size, struct events *ret, struct err *err)
{
    struct pod pod = {0};
    const char *end = memchr(data, '\n', size);
    size_t len = end ? (size_t)(end - data) : size;
    bool ok = body_pod(data, len, &pod, ret, err);
    if (end && ok)
        ok = body_node(end + 1, size - len - 1, &pod, ret, err);
    FUZZ_MUST(strlen(pod.node) < sizeof pod.node);
    FUZZ_MUST(!strpbrk(pod.version, "&#/ ?") && !strpbrk(pod.node_version, "&#/ ?"));
    json_free(pod.root);
    return ok;
}

/* "since duration" */
static bool read_stop_end(const char *data, size_t size, struct events *ret, struct err *err)
{
    char text[128], *space;
    int64_t at;
    size_t n = size < sizeof text - 1 ? size : sizeof text - 1;
    memcpy(text, data, n);
    text[n] = '\0';
    space = strchr(text, ' ');
    if (!space)
        return err_set(err, ERR_PROTOCOL, 0, "one word only");
    *space = '\0';
    if (!body_gce_stop_end(text, space + 1, &at, err))
        return false;
    FUZZ_MUST(at >= 0);
    events_add(ret, NOTICE_TERMINATE, "stop")->at_ns = at;
    return true;
}

static bool read_date(const char *data, size_t size, struct events *ret, struct err *err)
{
    char text[64];
    int64_t at;
    size_t n = size < sizeof text - 1 ? size : sizeof text - 1;
    memcpy(text, data, n);
    text[n] = '\0';
    if (!date_parse(text, &at))
        return err_set(err, ERR_PROTOCOL, 0, "no date");
    FUZZ_MUST(at >= 0);
    events_add(ret, NOTICE_TERMINATE, "date")->at_ns = at;
    return true;
}

static body_fn *const readers[] = {
    body_gce_maintenance,
    body_gce_preempted,
    body_gce_upcoming,
    body_aws_action,
    body_aws_termination,
    body_aws_rebalance,
    body_aws_scheduled,
    body_aws_lifecycle,
    read_azure,
    read_notice,
    read_annotation,
    read_date,
    body_gce_stop,
    read_none,
    read_stop_end,
    body_alibaba_termination,
    body_tencent_termination,
    read_pod_and_node,
};

static struct tracker tracker;

/* Returns how many news there were since the last call. */
static unsigned take_news(void)
{
    struct err err;
    char line[SAY_LINE_MAX];
    unsigned n = 0;
    for (; tracker.news_count > 0; tracker_drop(&tracker, 0), n++) {
        size_t len = say_format(&tracker.news[0], 1, line);
        FUZZ_MUST(len > 0 && len <= SAY_LINE_MAX && line[len - 1] == '\n');
        FUZZ_MUST(!memchr(line, '\n', len - 1));
        struct json *root = json_read("line", line, len, &err);
        FUZZ_MUST(root && json_text(json_find(root, "type")));
        json_free(root);
    }
    return n;
}

/* The number of different ids: a line has the newest event of one id. */
static unsigned count_ids(const struct events *events)
{
    unsigned n = 0, j;
    for (unsigned i = 0; i < events->count; i++) {
        for (j = 0; j < i && strcmp(events->list[i].id, events->list[j].id) != 0;)
            j++;
        n += j == i;
    }
    return n;
}

static void tell(const struct events *events)
{
    struct tracker_rules rules = {.lead_ns = 3600 * NS_PER_S, .mild = NOTICE_CANCEL};
    struct tracker_now now = {.real_ns = 1775946418 * NS_PER_S, .mono_ns = 1};
    tracker = (struct tracker){.rules = rules};
    tracker_update(&tracker, 0, events, now);
    unsigned ids = count_ids(events);
    FUZZ_MUST(take_news() == ids && tracker.count == events->count);
    tracker_tick(&tracker, now);
    FUZZ_MUST(take_news() == 0);
    tracker_update(&tracker, 0, &(struct events){0}, now);
    FUZZ_MUST(take_news() == ids && tracker.count == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct events events = {0};
    struct err err = {.text = ""};
    log_init(&(struct log_options){.level = LOG_ERROR});
    if (size == 0)
        return 0;
    /* From '0' on, so that the inputs that are kept mean the same when a reader is added. */
    uint8_t number = (uint8_t)(data[0] - '0');
    body_fn *reader = readers[number % (sizeof readers / sizeof readers[0])];
    if (!reader((const char *)data + 1, size - 1, &events, &err)) {
        FUZZ_MUST(err.text[0]);
        return 0;
    }
    FUZZ_MUST(events.count <= EVENTS_MAX);
    for (unsigned i = 0; i < events.count; i++)
        FUZZ_MUST(events.list[i].type < NOTICE_CANCEL);
    tell(&events);
    return 0;
}
