/* SPDX-License-Identifier: Apache-2.0
 *
 * aws: the instance metadata service of Amazon EC2, polled. Each poll asks for all paths at once,
 * with a token (IMDSv2); where none can be had, as in a container behind one hop too many, without
 * (IMDSv1). A path that is not there (404) has nothing to tell.
 */
#include "base/log.h"
#include "base/str.h"
#include "watch/body.h"
#include "watch/endpoint.h"
#include "watch/sources.h"
#include "watch/trouble.h"

#include <stdio.h>
#include <string.h>

#define TOKEN_MAX      1024
#define TOKEN_TTL_S    21600 /* what is asked for, and the most that there is */
#define TOKEN_EARLY_S  15    /* a new one is fetched so long before the end, or after half of it */
#define TOKEN_RETRY_NS (60 * NS_PER_S)
#define SLOWLY         30 /* what is announced days ahead is asked for in every 30th poll */

struct aws_path {
    const char *path; /* below latest/meta-data/ */
    body_fn *read;
    bool is_slow, needs_machine;
};
static const struct aws_path paths[] = {
    {"spot/instance-action", body_aws_action, false, false},
    {"spot/termination-time", body_aws_termination, false, false},
    {"events/recommendations/rebalance", body_aws_rebalance, false, false},
    {"events/maintenance/scheduled", body_aws_scheduled, true, false},
    {"autoscaling/target-lifecycle-state", body_aws_lifecycle, false, true},
};

static struct aws {
    struct watch *watch;
    struct loop_timer timer;
    char endpoint[ENDPOINT_MAX], boot_id[64];
    char token[TOKEN_MAX];   /* "": none */
    int64_t token_until_ns;  /* then it is replaced */
    int64_t token_retry_ns;  /* then it is asked for again */
    bool is_refused;         /* the token was, in this poll */
    bool has_renewed;        /* ... and replaced at once */
    unsigned polls, waiting; /* answers that this poll still waits for */
    int64_t began_ns;
    struct trouble token_trouble;
    struct asked {
        struct trouble trouble;
    } asked[ARRAY_LEN(paths)];
} aws;

static void poll_all(void *ctx);

/* ---- the token ---- */

/* It becomes a header of ours: one line, of what can be printed. */
static bool is_token(const char *data, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (data[i] <= ' ' || data[i] > '~')
            return false;
    return len > 0 && len < TOKEN_MAX;
}

static void keep_token(const struct http_answer *answer)
{
    int64_t ttl_s;
    if (!str_to_i64(answer->ttl, 1, TOKEN_TTL_S, &ttl_s))
        ttl_s = TOKEN_TTL_S;
    int64_t early_ns = clock_min(TOKEN_EARLY_S * NS_PER_S, ttl_s * NS_PER_S / 2);
    memcpy(aws.token, answer->body, answer->len);
    aws.token[answer->len] = '\0';
    aws.token_until_ns = clock_now_ns() + ttl_s * NS_PER_S - early_ns;
}

static void ask_all(void);

static void complain_of_token(const struct http_answer *answer)
{
    struct err err;
    char why[200];
    if (answer->status == 0)
        str_fit(why, sizeof why, answer->err.text);
    else
        snprintf(why, sizeof why, "HTTP %d, and no token", answer->status);
    err_set(
        &err, ERR_PROTOCOL, 0,
        "%s. It is asked without (IMDSv1); in a container the hop limit of the metadata service "
        "may have to be 2",
        why);
    trouble_say(&aws.token_trouble, "aws", "the token (IMDSv2)", &err);
}

/* Without a token the poll goes on as IMDSv1 has it. One that does not come at all costs time, so
 * that it is not asked for in every poll; nor where there is none to be had. */
static void on_token(void *ctx, const struct http_answer *answer)
{
    if (answer->status == 200 && is_token(answer->body, answer->len)) {
        keep_token(answer);
        trouble_over(&aws.token_trouble, "aws", "the token (IMDSv2)");
    } else {
        bool comes_back = answer->status >= 429;
        aws.token[0] = '\0';
        aws.token_retry_ns = comes_back ? 0 : clock_now_ns() + TOKEN_RETRY_NS;
        complain_of_token(answer);
    }
    ask_all();
}

static void ask_token(void)
{
    char url[ENDPOINT_MAX + 40], ttl[80];
    snprintf(url, sizeof url, "%s/latest/api/token", aws.endpoint);
    snprintf(ttl, sizeof ttl, "X-aws-ec2-metadata-token-ttl-seconds: %d", TOKEN_TTL_S);
    http_start(aws.watch->loop.http,
               &(struct http_request){.method = HTTP_PUT,
                                      .url = url,
                                      .headers = {ttl},
                                      .timeout_ns = aws.watch->options.timeout_ns,
                                      .fn = on_token});
}

/* ---- the paths ---- */

/* A poll is over. One whose token was refused is repeated with a new one at once, but not twice. */
static void end_poll(void)
{
    int64_t next = aws.began_ns + aws.watch->options.interval_ns - clock_now_ns();
    bool is_again = aws.is_refused && !aws.has_renewed;
    aws.has_renewed = is_again;
    if (is_again)
        aws.polls--;
    watch_after(aws.watch, &aws.timer, is_again || next < 0 ? 0 : next);
}

static void refuse_token(struct err *err)
{
    aws.is_refused = true;
    aws.token_retry_ns = 0;
    err_set(err, ERR_PROTOCOL, 0, "HTTP 401: %s",
            aws.token[0] ? "the token is not accepted" : "only with a token (IMDSv2)");
}

static void take_answer(unsigned topic, const struct http_answer *answer)
{
    const struct aws_path *path = &paths[topic];
    struct trouble *trouble = &aws.asked[topic].trouble;
    struct events events;
    struct err err = answer->err;
    bool ok = answer->status == 404;
    if (ok) {
        watch_absent(aws.watch, topic);
    } else if (answer->status == 200) {
        ok = path->read(answer->body, answer->len, &events, &err);
        if (ok && path->needs_machine)
            events_bind(&events, aws.boot_id);
        if (ok)
            watch_tell(aws.watch, topic, &events);
    } else if (answer->status == 401) {
        refuse_token(&err);
    } else if (answer->status != 0) {
        err_set(&err, ERR_PROTOCOL, 0, "HTTP %d", answer->status);
    }
    if (ok)
        trouble_over(trouble, "aws", path->path);
    else if (answer->status != 401 || aws.has_renewed || !aws.token[0])
        trouble_say(trouble, "aws", path->path, &err);
}

static void on_answer(void *ctx, const struct http_answer *answer)
{
    const struct asked *asked = ctx;
    take_answer((unsigned)(asked - aws.asked), answer);
    if (--aws.waiting > 0)
        return;
    if (aws.is_refused)
        aws.token[0] = '\0';
    end_poll();
}

static void ask_path(unsigned topic)
{
    char url[ENDPOINT_MAX + 100], token[TOKEN_MAX + 40];
    snprintf(url, sizeof url, "%s/latest/meta-data/%s", aws.endpoint, paths[topic].path);
    snprintf(token, sizeof token, "X-aws-ec2-metadata-token: %s", aws.token);
    aws.waiting++;
    http_start(aws.watch->loop.http,
               &(struct http_request){.url = url,
                                      .headers = {aws.token[0] ? token : NULL},
                                      .timeout_ns = aws.watch->options.timeout_ns,
                                      .fn = on_answer,
                                      .ctx = &aws.asked[topic]});
}

static void ask_all(void)
{
    for (unsigned i = 0; i < ARRAY_LEN(paths); i++)
        if (!paths[i].is_slow || aws.polls % SLOWLY == 0)
            ask_path(i);
    aws.polls++;
}

static void poll_all(void *ctx)
{
    int64_t now = clock_now_ns();
    bool is_old = aws.token[0] && now >= aws.token_until_ns;
    aws.began_ns = now;
    aws.is_refused = false;
    if (is_old || (!aws.token[0] && now >= aws.token_retry_ns))
        ask_token();
    else
        ask_all();
}

static bool start(struct watch *watch, struct err *err)
{
    static const struct endpoint_rule rule = {{"AWS_EC2_METADATA_SERVICE_ENDPOINT"},
                                              "169.254.169.254"};
    static const struct endpoint_mark marks[] = {
        {"sys_vendor", "Amazon"},   {"bios_vendor", "Amazon"}, {"board_vendor", "Amazon"},
        {"bios_version", "amazon"}, {"product_uuid", "ec2"},   {NULL, NULL}};
    bool is_given;
    aws = (struct aws){.watch = watch, .timer = {.fn = poll_all}};
    if (!endpoint_choose(&rule, watch->options.endpoint, aws.endpoint, &is_given, err))
        return false;
    if (!is_given && !endpoint_is_here("Amazon EC2's", marks, ENDPOINT_DMI, err))
        return false;
    if (!http_open(watch->loop.http, err))
        return false;
    endpoint_boot_id(aws.boot_id, sizeof aws.boot_id);
    poll_all(NULL);
    return true;
}

const struct source source_aws = {
    .name = "aws",
    .help = "Amazon EC2: spot interruption, rebalance, scheduled maintenance, auto-scaling",
    .options = " endpoint timeout ",
    .interval_ns = 2 * NS_PER_S,
    .lead_ns = 3600 * NS_PER_S,
    .keeps_earliest = true,
    .start = start,
};
