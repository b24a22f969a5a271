/* SPDX-License-Identifier: Apache-2.0
 *
 * gce: the metadata server of Google Compute Engine. Each key has one hanging request: the server
 * answers when the value changes, or after `hang`. The first request asks for the present value,
 * because the server gives its 60 seconds of warning only after an earlier request. If hanging
 * requests fail or return at once, the key is polled for a while.
 *
 * Two more keys say when the machine's stop will be complete. They are requested once a stop is
 * seen. The notice waits for their answers or the first failure. After a failure they are requested
 * again, and the notice gets its deadline later.
 */
#include "base/log.h"
#include "base/str.h"
#include "watch/answers/body.h"
#include "watch/watchrun.h"

#include <inttypes.h>
#include <stdio.h>

#define INSTANCE      "/computeMetadata/v1/instance/"
#define QUICK_NS      (100 * NS_PER_MS) /* no two changes follow each other so soon */
#define BAD_HANGS_MAX 2
#define POLLS         300 /* polls, until a hanging request is tried again */
#define ABSENT_FACTOR 30  /* times the interval, for a key that this machine lacks */
#define RETRY_NS      (100 * NS_PER_MS)
#define RETRY_FACTOR  5 /* times the interval, at most */
#define HANG_TIMEOUTS 5 /* times the timeout: how late a hanging request's answer may be */

static struct asker {
    const char *path, *query; /* below instance/ */
    body_fn *read;
    struct watch_timer timer;
    struct trouble trouble;
    char etag[40];
    bool is_hanging; /* the request under way is a hanging one */
    int64_t asked_ns;
    unsigned bad_hangs, polls_left;
} askers[] = {
    {"maintenance-event", "", body_gce_maintenance},
    {"preempted", "", body_gce_preempted},
    {"upcoming-maintenance", "alt=json&", body_gce_upcoming},
    {"shutdown-details/stop-state", "", body_gce_stop},
};
enum { KEY_STOP = 3 };

static struct stop {
    struct watch_timer timer;
    struct trouble trouble;
    unsigned waiting;     /* outstanding answers */
    struct events events; /* of stop-state, without the deadline; none: no stop is announced */
    int64_t end_ns;       /* EVENT_AT_UNKNOWN: not known yet */
    struct err err;       /* of the first answer that failed */
} stop;

/* Two more keys, which say when the stop ends, and their answers. */
static struct detail {
    const char *path;
    char word[64];
} stop_since = {"shutdown-details/request-timestamp"},
  stop_lasts = {"shutdown-details/max-duration"};

/* `path` is below instance/, with the query. */
static void gce_send(const char *path, int64_t timeout_ns, http_fn *fn, void *ctx)
{
    char url[ENDPOINT_MAX + 340];
    snprintf(url, sizeof url, "%s" INSTANCE "%s", watch.server, path);
    http_start(&(struct http_request){.url = url,
                                      .headers = {"Metadata-Flavor: Google"},
                                      .timeout_ns = timeout_ns,
                                      .fn = fn,
                                      .ctx = ctx});
}

static void gce_on_answer(void *ctx, const struct http_answer *answer);

static void gce_ask(void *ctx)
{
    struct asker *asker = ctx;
    const struct watch_options *options = &watch.options;
    char path[300], hang[120] = "";
    int64_t hang_s = (options->hang_ns + NS_PER_S - 1) / NS_PER_S;
    asker->is_hanging = asker->etag[0] && asker->polls_left == 0 && asker->trouble.times == 0;
    if (asker->is_hanging)
        snprintf(hang, sizeof hang, "wait_for_change=true&timeout_sec=%" PRId64 "&last_etag=%s",
                 hang_s, asker->etag);
    snprintf(path, sizeof path, "%s%s%s%s", asker->path, asker->query[0] || hang[0] ? "?" : "",
             asker->query, hang);
    asker->asked_ns = clock_now_ns();
    gce_send(path,
             asker->is_hanging ? HANG_TIMEOUTS * options->timeout_ns + hang_s * NS_PER_S
                               : options->timeout_ns,
             gce_on_answer, asker);
}

/* A hanging request failed or returned at once. */
static void count_bad_hang(struct asker *asker)
{
    if (++asker->bad_hangs < BAD_HANGS_MAX)
        return;
    asker->bad_hangs = 0;
    asker->polls_left = POLLS;
    log_debug("gce", "%s: the server does not hold long-poll requests; pchrun-watch polls instead",
              asker->path);
}

/* The first retry comes soon: a restarting server is away for less than a second, and it often
 * restarts when an event comes. */
static void gce_fail(struct asker *asker, const struct err *err)
{
    int64_t most = RETRY_FACTOR * watch.options.interval_ns;
    int64_t first = clock_min(RETRY_NS, watch.options.interval_ns);
    unsigned failures = asker->trouble.times;
    int64_t wait = failures < 10 ? first << failures : most;
    if (asker->is_hanging)
        count_bad_hang(asker);
    watch_failed(&asker->trouble, asker->path, err);
    watch_after(&asker->timer, clock_min(wait, most));
}

/* After a valid answer: chooses the next request. */
static void gce_go_on(struct asker *asker, const char *etag)
{
    bool is_quick = clock_now_ns() - asker->asked_ns < QUICK_NS;
    if (asker->is_hanging && is_quick)
        count_bad_hang(asker);
    else if (asker->is_hanging)
        asker->bad_hangs = 0;
    else if (asker->polls_left > 0)
        asker->polls_left--;
    bool needs_escaping = !str_is_of(etag, STR_LETTERS STR_DIGITS "-_"); /* in a URL */
    if (needs_escaping || !str_copy(asker->etag, sizeof asker->etag, etag))
        asker->etag[0] = '\0';
    bool can_hang = asker->etag[0] && asker->polls_left == 0;
    watch_after(&asker->timer, can_hang ? 0 : watch.options.interval_ns);
}

enum said { SAID_NOTHING, SAID_ABSENT, SAID_VALUE };

/* Only answers with the metadata server's header count. A 503 with a special text means that no
 * maintenance was ever announced. SAID_NOTHING: *err says why. */
static enum said gce_judge(const struct http_answer *answer, struct err *err)
{
    bool may_be_none = answer->status == 503 || answer->status == 200;
    if (answer->status != 0 && !str_is(answer->flavor, "Google")) {
        err_set(err, ERR_PROTOCOL, 0,
                "HTTP %d, but not from the metadata server: there is no \"Metadata-Flavor: "
                "Google\"",
                answer->status);
        return SAID_NOTHING;
    }
    if (answer->status == 404 || (may_be_none && body_gce_says_none(answer->body, answer->len)))
        return SAID_ABSENT;
    return http_is_ok(answer, err) ? SAID_VALUE : SAID_NOTHING;
}

/* ---- when a stop ends ---- */

static void tell_stop(void)
{
    if (stop.events.count > 0)
        stop.events.list[0].at_ns = stop.end_ns;
    watch_tell(KEY_STOP, &stop.events);
}

/* Both answers have come: send the notice, with or without a deadline. */
static void settle_stop(void)
{
    bool ok = !stop.err.text[0] &&
              body_gce_stop_end(stop_since.word, stop_lasts.word, &stop.end_ns, &stop.err);
    if (stop.events.count == 0)
        return;
    if (ok) {
        watch_works(&stop.trouble, "the time of the stop");
    } else {
        stop.end_ns = EVENT_AT_UNKNOWN;
        watch_failed(&stop.trouble, "the time of the stop", &stop.err);
        watch_after(&stop.timer, RETRY_FACTOR * watch.options.interval_ns);
    }
    tell_stop();
}

static void on_detail(void *ctx, const struct http_answer *answer)
{
    struct detail *detail = ctx;
    struct err err = {.text = ""};
    enum said said = gce_judge(answer, &err);
    bool ok = said == SAID_VALUE;
    if (said == SAID_ABSENT)
        err_set(&err, ERR_PROTOCOL, 0, "HTTP %d", answer->status);
    if (ok && !bodytext_word(answer->body, answer->len, detail->word, sizeof detail->word))
        ok = err_set(&err, ERR_PROTOCOL, 0, "the answer is not a word");
    if (!ok && !stop.err.text[0]) {
        stop.err = err;
        (void)err_wrap(&stop.err, "%s", detail->path);
    }
    if (--stop.waiting == 0)
        settle_stop();
}

static void ask_details(void *ctx)
{
    if (stop.events.count == 0 || stop.waiting > 0)
        return;
    stop.err = (struct err){.text = ""};
    stop.waiting = 2;
    gce_send(stop_since.path, watch.options.timeout_ns, on_detail, &stop_since);
    gce_send(stop_lasts.path, watch.options.timeout_ns, on_detail, &stop_lasts);
}

/* Handles an answer of stop-state. */
static void take_stop(const struct events *events)
{
    bool was_on = stop.events.count > 0, is_on = events->count > 0;
    stop.events = *events;
    if (!is_on)
        stop.end_ns = EVENT_AT_UNKNOWN;
    if (is_on && !was_on)
        ask_details(NULL);
    else if (!is_on || stop.waiting == 0)
        tell_stop();
}

/* ---- answers ---- */

/* The key is missing or empty. One such answer does not count yet (tracker.h), so the next request
 * comes soon. */
static void take_absence(struct asker *asker, unsigned topic)
{
    int64_t wait = watch.options.interval_ns;
    bool is_believed = watch_absent(topic);
    if (is_believed)
        wait *= ABSENT_FACTOR;
    if (is_believed && topic == KEY_STOP)
        stop.events.count = 0;
    asker->etag[0] = '\0';
    watch_after(&asker->timer, wait);
}

static void gce_take_value(unsigned topic, struct events *events)
{
    watch.tracker.absences[topic] = 0; /* a stop is reported later */
    events_bind(events, watch.boot_id);
    if (topic == KEY_STOP)
        take_stop(events);
    else
        watch_tell(topic, events);
}

static void gce_on_answer(void *ctx, const struct http_answer *answer)
{
    struct asker *asker = ctx;
    struct events events = {0};
    struct err err;
    unsigned topic = (unsigned)(asker - askers);
    enum said said = gce_judge(answer, &err);
    if (said == SAID_ABSENT) {
        watch_works(&asker->trouble, asker->path);
        take_absence(asker, topic);
    } else if (said == SAID_NOTHING || !asker->read(answer->body, answer->len, &events, &err)) {
        gce_fail(asker, &err);
    } else {
        watch_works(&asker->trouble, asker->path);
        gce_take_value(topic, &events);
        gce_go_on(asker, answer->etag);
    }
}

static const struct endpoint_rule gce_rule = {
    {"GCE_METADATA_HOST", "GCE_METADATA_ROOT", "GCE_METADATA_IP"},
    "169.254.169.254",
    "Google Compute Engine's",
    {{"product_name", "Google"}}};

static bool gce_start(struct err *err)
{
    stop = (struct stop){.timer = {.fn = ask_details}, .end_ns = EVENT_AT_UNKNOWN};
    for (size_t i = 0; i < ARRAY_LEN(askers); i++) {
        askers[i].timer = (struct watch_timer){.fn = gce_ask, .ctx = &askers[i]};
        gce_ask(&askers[i]);
    }
    return true;
}

const struct source source_gce = {
    .word = {"gce", "Google Compute Engine: maintenance, preemption, and a graceful stop", NULL,
             " endpoint hang timeout "},
    .interval_ns = NS_PER_S,
    .rule = &gce_rule,
    .topics = ARRAY_LEN(askers),
    .start = gce_start,
};
