/* SPDX-License-Identifier: Apache-2.0
 * See server.h.
 */
#include "web/server.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "web/page.h"
#include "web/reply.h"
#include "web/status.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/keyvalq_struct.h>
#include <netdb.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* A picture that is younger is new enough for /api/v1/status. */
#define FRESH_NS (1500 * NS_PER_MS)
/* The same for metrics and /metrics, so a supervisor is asked at most so often. */
#define METRICS_FRESH_NS NS_PER_S
/* The same for what is read from files. A ledger gets a line each minute. */
#define PAST_FRESH_NS (5 * NS_PER_S)
/* How long a request waits for its news. */
#define WAIT_NS (3 * NS_PER_S)

/* As Prometheus expects it. */
#define METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

enum { HEADERS_MAX = 8192, BODY_MAX = 1024, IDLE_S = 10 };

/* Descriptors: of all connections and some more. If that is possible, also of a crowd of clients
 * that comes at once: libevent accepts all of it before it closes those that give way. */
enum { FILES_NEEDED = CONNS_MAX + 16, FILES_WANTED = 4 * CONNS_MAX };

/* --- requests that wait --- */

static bool server_awaits(const struct server *server, enum server_topic topic)
{
    for (int i = 0; i < SERVER_WAITING_MAX; i++)
        if (server->waiting[i].request && server->waiting[i].topic == topic)
            return true;
    return false;
}

static void server_want(struct server *server)
{
    asker_want(server->asker,
               streams_are_read(&server->streams) || server_awaits(server, SERVER_STATUS));
}

static void waiting_on_closed(void *ctx)
{
    struct server_waiting *waiting = ctx;
    evhttp_request_free(waiting->request);
    *waiting = (struct server_waiting){0};
}

/* False: too many requests wait. */
static bool server_wait(struct server *server, struct conn *conn, struct evhttp_request *request,
                        enum server_topic topic)
{
    struct server_waiting *waiting = server->waiting;
    while (waiting < server->waiting + SERVER_WAITING_MAX && waiting->request)
        waiting++;
    if (waiting == server->waiting + SERVER_WAITING_MAX)
        return false;
    *waiting = (struct server_waiting){
        .request = request, .conn = conn, .topic = topic, .until = clock_now_ns() + WAIT_NS};
    conn->on_closed = waiting_on_closed;
    conn->ctx = waiting;
    return true;
}

/* --- /api/v1/status --- */

static void server_send_status(struct server *server, struct evhttp_request *request)
{
    size_t len;
    char *text =
        status_text(&server->source.picture, &server->source.contact, clock_now_ns(), &len);
    if (text)
        reply_send(request, "application/json", text, len);
    else
        reply_refuse(request, HTTP_SERVUNAVAIL, "Service Unavailable", "no memory");
    free(text);
}

static void server_on_status(struct server *server, struct conn *conn,
                             struct evhttp_request *request)
{
    int64_t age = clock_now_ns() - server->source.picture.at;
    bool is_fresh = server->source.picture.at && age < FRESH_NS;
    if (is_fresh || server->source.contact.is_lost ||
        !server_wait(server, conn, request, SERVER_STATUS))
        server_send_status(server, request);
    server_want(server);
}

/* --- the files of the job --- */

/* Of the job. NULL: it has none, or is unknown. */
static const char *server_state_dir(const struct server *server)
{
    const struct asker_picture *picture = &server->source.picture;
    if (server->state_dir)
        return server->state_dir;
    return picture->at && picture->state_dir[0] ? picture->state_dir : NULL;
}

static bool server_has_past(const struct past *past)
{
    return past->at && clock_now_ns() - past->at < PAST_FRESH_NS;
}

/* --- /metrics --- */

static bool server_has_metrics(const struct server *server)
{
    const struct asker_metrics *metrics = &server->metrics;
    return metrics->at && clock_now_ns() - metrics->at < METRICS_FRESH_NS;
}

/* No supervisor has them, but the files of the job tell how it ended. */
static bool server_reads_metrics(const struct server *server)
{
    return server->metrics.at && server->metrics.is_of_none && server_state_dir(server);
}

static const char *server_metrics_lack(const struct server *server)
{
    if (server_reads_metrics(server))
        return server_has_past(&server->last_metrics) ? server->last_metrics.why
                                                      : "the files of the job are still being read";
    return server_has_metrics(server) ? server->metrics.why
                                      : "pchrun does not answer; is it stopped?";
}

static void server_send_metrics(struct server *server, struct evhttp_request *request)
{
    const struct past *last = &server->last_metrics;
    if (server_has_metrics(server) && server->metrics.text)
        reply_send(request, METRICS_TYPE, server->metrics.text, strlen(server->metrics.text));
    else if (server_reads_metrics(server) && server_has_past(last) && last->text)
        reply_send(request, METRICS_TYPE, last->text, last->len);
    else
        reply_lack(request, "metrics", server_metrics_lack(server));
}

static bool server_knows_metrics(const struct server *server)
{
    return server_has_metrics(server) &&
           (!server_reads_metrics(server) || server_has_past(&server->last_metrics));
}

static void server_on_metrics(struct server *server, struct conn *conn,
                              struct evhttp_request *request)
{
    if (server_knows_metrics(server))
        server_send_metrics(server, request);
    else if (server_wait(server, conn, request, SERVER_METRICS))
        asker_want_metrics(server->asker);
    else
        reply_lack(request, "metrics", "too many requests wait for an answer of pchrun");
}

/* --- /api/v1/events --- */

static void server_on_events(struct server *server, struct conn *conn,
                             struct evhttp_request *request)
{
    const char *last =
        evhttp_find_header(evhttp_request_get_input_headers(request), "Last-Event-ID");
    if (reply_is_head(request))
        reply_send(request, STREAM_TYPE, NULL, 0);
    else if (!streams_begin(&server->streams, conn, request, last))
        reply_refuse(request, HTTP_SERVUNAVAIL, "Service Unavailable", "too many readers");
    server_want(server);
}

/* --- /api/v1/history --- */

static const char *server_history_lacks(const struct server *server)
{
    if (server_state_dir(server))
        return server_has_past(&server->past) ? server->past.why : "the ledger is still being read";
    return server->source.picture.at ? "the job has no state directory, so it has no ledger"
                                     : "pchrun has not told the state directory yet";
}

/* While a slow ledger is being read, the text before stands. */
static void server_send_history(struct server *server, struct evhttp_request *request)
{
    const struct past *past = &server->past;
    if (past->text)
        reply_send(request, "application/json", past->text, past->len);
    else
        reply_lack(request, "history", server_history_lacks(server));
}

/* Without a state directory there is nothing to wait for, unless the first picture is still to
 * come. */
static bool server_is_without_history(const struct server *server)
{
    const struct stream_source *source = &server->source;
    return !server_state_dir(server) && (source->picture.at || source->contact.is_lost);
}

static void server_on_history(struct server *server, struct conn *conn,
                              struct evhttp_request *request)
{
    const char *dir = server_state_dir(server);
    if (server_has_past(&server->past) || server_is_without_history(server))
        server_send_history(server, request);
    else if (!server_wait(server, conn, request, SERVER_HISTORY))
        reply_lack(request, "history", "too many requests wait");
    else if (dir)
        past_read(&server->past, dir);
}

/* --- the timeline, for the readers of events --- */

/* When nothing is told about the job, the timeline is still read so often. A ledger gets a line
 * each minute. */
#define TIMELINE_OLD_NS (15 * NS_PER_S)
/* Otherwise so often at most, and less often if that would take more than a hundredth of the time.
 */
#define TIMELINE_FRESH_NS (3 * NS_PER_S)

static void server_want_timeline(struct server *server)
{
    int64_t at = server->timeline_at + (server->has_new_lines ? 0 : TIMELINE_OLD_NS);
    const char *dir = server_state_dir(server);
    bool is_first = !server->source.timeline.text;
    if (!streams_are_read(&server->streams) || (!is_first && clock_now_ns() < at))
        return;
    if (dir) {
        /* A line that comes while it is read asks for another reading. */
        if (past_read(&server->timeline, dir))
            server->has_new_lines = false;
    } else if (server_is_without_history(server)) {
        streams_take_timeline(&server->source, NULL, server_history_lacks(server));
    }
}

static void server_on_timeline(void *ctx)
{
    struct server *server = ctx;
    struct past *timeline = &server->timeline;
    /* If a disk has hung, the reading took no time of a processor. */
    int64_t pause = timeline->text ? 100 * (timeline->at - timeline->begun) : 0;
    server->timeline_at = timeline->at + (pause > TIMELINE_FRESH_NS ? pause : TIMELINE_FRESH_NS);
    streams_take_timeline(&server->source, timeline->text, timeline->why);
    streams_feed(&server->streams);
}

/* --- requests --- */

static bool server_send_file(struct evhttp_request *request, const char *path)
{
    for (const struct page_file *file = page_files; file->path; file++)
        if (str_is(path, file->path)) {
            reply_send(request, file->type, file->data, file->size);
            return true;
        }
    return false;
}

/* The paths that tell about the job. */
static const struct api_path {
    const char *path; /* NULL: no more */
    void (*answer)(struct server *server, struct conn *conn, struct evhttp_request *request);
} api_paths[] = {
    {"/api/v1/status", server_on_status},
    {"/api/v1/events", server_on_events},
    {"/api/v1/history", server_on_history},
    {"/metrics", server_on_metrics},
    {NULL, NULL},
};

static void server_call_api(struct server *server, struct conn *conn,
                            struct evhttp_request *request, const char *path)
{
    const struct evkeyvalq *headers = evhttp_request_get_input_headers(request);
    const char *site = evhttp_find_header(headers, "Sec-Fetch-Site");
    const struct api_path *found = api_paths;
    while (found->path && !str_is(path, found->path))
        found++;
    if (!found->path) {
        reply_refuse(request, HTTP_NOTFOUND, "Not Found",
                     "there is no such path; these are /, /metrics, /healthz, /api/v1/status, "
                     "/api/v1/events and /api/v1/history");
    } else if (site && !str_is(site, "same-origin") && !str_is(site, "none")) {
        reply_refuse(request, 403, "Forbidden", "the page of another site may not ask");
    } else if (!guard_admits(&server->guard, evhttp_find_header(headers, "Authorization"))) {
        reply_add_header(request, "WWW-Authenticate", "Bearer");
        reply_refuse(request, 401, "Unauthorized",
                     "the token of --token-file is needed: Authorization: Bearer TOKEN");
    } else {
        found->answer(server, conn, request);
    }
}

static void server_on_request(struct evhttp_request *request, void *arg)
{
    static const char alive[] = "ok\n";
    struct server *server = arg;
    struct conn *conn = conns_begin(&server->conns, request);
    const struct evhttp_uri *uri = evhttp_request_get_evhttp_uri(request);
    const char *path = uri ? evhttp_uri_get_path(uri) : NULL;
    const char *host = evhttp_find_header(evhttp_request_get_input_headers(request), "Host");
    enum evhttp_cmd_type command = evhttp_request_get_command(request);
    reply_begin(request);
    if (command != EVHTTP_REQ_GET && command != EVHTTP_REQ_HEAD) {
        reply_add_header(request, "Allow", "GET, HEAD");
        reply_refuse(request, HTTP_BADMETHOD, "Method Not Allowed", "use GET or HEAD");
    } else if (!conn || !path || evhttp_uri_get_host(uri)) {
        reply_refuse(request, HTTP_BADREQUEST, "Bad Request", "give a path, such as /");
    } else if (!guard_knows_host(&server->guard, host)) {
        reply_refuse(request, 403, "Forbidden",
                     "this name is not known here; use localhost, the address of --listen, or the "
                     "name of the machine");
    } else if (str_is(path, "/healthz")) {
        reply_send(request, "text/plain; charset=utf-8", alive, sizeof alive - 1);
    } else if (!server_send_file(request, path)) {
        server_call_api(server, conn, request, path);
    }
}

/* --- news --- */

static void server_take_picture(struct stream_source *source, struct asker_picture *picture)
{
    const struct asker_picture *old = &source->picture;
    bool is_same = old->at && old->layout_len == picture->layout_len &&
                   memcmp(old->layout, picture->layout, old->layout_len) == 0;
    source->layout += !is_same;
    picture_free(&source->picture);
    source->picture = *picture;
}

static void server_take_lines(struct kept *kept, struct buf *lines)
{
    const char *line = (const char *)buf_bytes(lines), *end;
    size_t left = buf_len(lines);
    while (left > 0 && (end = memchr(line, '\n', left))) {
        kept_add(kept, line, (size_t)(end - line));
        left -= (size_t)(end + 1 - line);
        line = end + 1;
    }
    buf_free(lines);
}

static void (*const server_sends[SERVER__TOPICS])(struct server *server,
                                                  struct evhttp_request *request) = {
    [SERVER_STATUS] = server_send_status,
    [SERVER_METRICS] = server_send_metrics,
    [SERVER_HISTORY] = server_send_history,
};

/* Answers the requests whose topic has news, and those whose time is over. */
static void server_answer_waiting(struct server *server, const bool has_news[SERVER__TOPICS])
{
    int64_t now = clock_now_ns();
    for (int i = 0; i < SERVER_WAITING_MAX; i++) {
        struct server_waiting waiting = server->waiting[i];
        if (!waiting.request || (!has_news[waiting.topic] && now < waiting.until))
            continue;
        server->waiting[i] = (struct server_waiting){0};
        waiting.conn->on_closed = NULL;
        server_sends[waiting.topic](server, waiting.request);
    }
}

static void server_on_past(void *ctx)
{
    static const bool has_news[SERVER__TOPICS] = {[SERVER_HISTORY] = true};
    server_answer_waiting(ctx, has_news);
}

static void server_on_last_metrics(void *ctx)
{
    static const bool has_news[SERVER__TOPICS] = {[SERVER_METRICS] = true};
    server_answer_waiting(ctx, has_news);
}

/* The requests whose answers need the files of the job wait for a helper that reads them. */
static void server_read_files(struct server *server)
{
    const char *dir = server_state_dir(server);
    if (dir && server_awaits(server, SERVER_HISTORY))
        past_read(&server->past, dir);
    if (dir && server_awaits(server, SERVER_METRICS) && server_reads_metrics(server))
        past_read(&server->last_metrics, dir);
}

static void server_on_news(evutil_socket_t fd, short what, void *arg)
{
    struct server *server = arg;
    struct asker_news news;
    asker_take(server->asker, &news);
    bool has_picture = news.picture.at != 0;
    if (has_picture)
        server_take_picture(&server->source, &news.picture);
    if (news.metrics.at != 0) {
        free(server->metrics.text);
        server->metrics = news.metrics;
    }
    server->source.contact = news.contact;
    server->has_new_lines = server->has_new_lines || buf_len(&news.lines) > 0;
    server_take_lines(&server->source.lines, &news.lines);
    const bool has_news[SERVER__TOPICS] = {
        [SERVER_STATUS] = has_picture || news.contact.is_lost,
        [SERVER_METRICS] = news.metrics.at != 0 && server_knows_metrics(server),
        [SERVER_HISTORY] = server_is_without_history(server),
    };
    server_answer_waiting(server, has_news);
    server_read_files(server);
    server_want_timeline(server);
    streams_feed(&server->streams);
    server_want(server);
}

static void server_on_tick(evutil_socket_t fd, short what, void *arg)
{
    static const bool no_news[SERVER__TOPICS] = {false};
    struct server *server = arg;
    conns_sweep(&server->conns);
    reap_all(&server->reap);
    server_want_timeline(server);
    server_answer_waiting(server, no_news);
    streams_feed(&server->streams);
    server_want(server);
}

static void server_on_signal(evutil_socket_t number, short what, void *arg)
{
    const struct server *server = arg;
    event_base_loopbreak(server->base);
}

/* --- begin and end --- */

/* libevent would write to standard error what clients do wrong. */
static void server_ignore_log(int severity, const char *text)
{
}

static void server_configure(struct server *server)
{
    const struct timeval idle = {.tv_sec = IDLE_S};
    evhttp_set_timeout_tv(server->http, &idle);
    evhttp_set_max_headers_size(server->http, HEADERS_MAX);
    evhttp_set_max_body_size(server->http, BODY_MAX);
    /* All known methods, since libevent's refusal has none of the headers. */
    evhttp_set_allowed_methods(server->http, UINT16_MAX);
    evhttp_set_gencb(server->http, server_on_request, server);
}

static bool server_make_events(struct server *server)
{
    const struct timeval second = {.tv_sec = 1};
    server->tick = event_new(server->base, -1, EV_PERSIST, server_on_tick, server);
    server->term = evsignal_new(server->base, SIGTERM, server_on_signal, server);
    server->interrupt = evsignal_new(server->base, SIGINT, server_on_signal, server);
    return server->tick && server->term && server->interrupt &&
           event_add(server->tick, &second) == 0 && event_add(server->term, NULL) == 0 &&
           event_add(server->interrupt, NULL) == 0;
}

/* Without a free descriptor, libevent would try accept() again and again, without a pause. */
static bool server_take_files(struct err *err)
{
    fd_limit_raise(FILES_WANTED);
    return fd_probe(FILES_NEEDED, err) ||
           err_wrap(err, "cannot keep %d connections open", CONNS_MAX);
}

/* evhttp resolves names, too, but does not tell what is wrong. */
static bool server_resolve(const char *host, char ret[ADDRESS_HOST_MAX], struct err *err)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *found;
    int why = getaddrinfo(host, NULL, &hints, &found);
    if (why == 0) {
        why = getnameinfo(found->ai_addr, found->ai_addrlen, ret, ADDRESS_HOST_MAX, NULL, 0,
                          NI_NUMERICHOST);
        freeaddrinfo(found);
    }
    return why == 0 || err_set(err, ERR_USAGE, 0,
                               "cannot listen at %.100s: %s; give --listen an address or a name of "
                               "this machine, or 0.0.0.0 for all its addresses",
                               host, gai_strerror(why));
}

static bool server_listen(struct server *server, struct err *err)
{
    const struct address *listen = &server->guard.listen;
    char host[ADDRESS_HOST_MAX];
    if (!server_resolve(listen->host, host, err))
        return false;
    errno = 0;
    if (evhttp_bind_socket(server->http, host, (uint16_t)listen->port) == 0)
        return true;
    if (errno == EADDRNOTAVAIL)
        return err_set(err, ERR_USAGE, 0,
                       "cannot listen at %.100s: this machine has no such address; give --listen "
                       "one that it has, or 0.0.0.0 for all",
                       listen->host);
    return err_set(err, ERR_USAGE, errno, "cannot listen at %s port %d; see --listen", listen->host,
                   listen->port);
}

static void server_open_past(struct server *server, struct past *past, const struct past with)
{
    *past = with;
    past->base = server->base;
    past->reap = &server->reap;
    past->ctx = server;
    past_open(past);
}

static void server_open_pasts(struct server *server)
{
    reap_begin(&server->reap);
    server_open_past(server, &server->past,
                     (struct past){.print = hours_show, .node = -1, .on_over = server_on_past});
    server_open_past(
        server, &server->timeline,
        (struct past){.print = timeline_print_data, .node = -1, .on_over = server_on_timeline});
    server_open_past(server, &server->last_metrics,
                     (struct past){.print = lastmetrics_print,
                                   .node = server->asker->which.node,
                                   .on_over = server_on_last_metrics});
}

bool server_open(struct server *server, struct err *err)
{
    if (!server_take_files(err))
        return false;
    server->streams.source = &server->source;
    kept_init(&server->source.lines, (uint64_t)clock_real_ns());
    event_set_log_callback(server_ignore_log);
    signal(SIGPIPE, SIG_IGN);
    server->base = event_base_new();
    server->http = server->base ? evhttp_new(server->base) : NULL;
    if (!server->http || !conns_init(&server->conns, server->base, server->http) ||
        !server_make_events(server))
        return err_set(err, ERR_SYSTEM, ENOMEM, "cannot make the event loop");
    server_configure(server);
    server_open_pasts(server);
    return server_listen(server, err);
}

bool server_run(struct server *server, struct err *err)
{
    server->news = event_new(server->base, server->asker->news_fd, EV_READ | EV_PERSIST,
                             server_on_news, server);
    bool ok = server->news && event_add(server->news, NULL) == 0 &&
              event_base_dispatch(server->base) == 0;
    return ok || err_set(err, ERR_SYSTEM, 0, "the event loop has failed");
}

void server_free(struct server *server)
{
    past_free(&server->past);
    past_free(&server->timeline);
    past_free(&server->last_metrics);
    reap_end(&server->reap);
    struct event *events[] = {server->tick, server->news, server->term, server->interrupt};
    conns_end(&server->conns);
    if (server->http)
        evhttp_free(server->http);
    conns_free(&server->conns);
    for (size_t i = 0; i < ARRAY_LEN(events); i++)
        if (events[i])
            event_free(events[i]);
    if (server->base)
        event_base_free(server->base);
    picture_free(&server->source.picture);
    free(server->metrics.text);
    kept_free(&server->source.lines);
    free(server->source.timeline.text);
}
