/* SPDX-License-Identifier: Apache-2.0
 * See reply.h.
 */
#include "web/reply.h"

#include "base/str.h"

#include <event2/buffer.h>
#include <stdio.h>

static const struct {
    const char *name, *value;
} common_headers[] = {
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
     "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; trusted-types 'none'; "
     "require-trusted-types-for 'script'"},
    {"X-Content-Type-Options", "nosniff"},
    {"Cache-Control", "no-store"},
    {"Referrer-Policy", "no-referrer"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Cross-Origin-Opener-Policy", "same-origin"},
};

bool reply_is_head(const struct evhttp_request *request)
{
    return evhttp_request_get_command(request) == EVHTTP_REQ_HEAD;
}

void reply_add_header(struct evhttp_request *request, const char *name, const char *value)
{
    evhttp_add_header(evhttp_request_get_output_headers(request), name, value);
}

void reply_send(struct evhttp_request *request, const char *type, const void *data, size_t size)
{
    char length[24];
    struct evbuffer *out = reply_is_head(request) ? NULL : evbuffer_new();
    snprintf(length, sizeof length, "%zu", size);
    reply_add_header(request, "Content-Type", type);
    reply_add_header(request, "Content-Length", length);
    if (out)
        evbuffer_add(out, data, size);
    evhttp_send_reply(request, HTTP_OK, "OK", out);
    if (out)
        evbuffer_free(out);
}

void reply_refuse(struct evhttp_request *request, int code, const char *reason, const char *why)
{
    struct evbuffer *out = reply_is_head(request) ? NULL : evbuffer_new();
    if (out)
        evbuffer_add_printf(out, "%s\n", why);
    reply_add_header(request, "Content-Type", "text/plain; charset=utf-8");
    reply_add_header(request, "Connection", "close");
    evhttp_send_reply(request, code, reason, out);
    if (out)
        evbuffer_free(out);
}

void reply_lack(struct evhttp_request *request, const char *what, const char *why)
{
    char text[512];
    snprintf(text, sizeof text, "no %s: %s", what, why);
    reply_refuse(request, HTTP_SERVUNAVAIL, "Service Unavailable", text);
}

void reply_begin(struct evhttp_request *request)
{
    for (size_t i = 0; i < ARRAY_LEN(common_headers); i++)
        reply_add_header(request, common_headers[i].name, common_headers[i].value);
}
