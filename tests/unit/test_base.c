/* SPDX-License-Identifier: Apache-2.0
 *
 * base: buf, str, err, log, fd. A test that changes descriptors 0..2 or the limits does so in a
 * child that ends with _exit().
 */
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "base/value.h"
#include "unit.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- buf ---- */

/* Compared with a plain array, with sizes that make the queue move and grow. */
Test(buf, is_a_queue)
{
    enum { MAX = 5000 };
    static uint8_t model[MAX];
    size_t len = 0;
    struct buf buf;
    buf_init(&buf, MAX);
    srandom(1);
    uint8_t next = 0;
    for (int i = 0; i < 20000; i++) {
        uint8_t data[700];
        size_t n = (size_t)random() % sizeof data;
        if (random() % 2) {
            for (size_t j = 0; j < n; j++)
                data[j] = next++;
            bool fits = len + n <= MAX;
            cr_assert_eq(buf_add(&buf, data, n), fits);
            if (!fits) {
                next = (uint8_t)(next - n);
                continue;
            }
            memcpy(model + len, data, n);
            len += n;
        } else {
            n = n < len ? n : len;
            buf_drop(&buf, n);
            memmove(model, model + n, len - n);
            len -= n;
        }
        cr_assert_eq(buf_len(&buf), len);
        cr_assert(len == 0 || memcmp(buf_bytes(&buf), model, len) == 0);
    }
    buf_free(&buf);
}

Test(buf, nothing_is_not_too_much)
{
    struct buf buf;
    buf_init(&buf, 10);
    cr_assert(buf_add(&buf, "", 0));
    cr_assert_eq(buf_len(&buf), 0);
    buf_free(&buf);
}

Test(buf, has_a_bound)
{
    struct buf buf;
    buf_init(&buf, 10);
    cr_assert(buf_add(&buf, "0123456789", 10));
    cr_assert(!buf_add(&buf, "x", 1));
    cr_assert_not(buf_add(&buf, "", SIZE_MAX));
    cr_assert_not(buf_add(&buf, "", SIZE_MAX - 9));
    buf_drop(&buf, 4);
    cr_assert(buf_add(&buf, "abcd", 4));
    cr_assert_arr_eq(buf_bytes(&buf), "456789abcd", 10);
    buf_free(&buf);
}

Test(buf, gives_memory_back_when_empty)
{
    struct buf buf;
    buf_init(&buf, 1000);
    cr_assert(buf_add(&buf, "abc", 3));
    buf_drop(&buf, 3);
    cr_assert_null(buf.data);
    cr_assert(buf_add(&buf, "d", 1));
    buf_free(&buf);
    cr_assert_eq(buf_len(&buf), 0);
}

/* ---- str ---- */

Test(str, fit)
{
    char text[8];
    str_fit(text, sizeof text, "1234567");
    cr_assert_str_eq(text, "1234567");
    str_fit(text, sizeof text, "12345678");
    cr_assert_str_eq(text, "12...78");
    str_fit(text, sizeof text, "open 'file': no");
    cr_assert_str_eq(text, "op...no");
    str_fit(text, sizeof text, "a\u00e9bcdefg\u00e9");
    cr_assert_str_eq(text, "a...\u00e9");
    str_fit(text, sizeof text, "ab\u20ac56789\u20ac");
    cr_assert_str_eq(text, "ab...", "no part of a character");
}

static void expect_line(const char *from, const char *to)
{
    char text[64];
    str_copy(text, sizeof text, from);
    cr_expect_str_eq(str_one_line(text), to, "%s has become %s", from, text);
}

Test(str, one_line)
{
    expect_line("", "");
    expect_line("one  blank", "one  blank");
    expect_line(" \n\ta \n  b\r\n\r\nc  d\n \t", "a b c  d");
    expect_line("\n\n", "");
    expect_line("a ", "a");
}

Test(str, copy_and_add)
{
    char text[8];
    cr_assert(str_copy(text, sizeof text, "1234567"));
    cr_assert(!str_copy(text, sizeof text, "12345678"));
    cr_assert_str_eq(text, "1234567");
    cr_assert(str_copy(text, sizeof text, NULL));
    cr_assert_str_empty(text);
    cr_assert(str_addf(text, sizeof text, "%d", 123));
    cr_assert(str_addf(text, sizeof text, "%d", 4567));
    cr_assert(!str_addf(text, sizeof text, "x"));
    cr_assert_str_eq(text, "1234567");
    cr_assert(!str_copy(text, 1, "a"));
    cr_assert_str_empty(text);
}

Test(str, add_word)
{
    char text[32] = "cd ";
    cr_assert(str_add_word(text, sizeof text, "/a-b_c.d:7") && str_is(text, "cd /a-b_c.d:7"));
    text[0] = '\0';
    cr_assert(str_add_word(text, sizeof text, "") && str_is(text, "''"));
    text[0] = '\0';
    cr_assert(str_add_word(text, sizeof text, "my run's; $7") &&
              str_is(text, "'my run'\\''s; $7'"));
    cr_assert(!str_add_word(text, sizeof text, "a b c d e f g h i"));
}

Test(str, printable)
{
    char text[] = "a\nb\033[31mc\x7f\xc3\xa9";
    cr_assert_str_eq(str_printable(text), "a?b?[31mc?\xc3\xa9");
    static const struct {
        const char *text, *shown;
    } rows[] = {
        {"a\xe2\x80\xae"
         "gnp.exe",
         "a?gnp.exe"}, /* turns the rest of the line */
        {"\xe2\x81\xa6x\xe2\x81\xa9\xe2\x80\x8f\xd8\x9c",
         "?x???"},                                       /* U+2066 U+2069 U+200F U+061C */
        {"\xc2\x9b[2J", "?[2J"},                         /* a terminal takes U+009B as ESC [ */
        {"o\xe2\x80\x8b\xef\xbb\xbfk\xc2\xad", "o??k?"}, /* U+200B U+FEFF U+00AD */
        {"\xf3\xa0\x81\x81z", "?z"},                     /* U+E0041: a tag hides a text */
        {"\xe2\x80\xa8\xe2\x80\xa9", "??"},              /* a line, a paragraph */
        {"\xe2\x80\x8c\xe2\x80\x8d\xe2\x98\x83\xf0\x9f\x98\x80", /* joiners, a snowman, a face */
         "\xe2\x80\x8c\xe2\x80\x8d\xe2\x98\x83\xf0\x9f\x98\x80"},
        {"\x9b\xff\xe9 cut \xe2\x80", "\x9b\xff\xe9 cut \xe2\x80"}, /* not UTF-8 */
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char copy[64];
        str_copy(copy, sizeof copy, rows[i].text);
        cr_expect_str_eq(str_printable(copy), rows[i].shown, "row %zu: %s", i, copy);
    }
}

Test(str, whole_numbers)
{
    static const char *const bad[] = {
        "",   "-",  "+1", " 1", "1 ", "1x", "x", "0x10", "1.0", "--1", "99999999999999999999",
        "11", "-11"};
    int64_t v = 77;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        cr_assert(!str_to_i64(bad[i], -10, 10, &v), "'%s'", bad[i]);
    cr_assert_eq(v, 77, "the result was touched");
    cr_assert(str_to_i64("-10", -10, 10, &v));
    cr_assert_eq(v, -10);
    cr_assert(str_to_i64("007", -10, 10, &v));
    cr_assert_eq(v, 7);
    cr_assert(str_to_i64("9223372036854775807", INT64_MIN, INT64_MAX, &v));
    cr_assert_eq(v, INT64_MAX);
}

Test(str, durations)
{
    static const struct {
        const char *text;
        int64_t ns;
    } good[] = {{"25s", 25 * NS_PER_S},
                {"250ms", 250 * NS_PER_MS},
                {"1.5h", 5400 * NS_PER_S},
                {"10m", 600 * NS_PER_S},
                {"2d", 172800 * NS_PER_S},
                {"7us", 7000},
                {"3ns", 3},
                {"0", 0},
                {"0s", 0},
                {"999999999d", INT64_MAX},
                {"99999999999999999999999999999999999999d", INT64_MAX}};
    static const char *const bad[] = {"",    "25",     "s",    "-1s", "1 s",  "1S", "1e3s",
                                      ".5s", "1.2.3s", "1sec", "inf", "0x1s", "1s "};
    int64_t ns = -1;
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        cr_assert(str_to_duration(good[i].text, &ns), "'%s'", good[i].text);
        cr_assert_eq(ns, good[i].ns, "'%s'", good[i].text);
    }
    ns = -1;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        cr_assert(!str_to_duration(bad[i], &ns), "'%s'", bad[i]);
    cr_assert_eq(ns, -1, "the result was touched");
}

Test(str, whole_numbers_of_any_size)
{
    cr_assert(str_is_whole("0") && str_is_whole("-7") && str_is_whole("99999999999999999999999"));
    cr_assert(!str_is_whole("") && !str_is_whole("-") && !str_is_whole("7.0") &&
              !str_is_whole("--7") && !str_is_whole("7x"));
}

Test(str, durations_are_written_as_they_are_read)
{
    static const char *const texts[] = {"25s", "250ms", "90m", "10m", "2d", "7us", "3ns", "0s"};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        int64_t ns;
        char text[32];
        cr_assert(str_to_duration(texts[i], &ns));
        cr_assert_str_eq(str_duration(ns, text, sizeof text), texts[i]);
    }
}

Test(nearest, distance)
{
    cr_assert_eq(nearest_distance("", ""), 0);
    cr_assert_eq(nearest_distance("grace", "grace"), 0);
    cr_assert_eq(nearest_distance("grce", "grace"), 1);
    cr_assert_eq(nearest_distance("", "abc"), 3);
    cr_assert_eq(nearest_distance("kitten", "sitting"), 3);
    char long_text[200];
    memset(long_text, 'a', sizeof long_text);
    long_text[sizeof long_text - 1] = '\0';
    cr_assert_eq(nearest_distance(long_text, ""), 64);
}

/* ---- err ---- */

Test(err, set_and_wrap)
{
    struct err err;
    cr_assert(!err_set(&err, ERR_SYSTEM, ENOENT, "cannot open %s", "/x"));
    cr_assert_eq(err.code, ERR_SYSTEM);
    cr_assert_eq(err.sys_errno, ENOENT);
    cr_assert_str_eq(err.text, "cannot open /x: No such file or directory");
    cr_assert(!err_wrap(&err, "attempt %d", 2));
    cr_assert_str_eq(err.text, "attempt 2: cannot open /x: No such file or directory");
    cr_assert_eq(err.sys_errno, ENOENT);
    cr_assert(!err_set(NULL, ERR_USAGE, 0, "x"));
    cr_assert(!err_wrap(NULL, "x"));
}

Test(err, long_texts_are_cut)
{
    char text[1000];
    memset(text, 'a', sizeof text);
    text[sizeof text - 1] = '\0';
    struct err err;
    cr_assert(!err_set(&err, ERR_SYSTEM, ENOENT, "%s", text));
    cr_assert_eq(strlen(err.text), sizeof err.text - 1);
    for (size_t n = sizeof err.text - 10; n < sizeof err.text + 10; n++) {
        cr_assert(!err_set(&err, ERR_SYSTEM, 0, "inner"));
        cr_assert(!err_wrap(&err, "%.*s", (int)n, text));
        cr_assert_lt(strlen(err.text), sizeof err.text);
        cr_assert(strstr(err.text, "aa: "));
    }
}

/* ---- log ---- */

/* Standard error is a pipe of ours in each of these tests. */
static int logged, saved_stderr;

static void capture_stderr(void)
{
    int pipe_fds[2];
    saved_stderr = dup(2);
    cr_assert_eq(pipe2(pipe_fds, O_CLOEXEC), 0);
    cr_assert_eq(dup2(pipe_fds[1], 2), 2);
    close(pipe_fds[1]);
    fcntl(pipe_fds[0], F_SETFL, O_NONBLOCK);
    logged = pipe_fds[0];
}

static void release_stderr(void)
{
    dup2(saved_stderr, 2);
    close(saved_stderr);
    close(logged);
}

TestSuite(log, .init = capture_stderr, .fini = release_stderr);

/* The next line without its end; "" if there is none. Lives until the next call but one. */
static char *next_line(void)
{
    static char lines[2][8192];
    static int which;
    char *line = lines[which ^= 1];
    size_t n = 0;
    while (n + 1 < sizeof lines[0] && read(logged, &line[n], 1) == 1 && line[n] != '\n')
        n++;
    line[n] = '\0';
    return line;
}

Test(log, text)
{
    log_init(&(struct log_options){.level = LOG_INFO, .node_rank = 2});
    errno = E2BIG;
    log_notice("notice", "SIGTERM, %d s left\n\033[2J", 25);
    int error = errno;
    log_debug("x", "not written");
    const char *line = next_line();
    unsigned h, m, s, ms;
    int used = 0;
    cr_assert_eq(sscanf(line, "pchrun[2] %2u:%2u:%2u.%3u %n", &h, &m, &s, &ms, &used), 4, "%s",
                 line);
    cr_assert_str_eq(line + used, "notice: SIGTERM, 25 s left??[2J");
    cr_assert_str_empty(next_line());
    cr_assert_eq(error, E2BIG, "errno was changed");
    cr_assert_eq(log_level(), LOG_INFO);
}

/* A cut line is one line, fits into one write, and is still JSON. */
Test(log, long_lines_are_cut)
{
    char text[6000], lines[2][8192], quotes[2][8192];
    for (int format = 0; format < 2; format++) {
        log_init(&(struct log_options){.level = LOG_INFO, .format = format, .node_rank = 1});
        memset(text, 'a', sizeof text);
        text[sizeof text - 1] = '\0';
        log_info("t", "%s", text);
        str_copy(lines[format], sizeof lines[format], next_line());
        memset(text, '"', sizeof text - 1);
        log_info("topic", "%s", text);
        str_copy(quotes[format], sizeof quotes[format], next_line());
    }
    cr_assert_geq(strlen(lines[LOG_TEXT]), 2000);
    for (int i = 0; i < 2; i++)
        cr_assert_lt(strlen(lines[i]) + strlen("\n"), PIPE_BUF);
    const char *json = quotes[LOG_JSON];
    size_t n = strlen(json);
    cr_assert_lt(n + 1, PIPE_BUF);
    cr_assert_str_eq(json + n - 2, "\"}");
    const char *p = strstr(json, ",\"text\":\"") + strlen(",\"text\":\"");
    for (; p < json + n - 2; p += 2)
        cr_assert(p[0] == '\\' && p[1] == '"', "an escape was cut in half at %td", p - json);
    cr_assert_eq(p, json + n - 2);
}

Test(log, json)
{
    log_init(&(struct log_options){.level = LOG_DEBUG, .format = LOG_JSON, .node_rank = 3});
    log_debug(NULL, "a \"b\" \\c\t%s", "d");
    const char *line = next_line();
    cr_assert(str_starts(line, "{\"at\":\"20"), "%s", line);
    const char *rest = strchr(line, 'Z');
    cr_assert_str_eq(rest, "Z\",\"level\":\"debug\",\"node_rank\":3,"
                           "\"text\":\"a \\\"b\\\" \\\\c?d\"}");
}

/* A file's name may be any bytes; a machine that reads the log wants JSON. */
Test(log, json_of_any_bytes)
{
    char text[4096] = "";
    log_init(&(struct log_options){.level = LOG_INFO, .format = LOG_JSON, .node_rank = -1});
    log_info(NULL, "%s", "a\xff\xc3\xa9\xe2\x82z\xf0\x9f\x98\x80\xed\xa0\x80");
    const char *line = next_line();
    cr_expect_str_eq(strstr(line, "\"text\""),
                     "\"text\":\"a\uFFFD\u00e9\uFFFD\uFFFDz\U0001F600\uFFFD\uFFFD\uFFFD\"}");
    for (int i = 0; i < 700; i++)
        str_addf(text, sizeof text, "\xff\u20ac");
    log_info("t", "%s", text);
    line = next_line();
    size_t n = strlen(line);
    cr_expect_lt(n, PIPE_BUF);
    cr_expect_str_eq(line + n - 2, "\"}");
    for (const char *p = line; *p; p += str_utf8_len(p))
        cr_assert_gt(str_utf8_len(p), 0, "a character was cut at %td of %zu", p - line, n);
}

/* Messages that outsiders provoke are limited, and counted: they do not fill the log. */
Test(log, limit)
{
    struct log_limit limit = {0};
    log_init(&(struct log_options){.level = LOG_INFO, .node_rank = -1});
    int written = 0;
    for (int i = 0; i < 1000; i++)
        written += log_limit_ok(&limit, "t", LOG_LIMIT_FEW);
    cr_expect_eq(written, 10);
    cr_expect_str_empty(next_line());
    limit.since -= 11 * NS_PER_S;
    cr_expect(log_limit_ok(&limit, "t", LOG_LIMIT_FEW));
    const char *line = next_line();
    cr_expect(strstr(line, "t: 990 more lines"), "%s", line);
    log_limit_end(&limit, "t");
    cr_expect_str_empty(next_line());
    for (int i = 0; i < 12; i++)
        log_limit_ok(&limit, "t", LOG_LIMIT_FEW);
    log_limit_end(&limit, "t");
    line = next_line();
    cr_expect(strstr(line, "t: 2 more lines"), "%s", line);
}

/* Many lines at once are all written; many again and again are not. */
Test(log, limit_of_a_burst)
{
    struct log_limit limit = {0};
    int written[3] = {0};
    for (int pass = 0; pass < 3; pass++) {
        for (int i = 0; i < (pass < 2 ? 150 : 5); i++)
            written[pass] += log_limit_ok(&limit, "t", 100);
        limit.since -= 11 * NS_PER_S;
    }
    for (int i = 0; i < 50; i++)
        written[2] += log_limit_ok(&limit, "t", 100);
    cr_expect_eq(written[0], 100);
    cr_expect_eq(written[1], LOG_LIMIT_FEW);
    cr_expect_eq(written[2], 5 + 50);
}

/* A reader that stands still must not stop us: lines are dropped, counted, and the count is logged.
 */
Test(log, full_pipe)
{
    log_init(&(struct log_options){.level = LOG_INFO, .node_rank = -1});
    enum { LINES = 5000 };
    for (int i = 0; i < LINES; i++)
        log_info(NULL, "line %d", i);
    int got = 0;
    unsigned long dropped = 0;
    for (const char *line = next_line(); line[0]; line = next_line()) {
        char expected[32];
        snprintf(expected, sizeof expected, " line %d", got++);
        if (!strstr(line, expected))
            got = -LINES;
    }
    log_info(NULL, "again");
    const char *note = next_line(), *line = next_line();
    cr_assert_gt(got, 0);
    cr_assert_lt(got, LINES);
    const char *count = strstr(note, "log: ");
    cr_assert(count, "%s", note);
    cr_assert_eq(sscanf(count, "log: %lu earlier lines were dropped", &dropped), 1, "%s", note);
    cr_assert_eq(dropped, (unsigned long)(LINES - got));
    cr_assert(strstr(line, " again"), "%s", line);
}

/* ---- fd ---- */

Test(fd, close_and_take)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int same = fd_take(&fd);
    cr_assert_eq(fd, -1);
    cr_assert_geq(same, 0);
    errno = E2BIG;
    int number = same;
    fd_close(&same);
    fd_close(&same);
    cr_assert_eq(errno, E2BIG);
    cr_assert_eq(same, -1);
    cr_assert_lt(fcntl(number, F_GETFD), 0);
}

/* Runs `body` in a child; its status is the result. */
static int in_child(int (*body)(void))
{
    fflush(NULL);
    pid_t pid = fork();
    cr_assert_geq(pid, 0);
    if (pid == 0)
        _exit(body());
    int status = unit_wait(pid);
    cr_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int fill_standard(void)
{
    struct err err;
    unsigned opened;
    if (!fd_fill_standard(&opened, &err) || opened != 0)
        return 1;
    close(0);
    close(2);
    if (!fd_fill_standard(&opened, &err) || opened != (1 << 0 | 1 << 2))
        return 2;
    char byte;
    if (read(0, &byte, 1) != 0 || write(2, "x", 1) != 1)
        return 3;
    int next = open("/dev/null", O_RDONLY);
    return next > 2 ? 0 : 4;
}

Test(fd, standard_descriptors_are_filled)
{
    cr_assert_eq(in_child(fill_standard), 0);
}

static int close_ranges(void)
{
    int fds[6], keep[3];
    for (int i = 0; i < 6; i++)
        fds[i] = fcntl(1, F_DUPFD, 100 + 10 * i);
    keep[0] = fds[4];
    keep[1] = -1;
    keep[2] = fds[1];
    fd_range(fds[0], FD_RANGE_CLOEXEC, keep, 3);
    for (int i = 0; i < 6; i++) {
        bool is_kept = i == 1 || i == 4;
        if ((fcntl(fds[i], F_GETFD) == FD_CLOEXEC) == is_kept)
            return 10 + i;
    }
    fd_range(fds[0], FD_RANGE_CLOSE, keep, 3);
    for (int i = 0; i < 6; i++) {
        bool is_kept = i == 1 || i == 4;
        if ((fcntl(fds[i], F_GETFD) >= 0) != is_kept)
            return 20 + i;
    }
    return fcntl(1, F_GETFD) >= 0 ? 0 : 30;
}

Test(fd, ranges_spare_the_kept)
{
    cr_assert_eq(in_child(close_ranges), 0);
}

Test(fd, write_all_and_nonblock)
{
    int fds[2];
    cr_assert_eq(pipe2(fds, O_CLOEXEC), 0);
    cr_assert(fd_write_all(fds[1], "hello", 5));
    char data[6] = "";
    cr_assert_eq(read(fds[0], data, 5), 5);
    cr_assert_str_eq(data, "hello");
    struct err err;
    cr_assert(fd_set_nonblock(fds[1], &err));
    static char much[1 << 20];
    cr_assert(!fd_write_all(fds[1], much, sizeof much));
    cr_assert_eq(errno, EAGAIN);
    close(fds[0]);
    signal(SIGPIPE, SIG_IGN);
    cr_assert(!fd_write_all(fds[1], "x", 1));
    cr_assert_eq(errno, EPIPE);
    close(fds[1]);
    cr_assert(!fd_set_nonblock(fds[1], &err));
    cr_assert_eq(err.sys_errno, EBADF);
}

/* ---- clock ---- */

Test(clock, iso8601)
{
    char text[32];
    cr_assert_str_eq(clock_iso8601(1795262584 * NS_PER_S + 123456789, text, sizeof text),
                     "2026-11-21T12:03:04.123Z");
}
