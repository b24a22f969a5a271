/* SPDX-License-Identifier: Apache-2.0
 *
 * writer: JSON into a growing buffer, on one line or indented.
 *
 *     struct writer w;
 *     writer_init(&w, 65536, WRITER_PRETTY);
 *     writer_object(&w, NULL);
 *     writer_text(&w, "job", "run7");
 *     writer_list(&w, "ranks");
 *     writer_int(&w, NULL, 0);
 *     writer_end(&w);
 *     writer_end(&w);
 *     const char *text = writer_done(&w, &len);
 *
 * `key` is NULL inside lists and for the root. The writer owns its memory: writer_free() ends it.
 * writer_done() reports a failure (out of memory, or longer than the bound). One thread at a time.
 */
#pragma once

#include "base/buf.h"
#include "json/json.h"

#define WRITER_DEPTH_MAX 32

enum writer_style { WRITER_LINE, WRITER_PRETTY };

struct writer {
    struct buf buf;
    enum writer_style style;
    unsigned depth;
    char closers[WRITER_DEPTH_MAX]; /* by depth: '}' or ']' */
    bool is_empty;                  /* the innermost object or list has no member yet */
    bool has_failed;
    bool has_replaced; /* a text had invalid UTF-8, replaced by U+FFFD */
};

void writer_init(struct writer *w, size_t max, enum writer_style style);
void writer_free(struct writer *w);

void writer_object(struct writer *w, const char *key);
/* Writes null and returns false if is_there is false. */
MUST_CHECK bool writer_object_if(struct writer *w, const char *key, bool is_there);
void writer_list(struct writer *w, const char *key);
/* Ends the innermost object or list. */
void writer_end(struct writer *w);
void writer_text(struct writer *w, const char *key, const char *text); /* NULL: null */
void writer_int(struct writer *w, const char *key, int64_t value);
/* null unless is_known */
void writer_int_if(struct writer *w, const char *key, int64_t value, bool is_known);
/* Six digits; null if not finite. */
void writer_real(struct writer *w, const char *key, double value);
void writer_bool(struct writer *w, const char *key, bool value);
void writer_null(struct writer *w, const char *key);
/* Copies a value with its contents. Not for untrusted texts, which may be nested too deeply. */
void writer_json(struct writer *w, const char *key, const struct json *value);

/* The whole text, with a newline and then a NUL at its end; *ret_len (may be NULL) counts the
 * newline, not the NUL. Valid until writer_free(). NULL: a failure. */
MUST_CHECK const char *writer_done(struct writer *w, size_t *ret_len);
