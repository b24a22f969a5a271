/* SPDX-License-Identifier: Apache-2.0
 * See log.h.
 */
#include "base/log.h"

#include "base/clock.h"
#include "base/str.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LIMIT_NS (10 * NS_PER_S)

static struct {
    struct log_options options;
    unsigned long dropped;
} the_log = {.options = {.level = LOG_INFO, .format = LOG_TEXT, .node_rank = -1}};

const char *const log_level_names[] = {
    [LOG_ERROR] = "error", [LOG_WARN] = "warning", [LOG_NOTICE] = "notice",
    [LOG_INFO] = "info",   [LOG_DEBUG] = "debug",  [LOG__COUNT] = NULL,
};
const char *const log_format_names[] = {[LOG_TEXT] = "text", [LOG_JSON] = "json", NULL};

void log_init(const struct log_options *options)
{
    the_log.options = *options;
}

enum log_level log_level(void)
{
    return the_log.options.level;
}

/* Adds s to a JSON string, escaped, as far as it fits. Never cuts inside an escape or a character.
 * Control characters are already replaced. Bytes that are not UTF-8 become U+FFFD. */
static void add_json_text(char *dst, size_t size, const char *s)
{
    for (unsigned len; *s; s += len > 0 ? len : 1) {
        char put[8] = "\xef\xbf\xbd";
        len = str_utf8_len(s);
        if (len > 0)
            snprintf(put, sizeof put, "%s%.*s", strchr("\"\\", *s) ? "\\" : "", (int)len, s);
        if (strlen(dst) + strlen(put) >= size)
            return;
        str_addf(dst, size, "%s", put);
    }
}

static void log_format_text(char *line, size_t size, const char *topic, const char *text)
{
    int64_t now = clock_real_ns();
    time_t s = (time_t)(now / NS_PER_S);
    struct tm tm;
    localtime_r(&s, &tm);
    str_addf(line, size, "%s", the_log.options.program ? the_log.options.program : "pchrun");
    if (the_log.options.node_rank >= 0)
        str_addf(line, size, "[%d]", the_log.options.node_rank);
    str_addf(line, size, " %02d:%02d:%02d.%03d ", tm.tm_hour, tm.tm_min, tm.tm_sec,
             (int)(now % NS_PER_S / NS_PER_MS));
    if (topic)
        str_addf(line, size, "%s: ", topic);
    str_addf(line, size, "%s", text);
}

static void format_json(char *line, size_t size, enum log_level level, const char *topic,
                        const char *text)
{
    char at[32];
    str_addf(line, size, "{\"at\":\"%s\",\"level\":\"%s\"",
             clock_iso8601(clock_real_ns(), at, sizeof at), log_level_names[level]);
    if (the_log.options.node_rank >= 0)
        str_addf(line, size, ",\"node_rank\":%d", the_log.options.node_rank);
    if (topic)
        str_addf(line, size, ",\"topic\":\"%s\"", topic);
    str_addf(line, size, ",\"text\":\"");
    add_json_text(line, size - 3, text); /* room for the end, so that a cut line is still JSON */
    str_addf(line, size, "\"}");
}

/* Writes once, and only if it cannot block. */
static bool emit(const char *line)
{
    struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
    if (poll(&out, 1, 0) != 1 || !(out.revents & POLLOUT))
        return false;
    ssize_t n;
    do
        n = write(STDERR_FILENO, line, strlen(line));
    while (n < 0 && errno == EINTR);
    return n >= 0;
}

static void format_line(char *line, size_t size, enum log_level level, const char *topic,
                        const char *text)
{
    line[0] = '\0';
    if (the_log.options.format == LOG_JSON)
        format_json(line, size - 1, level, topic, text);
    else
        log_format_text(line, size - 1, topic, text);
    size_t len = strlen(line);
    line[len] = '\n';
    line[len + 1] = '\0';
}

void log_line(enum log_level level, const char *topic, const char *fmt, ...)
{
    if (level > the_log.options.level)
        return;
    int saved = errno;
    char text[2048];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    str_printable(text);

    char line[PIPE_BUF];
    if (the_log.dropped > 0) {
        char note[96];
        snprintf(note, sizeof note, "%lu earlier lines were dropped: standard error was full",
                 the_log.dropped);
        format_line(line, sizeof line, LOG_WARN, "log", note);
        if (emit(line))
            the_log.dropped = 0;
    }
    format_line(line, sizeof line, level, topic, text);
    if (!emit(line))
        the_log.dropped++;
    errno = saved;
}

void log_limit_end(struct log_limit *limit, const char *topic)
{
    if (limit->dropped > 0)
        log_line(limit->is_info ? LOG_INFO : LOG_WARN, topic,
                 "%u more lines like the last ones were not written", limit->dropped);
    *limit = (struct log_limit){.is_info = limit->is_info};
}

bool log_limit_ok(struct log_limit *limit, const char *topic, unsigned max)
{
    int64_t now = clock_now_ns();
    if (limit->lines > 0 && now - limit->since >= LIMIT_NS) {
        bool is_flood = limit->dropped > 0;
        log_limit_end(limit, topic);
        limit->is_flood = is_flood;
    }
    if (limit->lines == 0)
        limit->since = now;
    bool ok = limit->lines < (limit->is_flood && max > LOG_LIMIT_FEW ? LOG_LIMIT_FEW : max);
    limit->lines += ok;
    limit->dropped += !ok;
    return ok;
}
