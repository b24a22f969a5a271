/* SPDX-License-Identifier: Apache-2.0
 * See http.h. The log names the loaded file of libcurl. Once loaded it stays.
 */
#include "watch/http.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/library.h"
#include "base/log.h"
#include "base/str.h"

/* libcurl's type checks are macros, which do not work with calls through a table. */
#define CURL_DISABLE_TYPECHECK
#include <ctype.h>
#include <curl/curl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#define CONNECT_MAX_NS (2 * NS_PER_S)
/* curl_multi_poll() takes an int of milliseconds. */
#define WAIT_MAX_NS (3600 * NS_PER_S)

struct exchange {
    CURL *easy;
    struct curl_slist *headers;
    char why[CURL_ERROR_SIZE];
    struct buf body;
    size_t header_bytes;
    struct http_answer answer;
    http_fn *fn;
    void *ctx;
    bool has_failed; /* could not start; fn is called later */
    struct exchange *next;
};
static struct {
    CURLM *multi;           /* NULL: not open, so no request can run */
    struct exchange *first; /* under way, or failed */
} http;

/* ---- libcurl ---- */

/* The functions in use. Not curl_version(): through libldap it may look up this machine's name. */
#define CURLLIB_FUNCTIONS(F)    \
    F(curl_global_init)         \
    F(curl_slist_append)        \
    F(curl_slist_free_all)      \
    F(curl_easy_init)           \
    F(curl_easy_cleanup)        \
    F(curl_easy_setopt)         \
    F(curl_easy_getinfo)        \
    F(curl_easy_strerror)       \
    F(curl_multi_init)          \
    F(curl_multi_add_handle)    \
    F(curl_multi_remove_handle) \
    F(curl_multi_info_read)     \
    F(curl_multi_perform)       \
    F(curl_multi_poll)

static struct {
    CURLLIB_FUNCTIONS(LIBRARY_POINTER)
} curllib; /* filled by curllib_load(), and constant from then on */

static bool curllib_log(struct err *err)
{
    log_debug("http", "libcurl is %s", library_file((void *)curllib.curl_easy_init));
    return true;
}

static bool curllib_load(struct err *err)
{
    static const char *const names[] = {CURLLIB_FUNCTIONS(LIBRARY_NAME)};
    /* The second is Debian's build with GnuTLS, which git depends on. */
    static struct library libcurl = {
        .need = "an HTTP request needs libcurl 7.66 or newer",
        .package = "libcurl4",
        .files = {"libcurl.so.4", "libcurl-gnutls.so.4"},
        .names = names,
        .pointers = (void **)&curllib,
        .n = ARRAY_LEN(names),
        .check = curllib_log,
    };
    return library_load(&libcurl, err);
}

bool http_open(struct err *err)
{
    if (!curllib_load(err))
        return false;
    /* CURL_GLOBAL_NOTHING: most sources need no TLS, which initializes itself on first use. */
    if (curllib.curl_global_init(CURL_GLOBAL_NOTHING) == 0)
        http.multi = curllib.curl_multi_init();
    return http.multi || err_set(err, ERR_SYSTEM, 0, "out of memory for HTTP requests");
}

static void exchange_free(struct exchange *exchange)
{
    if (exchange->easy) {
        curllib.curl_multi_remove_handle(http.multi, exchange->easy);
        curllib.curl_easy_cleanup(exchange->easy);
    }
    curllib.curl_slist_free_all(exchange->headers);
    buf_free(&exchange->body);
    free(exchange);
}

/* ---- what comes ---- */

static size_t on_body(char *data, size_t size, size_t n, void *ctx)
{
    struct exchange *exchange = ctx;
    return buf_add(&exchange->body, data, size * n) ? size * n : 0; /* 0: ends the transfer */
}

static void take_header(const char *line, size_t len, const char *name, char value[HTTP_HEADER_MAX])
{
    size_t n = strlen(name);
    if (len <= n || strncasecmp(line, name, n) != 0 || line[n] != ':')
        return;
    line += n + 1;
    len -= n + 1;
    while (len > 0 && isspace((unsigned char)*line))
        line++, len--;
    while (len > 0 && isspace((unsigned char)line[len - 1]))
        len--;
    value[0] = '\0';
    if (len >= HTTP_HEADER_MAX)
        return;
    memcpy(value, line, len);
    value[len] = '\0';
}

static size_t on_header(char *data, size_t size, size_t n, void *ctx)
{
    struct exchange *exchange = ctx;
    struct http_answer *answer = &exchange->answer;
    size_t len = size * n;
    exchange->header_bytes += len;
    if (exchange->header_bytes > HTTP_BODY_MAX)
        return 0;
    if (len >= 5 &&
        memcmp(data, "HTTP/", 5) == 0) /* a new answer begins, for example after a status of 100 */
        answer->etag[0] = answer->flavor[0] = answer->ttl[0] = '\0';
    take_header(data, len, "ETag", answer->etag);
    take_header(data, len, "Metadata-Flavor", answer->flavor);
    take_header(data, len, "X-aws-ec2-metadata-token-ttl-seconds", answer->ttl);
    take_header(data, len, "X-aliyun-ecs-metadata-token-ttl-seconds", answer->ttl);
    return len;
}

/* ---- what goes ---- */

#define SET(option, value) (curllib.curl_easy_setopt(exchange->easy, (option), (value)) == CURLE_OK)

static bool set_headers(struct exchange *exchange, const struct http_request *request)
{
    for (int i = 0; i < HTTP_HEADERS_MAX && request->headers[i]; i++) {
        struct curl_slist *list = curllib.curl_slist_append(exchange->headers, request->headers[i]);
        if (!list)
            return false;
        exchange->headers = list;
    }
    return SET(CURLOPT_HTTPHEADER, exchange->headers);
}

static bool set_method(struct exchange *exchange, const struct http_request *request)
{
    if (request->method == HTTP_POST)
        return SET(CURLOPT_COPYPOSTFIELDS, request->body);
    return request->method == HTTP_GET || SET(CURLOPT_CUSTOMREQUEST, "PUT");
}

/* Keepalive detects a dead server while a request hangs. */
static int on_socket(void *ctx, curl_socket_t fd, curlsocktype purpose)
{
    static const struct {
        int level, option, value;
    } settings[] = {{SOL_SOCKET, SO_KEEPALIVE, 1},
                    {IPPROTO_TCP, TCP_KEEPIDLE, 10},
                    {IPPROTO_TCP, TCP_KEEPINTVL, 5},
                    {IPPROTO_TCP, TCP_KEEPCNT, 2}};
    for (size_t i = 0; i < ARRAY_LEN(settings); i++)
        setsockopt(fd, settings[i].level, settings[i].option, &settings[i].value, sizeof(int));
    return CURL_SOCKOPT_OK;
}

/* No redirect, no proxy, no password from ~/.netrc, no signal by libcurl. */
static bool set_manners(struct exchange *exchange)
{
    return SET(CURLOPT_FOLLOWLOCATION, 0L) && SET(CURLOPT_PROXY, "") && SET(CURLOPT_NOPROXY, "*") &&
           SET(CURLOPT_NETRC, (long)CURL_NETRC_IGNORED) && SET(CURLOPT_NOSIGNAL, 1L) &&
           SET(CURLOPT_SOCKOPTFUNCTION, on_socket) &&
           SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) &&
           SET(CURLOPT_USERAGENT, "pchrun-watch/" PCHRUN_VERSION);
}

/* A name look-up may take minutes in a thread; do not wait for it at the end. libcurl before 7.87
 * waits anyway. */
static void set_quick_exit(struct exchange *exchange)
{
#if LIBCURL_VERSION_NUM >= 0x075700
    (void)SET(CURLOPT_QUICK_EXIT, 1L);
#endif
}

static bool http_set_up(struct exchange *exchange, const struct http_request *request)
{
    int64_t connect_ns = clock_min(request->timeout_ns, CONNECT_MAX_NS);
    const char *ca_file = request->ca_file; /* a certificate is always checked; http has none */
    exchange->easy = curllib.curl_easy_init();
    if (!exchange->easy)
        return false;
    set_quick_exit(exchange);
    return SET(CURLOPT_URL, request->url) && set_manners(exchange) &&
           set_headers(exchange, request) && set_method(exchange, request) &&
           (!ca_file || (SET(CURLOPT_CAINFO, ca_file) && SET(CURLOPT_CAPATH, NULL))) &&
           SET(CURLOPT_TIMEOUT_MS, (long)(request->timeout_ns / NS_PER_MS + 1)) &&
           SET(CURLOPT_CONNECTTIMEOUT_MS, (long)(connect_ns / NS_PER_MS + 1)) &&
           SET(CURLOPT_ERRORBUFFER, exchange->why) && SET(CURLOPT_PRIVATE, exchange) &&
           SET(CURLOPT_WRITEFUNCTION, on_body) && SET(CURLOPT_WRITEDATA, exchange) &&
           SET(CURLOPT_HEADERFUNCTION, on_header) && SET(CURLOPT_HEADERDATA, exchange);
}

void http_start(const struct http_request *request)
{
    struct exchange *exchange = calloc(1, sizeof *exchange);
    if (!exchange)
        abort(); /* it fails only if a few hundred bytes of memory are missing; then nothing can run
                  */
    exchange->fn = request->fn;
    exchange->ctx = request->ctx;
    buf_init(&exchange->body, request->body_max ? request->body_max : HTTP_BODY_MAX);
    exchange->has_failed = !http_set_up(exchange, request) ||
                           curllib.curl_multi_add_handle(http.multi, exchange->easy) != CURLM_OK;
    exchange->next = http.first;
    http.first = exchange;
}

bool http_is_idle(void)
{
    return !http.first;
}

/* ---- answers ---- */

bool http_is_ok(const struct http_answer *answer, struct err *err)
{
    if (answer->status != 0)
        return answer->status == 200 || err_set(err, ERR_PROTOCOL, 0, "HTTP %d", answer->status);
    *err = answer->err;
    return false;
}

bool http_is_word(const struct http_answer *answer, size_t size)
{
    for (size_t i = 0; i < answer->len; i++)
        if (!isgraph((unsigned char)answer->body[i]))
            return false;
    return answer->len > 0 && answer->len < size;
}

/* ---- how it ends ---- */

static void http_unlink(const struct exchange *exchange)
{
    struct exchange **link = &http.first;
    while (*link != exchange)
        link = &(*link)->next;
    *link = exchange->next;
}

static void http_explain(struct exchange *exchange, CURLcode code)
{
    struct err *err = &exchange->answer.err;
    if (exchange->has_failed)
        err_set(err, ERR_SYSTEM, 0,
                "libcurl has no memory for a request, or was built without TLS");
    else if (code == CURLE_WRITE_ERROR)
        err_set(err, ERR_PROTOCOL, 0, "the answer is longer than %zu bytes", exchange->body.max);
    else
        err_set(err, ERR_SYSTEM, 0, "%s",
                exchange->why[0] ? exchange->why : curllib.curl_easy_strerror(code));
}

static void http_finish(struct exchange *exchange, CURLcode code)
{
    struct http_answer *answer = &exchange->answer;
    long status = 0;
    if (code == CURLE_OK)
        curllib.curl_easy_getinfo(exchange->easy, CURLINFO_RESPONSE_CODE, &status);
    else
        http_explain(exchange, code);
    answer->len = buf_len(&exchange->body);
    answer->body = answer->len ? (const char *)buf_bytes(&exchange->body) : "";
    answer->status = (int)status;
    answer->is_late = code == CURLE_OPERATION_TIMEDOUT;
    http_unlink(exchange);
    exchange->fn(exchange->ctx, answer);
    exchange_free(exchange);
}

static void tell_ended(void)
{
    int left;
    CURLMsg *message;
    while ((message = curllib.curl_multi_info_read(http.multi, &left)))
        if (message->msg == CURLMSG_DONE) {
            CURLcode code = message->data.result;
            char *exchange = NULL;
            curllib.curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &exchange);
            http_finish((struct exchange *)(void *)exchange, code);
        }
}

_Static_assert(sizeof(struct curl_waitfd) == sizeof(struct pollfd) && CURL_WAIT_POLLIN == POLLIN &&
                   CURL_WAIT_POLLOUT == POLLOUT,
               "libcurl waits for descriptors as poll() does");

static struct exchange *first_failed(void)
{
    struct exchange *exchange = http.first;
    while (exchange && !exchange->has_failed)
        exchange = exchange->next;
    return exchange;
}

void http_wait(struct pollfd *fds, unsigned n, int64_t timeout_ns)
{
    int running;
    struct exchange *failed;
    while ((failed = first_failed()))
        http_finish(failed, CURLE_FAILED_INIT);
    int timeout_ms = (int)((clock_min(timeout_ns, WAIT_MAX_NS) + NS_PER_MS - 1) / NS_PER_MS);
    if (http.multi) {
        curllib.curl_multi_poll(http.multi, (struct curl_waitfd *)fds, n, timeout_ms, NULL);
        curllib.curl_multi_perform(http.multi, &running);
        tell_ended();
        timeout_ms = 0;
    }
    /* libcurl reports only readable and writable, not a hangup. */
    if (poll(fds, n, timeout_ms) < 0)
        for (unsigned i = 0; i < n; i++)
            fds[i].revents = 0;
}
