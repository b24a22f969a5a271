/* SPDX-License-Identifier: Apache-2.0
 *
 * http: requests to a metadata service, many at once, without blocking; the only user of libcurl.
 *
 * A request goes only to the address that it names: no proxy, whatever the environment says, and no
 * redirect. An answer that is too long, cut off or late is a failure. Connections are kept for the
 * next request. libcurl is loaded before the first request and only then, so that pchrun-watch can
 * watch a file or Slurm without it. Builds with OpenSSL and with GnuTLS both work. Main thread.
 * Block the signals before the first request: a thread may look names up. See libcurl-multi(3).
 */
#pragma once

#include "base/err.h"

#include <poll.h>
#include <stddef.h>
#include <stdint.h>

#define HTTP_BODY_MAX    65536
#define HTTP_HEADER_MAX  128 /* of a header in http_answer; a longer one counts as missing */
#define HTTP_HEADERS_MAX 4

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

/* True if the status is 200. Else *err says what came instead. */
MUST_CHECK bool http_is_ok(const struct http_answer *answer, struct err *err);
/* True if the body is one printable word of fewer than `size` bytes. */
bool http_is_word(const struct http_answer *answer, size_t size);

/* Call once before the first request; all is freed with the process. False: libcurl is missing;
 * *err says what to do. */
MUST_CHECK bool http_open(struct err *err);
/* Copies the request, except body and ctx. fn always gets the outcome, after this has returned.
 * Aborts if libcurl cannot make a request at all. */
void http_start(const struct http_request *request);
/* True if no request is running. */
bool http_is_idle(void);
/* Waits for the descriptors (fills in revents), the running requests and the timeout. Calls fn for
 * finished requests. Works also before http_open(). */
void http_wait(struct pollfd *fds, unsigned n, int64_t timeout_ns);
