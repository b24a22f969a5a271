/* SPDX-License-Identifier: Apache-2.0
 *
 * azure: Azure's scheduled events, polled. They list all machines of a set, so the first request
 * asks for this machine's name. The first poll turns the service on, which may take two minutes.
 * Until the first answer, each poll's timeout is twice the last one's.
 *
 * With --acknowledge instead: approves one event, so that it begins at once on every machine that
 * it names. Use this option once, after the checkpoint is committed.
 */
#include "base/log.h"
#include "base/str.h"
#include "watch/answers/body.h"
#include "watch/watchrun.h"
#include "json/writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_PATH     "/metadata/instance/compute/name?api-version=2021-02-01&format=text"
#define EVENTS_PATH   "/metadata/scheduledevents?api-version=2020-07-01"
#define HEADER        "Metadata: true"
#define FIRST_FACTOR  65 /* maximum of `timeouts`: two minutes for a timeout of 2 s */
#define NAME_TRIES    10 /* after these, all events count as ours */
#define ACK_TRIES     5
#define ACK_BODY_MAX  4096
#define BODY_MAX      (4 * 1024 * 1024) /* an answer may list the events of many machines */
#define NAME_MAX_SIZE 128

static struct azure {
    struct watch_timer timer;
    char name[NAME_MAX_SIZE]; /* "": not known */
    int64_t timeouts;         /* the next poll waits this many times the timeout */
    int64_t began_ns;
    struct trouble name_trouble, events_trouble;
    unsigned acks;
    const char *ack_body;
} azure;

static void azure_ask(enum http_method method, const char *path, int64_t timeouts, http_fn *fn)
{
    char url[ENDPOINT_MAX + 100];
    snprintf(url, sizeof url, "%s%s", watch.server, path);
    http_start(&(struct http_request){
        .method = method,
        .url = url,
        .headers = {HEADER, method == HTTP_POST ? "Content-Type: application/json" : NULL},
        .body = azure.ack_body,
        .body_max = BODY_MAX,
        .timeout_ns = timeouts * watch.options.timeout_ns,
        .fn = fn});
}

/* ---- the polls ---- */

static void on_events(void *ctx, const struct http_answer *answer)
{
    struct events events = {0};
    struct err err;
    if (http_is_ok(answer, &err) &&
        body_azure(answer->body, answer->len, azure.name, &events, &err)) {
        azure.timeouts = 1;
        watch_tell(0, &events);
        watch_works(&azure.events_trouble, "scheduledevents");
    } else {
        if (!watch.answered) /* the service is not on yet */
            azure.timeouts = clock_min(2 * azure.timeouts, FIRST_FACTOR);
        watch_failed(&azure.events_trouble, "scheduledevents", &err);
    }
    watch_poll_again(&azure.timer, azure.began_ns);
}

/* A stop for another machine's event is better than a loss of unsaved work. */
static void fail_name(const struct err *err)
{
    watch_failed(&azure.name_trouble, "the name of this machine", err);
    if (azure.name_trouble.times == NAME_TRIES)
        log_warn("azure", "the name of this machine is unknown (set --name): events of "
                          "all machines of its scale set count as its own");
}

static void on_name(void *ctx, const struct http_answer *answer)
{
    struct err err;
    bool ok = http_is_ok(answer, &err);
    if (ok && http_is_word(answer, NAME_MAX_SIZE)) {
        memcpy(azure.name, answer->body, answer->len);
        watch_works(&azure.name_trouble, "the name of this machine");
    } else {
        if (ok)
            err_set(&err, ERR_PROTOCOL, 0, "the answer is not a name");
        fail_name(&err);
    }
    watch_poll_again(&azure.timer, azure.name[0] ? 0 : azure.began_ns);
}

static void azure_poll_once(void *ctx)
{
    azure.began_ns = clock_now_ns();
    if (azure.name[0] || azure.name_trouble.times >= NAME_TRIES)
        azure_ask(HTTP_GET, EVENTS_PATH, azure.timeouts, on_events);
    else
        azure_ask(HTTP_GET, NAME_PATH, 1, on_name);
}

/* ---- the acknowledgement ---- */

static void on_ack(void *ctx, const struct http_answer *answer);

static void acknowledge(void *ctx)
{
    azure_ask(HTTP_POST, EVENTS_PATH, 1, on_ack);
}

static void on_ack(void *ctx, const struct http_answer *answer)
{
    struct err err;
    if (http_is_ok(answer, &err)) {
        log_info("azure", "event %s is acknowledged", watch.options.acknowledge);
        watch_finish(EXIT_SUCCESS);
    } else if (++azure.acks < ACK_TRIES) {
        watch_after(&azure.timer, watch.options.interval_ns);
    } else {
        log_error("azure",
                  "event %s could not be acknowledged in %d attempts: %s; it begins at "
                  "its scheduled time",
                  watch.options.acknowledge, ACK_TRIES, err.text);
        watch_finish(EXIT_FAILURE);
    }
}

/* {"StartRequests": [{"EventId": "…"}]}; kept to the end of the process. */
static bool make_ack(const char *id, struct err *err)
{
    static struct writer w;
    writer_init(&w, ACK_BODY_MAX, WRITER_LINE);
    writer_object(&w, NULL);
    writer_list(&w, "StartRequests");
    writer_object(&w, NULL);
    writer_text(&w, "EventId", id);
    writer_end(&w);
    writer_end(&w);
    writer_end(&w);
    azure.ack_body = writer_done(&w, NULL);
    return azure.ack_body || err_set(err, ERR_USAGE, 0, "--acknowledge: the id is too long");
}

static const struct endpoint_rule azure_rule = {
    .owner = "Azure's", .fallback = "169.254.169.254", .marks = {{"sys_vendor", "Microsoft"}}};

static bool azure_start(struct err *err)
{
    const char *id = watch.options.acknowledge;
    azure = (struct azure){.timer = {.fn = id ? acknowledge : azure_poll_once}, .timeouts = 1};
    str_copy(azure.name, sizeof azure.name, watch.options.name);
    if (id && !make_ack(id, err))
        return false;
    azure.timer.fn(NULL);
    return true;
}

const struct source source_azure = {
    .word = {"azure",
             "Azure: scheduled events of this machine; or acknowledges one (--acknowledge)", NULL,
             " acknowledge endpoint name timeout "},
    .interval_ns = NS_PER_S,
    .rule = &azure_rule,
    .topics = 1,
    .late = "the first request turns the service on, which may take two minutes",
    .start = azure_start,
};
