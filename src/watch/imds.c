/* SPDX-License-Identifier: Apache-2.0
 *
 * imds: polls the instance metadata service of clouds whose service works like Amazon's. Each poll
 * requests all paths at once, with a token from a PUT if the service gives one. A missing path
 * (404) means no event. A row for each cloud, at the end, describes what differs.
 *
 * Oracle's cloud is missing: its documentation announces preemptions only by its event service, not
 * by the metadata service.
 */
#include "base/str.h"
#include "watch/answers/body.h"
#include "watch/watchrun.h"

#include <stdio.h>
#include <string.h>

#define TOKEN_MAX      1024
#define TOKEN_TTL_S    21600 /* requested, and the maximum */
#define TOKEN_EARLY_S  15    /* fetch a new one this long before its end, or at half its lifetime */
#define TOKEN_RETRY_NS (60 * NS_PER_S)
#define SLOWLY         12 /* slow rows are requested in every 12th poll */

#define IMDS_PATHS_MAX TRACKER_TOPICS_MAX

struct imds_cloud {
    struct endpoint_rule rule;
    const char *token;   /* "the token (IMDSv2)"; NULL: the cloud has none */
    const char *without; /* the name of requests without a token: " (IMDSv1)" */
    const char *token_header,
        *ttl_header; /* the header of a request with a token, and the header of the PUT */
    struct imds_path {
        const char *path; /* below latest/meta-data/ */
        body_fn *read;
        bool is_slow;       /* announced days ahead: not in every poll */
        bool needs_machine; /* the answer has no unique id (events_bind()) */
    } paths[IMDS_PATHS_MAX + 1];
};

static struct imds {
    const struct imds_cloud *cloud;
    struct watch_timer timer;
    char token[TOKEN_MAX];   /* "": none */
    int64_t token_at_ns;     /* when the token is to be requested or replaced */
    bool is_refused;         /* this poll's token was refused */
    bool has_renewed;        /* and the poll is repeated with a new token */
    bool has_answered;       /* a path has answered in this poll */
    unsigned polls, waiting; /* answers that this poll still waits for */
    int64_t began_ns;
    bool is_token_late;   /* the last token request timed out */
    struct err token_err; /* why there is no token; "": no problem */
    struct trouble token_trouble;
    struct trouble troubles[IMDS_PATHS_MAX]; /* of the paths */
} imds;

/* ---- the token ---- */

static void keep_token(const struct http_answer *answer)
{
    int64_t ttl_s;
    if (!str_to_i64(answer->ttl, 1, TOKEN_TTL_S, &ttl_s))
        ttl_s = TOKEN_TTL_S;
    int64_t early_ns = clock_min(TOKEN_EARLY_S * NS_PER_S, ttl_s * NS_PER_S / 2);
    memcpy(imds.token, answer->body, answer->len);
    imds.token[answer->len] = '\0';
    imds.token_at_ns = clock_now_ns() + ttl_s * NS_PER_S - early_ns;
}

static void ask_all(void);

/* Explains a missing token. Only the PUT's answer has a hop limit. A container that is one network
 * hop too far away gets all other answers. */
static const char *reason_of_silence(void)
{
    if (!imds.is_token_late)
        return "";
    return imds.has_answered
               ? ", though the service answers: the hop limit of the metadata service is too small "
                 "for this container; set it to 2"
               : "; in a container the hop limit of the metadata service may have to be 2";
}

/* Call at the end of a poll, when it is known whether the paths have answered. */
static void complain_of_token(void)
{
    struct err err;
    if (!imds.token_err.text[0])
        return;
    err_set(&err, ERR_PROTOCOL, 0, "%.160s%s; requests are sent without a token%s",
            imds.token_err.text, reason_of_silence(), imds.cloud->without);
    watch_failed(&imds.token_trouble, imds.cloud->token, &err);
    imds.token_err.text[0] = '\0';
}

/* Without a token the poll continues as in IMDSv1. A missing token costs time, so not every poll
 * requests a token. If the service has no tokens, no poll does. */
static void on_token(void *ctx, const struct http_answer *answer)
{
    if (answer->status == 200 && http_is_word(answer, TOKEN_MAX)) {
        keep_token(answer);
        watch_works(&imds.token_trouble, imds.cloud->token);
    } else {
        bool comes_back = answer->status >= 429;
        imds.token[0] = '\0';
        imds.token_at_ns = comes_back ? 0 : clock_now_ns() + TOKEN_RETRY_NS;
        imds.is_token_late = answer->is_late;
        imds.token_err = answer->err;
        if (answer->status != 0)
            err_set(&imds.token_err, ERR_PROTOCOL, 0, "HTTP %d instead of a token", answer->status);
    }
    ask_all();
}

static void ask_token(void)
{
    char url[ENDPOINT_MAX + 40], ttl[80];
    snprintf(url, sizeof url, "%s/latest/api/token", watch.server);
    snprintf(ttl, sizeof ttl, "%s: %d", imds.cloud->ttl_header, TOKEN_TTL_S);
    http_start(&(struct http_request){.method = HTTP_PUT,
                                      .url = url,
                                      .headers = {ttl},
                                      .timeout_ns = watch.options.timeout_ns,
                                      .fn = on_token});
}

/* ---- the paths ---- */

/* Ends a poll. If its token was refused, repeats the poll once with a new token. */
static void imds_end_poll(void)
{
    complain_of_token();
    bool is_again = imds.is_refused && !imds.has_renewed;
    imds.has_renewed = is_again;
    if (is_again)
        imds.polls--;
    watch_poll_again(&imds.timer, is_again ? 0 : imds.began_ns);
}

/* For a missing token some services answer 401, some 403; for a bad token all answer 401. */
static bool is_refusal(int status)
{
    return imds.cloud->token && (status == 401 || (status == 403 && !imds.token[0]));
}

static void refuse_token(int status, struct err *err)
{
    imds.is_refused = true;
    imds.token_at_ns = 0;
    err_set(err, ERR_PROTOCOL, 0, "HTTP %d: the service %s %s", status,
            imds.token[0] ? "does not accept" : "requires", imds.cloud->token);
}

static void imds_take_answer(unsigned topic, const struct http_answer *answer)
{
    const struct imds_path *path = &imds.cloud->paths[topic];
    struct trouble *trouble = &imds.troubles[topic];
    struct events events = {0};
    struct err err;
    bool ok = answer->status == 404, is_refused = is_refusal(answer->status);
    imds.has_answered = imds.has_answered || answer->status != 0;
    if (ok) {
        watch_absent(topic);
    } else if (http_is_ok(answer, &err)) {
        ok = path->read(answer->body, answer->len, &events, &err);
        if (ok && path->needs_machine)
            events_bind(&events, watch.boot_id);
        if (ok)
            watch_tell(topic, &events);
    } else if (is_refused) {
        refuse_token(answer->status, &err);
    }
    if (ok)
        watch_works(trouble, path->path);
    else if (!is_refused || imds.has_renewed || !imds.token[0])
        watch_failed(trouble, path->path, &err);
}

static void imds_on_answer(void *ctx, const struct http_answer *answer)
{
    const struct trouble *trouble = ctx;
    imds_take_answer((unsigned)(trouble - imds.troubles), answer);
    if (--imds.waiting > 0)
        return;
    if (imds.is_refused)
        imds.token[0] = '\0';
    imds_end_poll();
}

static void ask_path(unsigned topic)
{
    char url[ENDPOINT_MAX + 100], token[TOKEN_MAX + 40];
    snprintf(url, sizeof url, "%s/latest/meta-data/%s", watch.server,
             imds.cloud->paths[topic].path);
    snprintf(token, sizeof token, "%s: %s", imds.cloud->token_header, imds.token);
    imds.waiting++;
    http_start(&(struct http_request){.url = url,
                                      .headers = {imds.token[0] ? token : NULL},
                                      .timeout_ns = watch.options.timeout_ns,
                                      .fn = imds_on_answer,
                                      .ctx = &imds.troubles[topic]});
}

static void ask_all(void)
{
    const struct imds_path *paths = imds.cloud->paths;
    for (unsigned i = 0; i < IMDS_PATHS_MAX && paths[i].path; i++)
        if (!paths[i].is_slow || imds.polls % SLOWLY == 0)
            ask_path(i);
    imds.polls++;
}

static void poll_all(void *ctx)
{
    int64_t now = clock_now_ns();
    imds.began_ns = now;
    imds.is_refused = false;
    imds.has_answered = false;
    if (imds.cloud->token && now >= imds.token_at_ns)
        ask_token();
    else
        ask_all();
}

static bool imds_start(struct err *err)
{
    imds = (struct imds){.cloud = watch.options.source->cloud, .timer = {.fn = poll_all}};
    poll_all(NULL);
    return true;
}

/* ---- the clouds ---- */

#define INTERVAL_NS (5 * NS_PER_S) /* as Amazon recommends */

static const struct imds_cloud amazon = {
    .rule = {{"AWS_EC2_METADATA_SERVICE_ENDPOINT"},
             "169.254.169.254",
             "Amazon EC2's",
             {{"sys_vendor", "Amazon"},
              {"bios_vendor", "Amazon"},
              {"board_vendor", "Amazon"},
              {"bios_version", "amazon"},
              {"product_uuid", "ec2"}}},
    .token = "the token (IMDSv2)",
    .without = " (IMDSv1)",
    .token_header = "X-aws-ec2-metadata-token",
    .ttl_header = "X-aws-ec2-metadata-token-ttl-seconds",
    .paths = {{"spot/instance-action", body_aws_action, false, false},
              {"spot/termination-time", body_aws_termination, false, false},
              {"events/recommendations/rebalance", body_aws_rebalance, false, false},
              {"events/maintenance/scheduled", body_aws_scheduled, true, false},
              {"autoscaling/target-lifecycle-state", body_aws_lifecycle, false, true}},
};

static const struct imds_cloud alibaba = {
    .rule = {{NULL},
             "100.100.100.200",
             "Alibaba Cloud's",
             {{"sys_vendor", "Alibaba"}, {"product_name", "Alibaba Cloud ECS"}}},
    .token = "the token",
    .without = "",
    .token_header = "X-aliyun-ecs-metadata-token",
    .ttl_header = "X-aliyun-ecs-metadata-token-ttl-seconds",
    .paths = {{"instance/spot/termination-time", body_alibaba_termination, false, false}},
};

static const struct imds_cloud tencent = {
    .rule = {{NULL}, "169.254.0.23", "Tencent Cloud's", {{"sys_vendor", "Tencent"}}},
    .paths = {{"spot/termination-time", body_tencent_termination, false, false}},
};

#define CLOUD(which) \
    .interval_ns = INTERVAL_NS, .start = imds_start, .cloud = &(which), .rule = &(which).rule

const struct source source_aws = {
    .word = {"aws", "Amazon EC2: spot interruption, rebalance, scheduled maintenance, auto-scaling",
             NULL, " endpoint timeout "},
    CLOUD(amazon),
    .topics = 5,
};

const struct source source_alibaba = {
    .word = {"alibaba", "Alibaba Cloud: the end of a spot instance", NULL, " endpoint timeout "},
    CLOUD(alibaba),
    .topics = 1,
};

const struct source source_tencent = {
    .word = {"tencent", "Tencent Cloud: the end of a spot instance", NULL, " endpoint timeout "},
    CLOUD(tencent),
    .topics = 1,
};
