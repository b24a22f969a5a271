/* SPDX-License-Identifier: Apache-2.0
 *
 * http: requests to a metadata service, any number at once, none of which waits; the only user of
 * libcurl.
 *
 * A request goes to the address that it names and nowhere else: through no proxy, whatever the
 * environment says, and after no redirect. An answer is whole or none at all: one that is longer
 * than is allowed, is cut off, or does not end in time is a failure. Connections are kept for
 * the next request. Main thread; block the signals before the first request, for a name may be
 * looked up in a thread. See libcurl-multi(3).
 */
#ifndef PCHRUN_WATCH_HTTP_H
#define PCHRUN_WATCH_HTTP_H

#include "base/err.h"

#include <poll.h>
#include <stddef.h>
#include <stdint.h>

#define HTTP_BODY_MAX    65536
#define HTTP_HEADER_MAX  128 /* of one that we look at; a longer one counts as not there */
#define HTTP_HEADERS_MAX 4

struct http;

enum http_method { HTTP_GET, HTTP_PUT, HTTP_POST };

struct http_answer {
    int status;       /* 0: none came, *err says why */
    bool is_late;     /* ... since its time was over */
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
    const char *ca_file;                   /* whose certificates are trusted; NULL: plain http */
    size_t body_max;                       /* of the answer; 0: HTTP_BODY_MAX */
    int64_t timeout_ns;                    /* for all of it */
    http_fn *fn;
    void *ctx;
};

/* NULL with *err: out of memory. It waits; to ask, it has to be opened. */
MUST_CHECK struct http *http_new(struct err *err);
/* Before the first request; once. False: *err says that there is no libcurl, and what to do. */
MUST_CHECK bool http_open(struct http *http, struct err *err);
/* Gives up what is under way; nobody is told. */
void http_free(struct http *http);
/* All of the request but body and ctx is copied. fn is told the outcome, whatever it is, and never
 * before this has returned. */
void http_start(struct http *http, const struct http_request *request);
/* Is no request under way? */
bool http_is_idle(const struct http *http);
/* Waits for the descriptors (revents is filled in), for what is under way, and for at most the time
 * given, and tells of the requests that have come to their end. */
void http_wait(struct http *http, struct pollfd *fds, unsigned n, int64_t timeout_ns);

#endif
