/* SPDX-License-Identifier: Apache-2.0
 *
 * log: one line for people (or one JSON object for machines) on standard error.
 *
 * A line is one write of at most PIPE_BUF bytes, so lines of several writers do not mix. Logging
 * never blocks: if standard error is full, the line is dropped and counted, and the next line
 * brings the count. Main thread only.
 */
#pragma once

#include "base/err.h"

#include <stdint.h>

enum log_level { LOG_ERROR, LOG_WARN, LOG_NOTICE, LOG_INFO, LOG_DEBUG, LOG__COUNT };
enum log_format { LOG_TEXT, LOG_JSON };
/* Names of levels and formats; each list ends with NULL. */
extern const char *const log_level_names[], *const log_format_names[];

struct log_options {
    enum log_level level; /* less important lines are not written */
    enum log_format format;
    int node_rank;       /* -1: not shown */
    const char *program; /* what lines begin with; NULL: "pchrun" */
};

/* Before this call, lines are text, at LOG_INFO, without a node rank. May be called again. */
void log_init(const struct log_options *options);
enum log_level log_level(void);

/* "pchrun[2] 12:03:04.123 notice: SIGTERM, 25 s left". `topic` is one word, or NULL; control
 * characters in the text are replaced. */
void log_line(enum log_level level, const char *topic, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* Limits lines that untrusted programs can cause: `max` within 10 seconds, and fewer while the
 * flood continues. Set it to zeros before its first use. */
struct log_limit {
    int64_t since; /* time of the first line, CLOCK_MONOTONIC */
    unsigned lines, dropped;
    bool is_flood; /* some lines were dropped in the last 10 seconds */
    bool is_info;  /* the line with the number of dropped lines is no warning */
};

#define LOG_LIMIT_FEW 10

/* True if one more line may be written. First logs under `topic` how many lines were dropped. */
bool log_limit_ok(struct log_limit *limit, const char *topic, unsigned max);
/* Logs the number of dropped lines, if any. */
void log_limit_end(struct log_limit *limit, const char *topic);

#define log_error(topic, ...)  log_line(LOG_ERROR, topic, __VA_ARGS__)
#define log_warn(topic, ...)   log_line(LOG_WARN, topic, __VA_ARGS__)
#define log_notice(topic, ...) log_line(LOG_NOTICE, topic, __VA_ARGS__)
#define log_info(topic, ...)   log_line(LOG_INFO, topic, __VA_ARGS__)
#define log_debug(topic, ...)  log_line(LOG_DEBUG, topic, __VA_ARGS__)
