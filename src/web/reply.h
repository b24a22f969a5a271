/* SPDX-License-Identifier: Apache-2.0
 *
 * reply: the answers to a browser's request, with the headers that keep the page safe. Each request
 * gets one answer. Owns nothing; evhttp owns the request. Main thread.
 */
#pragma once

#include <event2/http.h>
#include <stdbool.h>
#include <stddef.h>

/* A HEAD gets the headers of its answer alone. */
bool reply_is_head(const struct evhttp_request *request);
/* Adds the headers that all answers have. Call first. */
void reply_begin(struct evhttp_request *request);
void reply_add_header(struct evhttp_request *request, const char *name, const char *value);
/* Sends the whole answer, of which it keeps a copy. */
void reply_send(struct evhttp_request *request, const char *type, const void *data, size_t size);
/* Sends a line that says why there is no answer. After it the connection ends. */
void reply_refuse(struct evhttp_request *request, int code, const char *reason, const char *why);
/* The same for an answer that may be possible later: "no metrics: the supervisor has ended". */
void reply_lack(struct evhttp_request *request, const char *what, const char *why);
