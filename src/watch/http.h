/* SPDX-License-Identifier: Apache-2.0
 *
 * http: requests to a metadata service, many at once, without blocking; the only user of libcurl.
 *
 * A request goes only to the address that it names: no proxy, whatever the environment says, and no
 * redirect. An answer that is too long, cut off or late is a failure. Connections are kept for the
 * next request. Main thread. Block the signals before the first request: a thread may look names
 * up. See libcurl-multi(3).
 */
#ifndef PCHRUN_WATCH_HTTP_H
#define PCHRUN_WATCH_HTTP_H

#include "base/err.h"

#include <poll.h>
#include <stddef.h>
#include <stdint.h>

#define HTTP_BODY_MAX    65536
#define HTTP_HEADER_MAX  128 /* of a header in http_answer; a longer one counts as missing */
#define HTTP_HEADERS_MAX 4

struct http;

enum http_method { HTTP_GET, HTTP_PUT, HTTP_POST };

struct http_answer {
    int status;       /* 0: no answer; *err says why */
    bool is_late;     /* no answer in time */
    const char *body; /* does not end with a NUL */
    size_t len;
    char etag[HTTP_HEADER_MAX], flavor[HTTP_HEADER_MAX], ttl[HTTP_HEADER_MAX]; /* "": not there */
    struct err err;
};
/* The answer is valid during the call, in which new requests may be made. */
typedef void http_fn(void *ctx, const struct http_answer *answer);

struct http_request {
    enum http_method method;
    const char *url;
    const char *headers[HTTP_HEADERS_MAX]; /* "Name: value"; up to the first NULL */
    const char *body;                      /* of a POST */
    const char *ca_file;                   /* trusted certificates; NULL: plain http */
    size_t body_max;                       /* of the answer; 0: HTTP_BODY_MAX */
    int64_t timeout_ns;                    /* for the whole exchange */
    http_fn *fn;
    void *ctx;
};

/* Is the status 200? Else *err says why not. */
MUST_CHECK bool http_is_ok(const struct http_answer *answer, struct err *err);
/* Is the body one printable word of fewer than `size` bytes? */
bool http_is_word(const struct http_answer *answer, size_t size);

/* NULL with *err: out of memory. It can wait at once; requests need http_open(). */
MUST_CHECK struct http *http_new(struct err *err);
/* Call once before the first request. False: libcurl is missing; *err says what to do. */
MUST_CHECK bool http_open(struct http *http, struct err *err);
/* Drops running requests; their fn is not called. */
void http_free(struct http *http);
/* Copies all of the request but body and ctx. fn always gets the outcome, never before this
 * returns. */
void http_start(struct http *http, const struct http_request *request);
/* Is no request under way? */
bool http_is_idle(const struct http *http);
/* Waits for the descriptors (fills in revents), the running requests and the timeout. Calls fn for
 * finished requests. */
void http_wait(struct http *http, struct pollfd *fds, unsigned n, int64_t timeout_ns);

#endif
