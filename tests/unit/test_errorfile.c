/* SPDX-License-Identifier: Apache-2.0
 *
 * test_errorfile: the error file of a program that has failed, well-formed or not.
 */
#include "base/clock.h"
#include "commands/errorfile.h"

#include "folder.h"

#define S     NS_PER_S
#define BEGIN (1700000000 * S)

static const struct errorfile_span span = {BEGIN, BEGIN + 100 * S, 0};
static struct errorfile got;
static struct err err;

static bool parse_at(const char *text, int64_t changed)
{
    struct errorfile_span known = {span.from, span.to, changed};
    return errorfile_parse(text, strlen(text), &known, &got, &err);
}

static bool parse(const char *text)
{
    return parse_at(text, 0);
}

#define TORCH(message, timestamp)                                                             \
    "{\"message\": {\"message\": \"" message                                                  \
    "\", \"extraInfo\": {\"py_callstack\": \"Traceback:\\n  File \\\"a.py\\\"\\nValueError: " \
    "x\\n\", "                                                                                \
    "\"timestamp\": " timestamp "}}}"

Test(errorfile, as_torchrun_writes_it)
{
    cr_assert(parse(TORCH("RuntimeError: CUDA out of memory.\\nTried to", "\"1700000050\"")));
    cr_assert_str_eq(got.text, "RuntimeError: CUDA out of memory. Tried to");
    cr_assert_eq(got.wall, BEGIN + 51 * S, "not before the end of that second");
    cr_assert(parse(TORCH("RuntimeError: x", "1700000050")));
    cr_assert_eq(got.wall, BEGIN + 51 * S);
    cr_assert(parse(TORCH("RuntimeError: x", "1700000050.5")));
    cr_assert_eq(got.wall, BEGIN + 51 * S);
    cr_assert(parse("{\"message\": \"plain\"}"));
    cr_assert_str_eq(got.text, "plain");
    cr_assert_eq(got.wall, 0);
    cr_assert(parse("{\"message\": {\"message\": \"OSError: y\", \"errorCode\": 3}}"));
    cr_assert_str_eq(got.text, "OSError: y");
}

/* Without a message there is still the last line of the stack. */
Test(errorfile, an_empty_message)
{
    cr_assert(parse(TORCH("", "\"1700000050\"")));
    cr_assert_str_eq(got.text, "ValueError: x");
    cr_assert(parse(TORCH("\\n\\n  \\nlate", "\"1700000050\"")));
    cr_assert_str_eq(got.text, "late");
}

/* The text has whole seconds; the file's own time has milliseconds. */
Test(errorfile, the_time)
{
    cr_assert(parse_at(TORCH("x", "\"1700000050\""), BEGIN + 50 * S + 7));
    cr_assert_eq(got.wall, BEGIN + 50 * S + 7);
    cr_assert(parse_at(TORCH("x", "\"1700000050\""), BEGIN + 90 * S));
    cr_assert_eq(got.wall, BEGIN + 51 * S, "written again, or by another clock");
    cr_assert(parse(TORCH("x", "\"1700000100\"")));
    cr_assert_eq(got.wall, BEGIN + 100 * S, "not after the death");
    static const char *const bad[] = {TORCH("x", "\"1699999990\""),
                                      TORCH("x", "\"1700000101\""),
                                      TORCH("x", "\"soon\""),
                                      TORCH("x", "-1"),
                                      TORCH("x", "1e300"),
                                      TORCH("x", "null"),
                                      TORCH("x", "[]"),
                                      TORCH("x", "\"99999999999999999999\""),
                                      TORCH("x", "9223372036854775807"),
                                      "{\"message\": {\"message\": \"x\", \"extraInfo\": 7}}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cr_assert(parse_at(bad[i], BEGIN + 50 * S), "%s", bad[i]);
        cr_assert_eq(got.wall, 0, "%s", bad[i]);
    }
}

Test(errorfile, what_it_is_not)
{
    static const char *const bad[] = {"",
                                      "x",
                                      "{",
                                      "[]",
                                      "7",
                                      "{}",
                                      "{\"message\": 7}",
                                      "{\"message\": {}}",
                                      "{\"message\": null}",
                                      "{\"message\": \"\"}",
                                      "{\"message\": [\"x\"]}",
                                      "{\"message\": \"\xff\xfe\"}",
                                      "{\"message\": \"x\"} y",
                                      "{\"message\": {\"message\": {\"message\": \"x\"}}}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_assert(!parse(bad[i]), "%s", bad[i]);
    cr_assert(!errorfile_parse("{\"message\": \"a\0b\"}", 18, &span, &got, &err));
}

/* The text is shown on terminals and goes into messages. */
Test(errorfile, the_text_is_fit_to_be_shown)
{
    static char text[600000];
    cr_assert(parse("{\"message\": \"a\\u001b[2Jb\\u0007\"}"));
    cr_assert_str_eq(got.text, "a?[2Jb?");
    int n = sprintf(text, "{\"message\": \"");
    memset(text + n, 'y', 500000);
    strcpy(text + n + 500000, "\"}");
    cr_assert(parse(text));
    cr_assert_lt(strlen(got.text), sizeof got.text);
    cr_assert_gt(strlen(got.text), 400);
}

/* --- files --- */

static char path[128];

static void begin(void)
{
    folder_make();
    snprintf(path, sizeof path, "%s/error", folder);
}

TestSuite(errorfiles, .init = begin, .fini = folder_remove);

static bool read_it(bool is_ours)
{
    struct errorfile_span now = {clock_real_ns() - 10 * S, clock_real_ns() + S, 0};
    return errorfile_read(path, is_ours, &now, &got, &err);
}

static void write_it(const char *text, size_t len)
{
    int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0600);
    cr_assert_eq(write(fd, text, len), (ssize_t)len);
    close(fd);
}

Test(errorfiles, a_file)
{
    cr_assert(!read_it(true));
    cr_assert_eq(err.code, ERR_NOT_FOUND);
    write_it("", 0);
    cr_assert(!read_it(true));
    cr_assert_eq(err.code, ERR_NOT_FOUND);
    write_it("{\"message\": \"x\"}", 16);
    cr_assert(read_it(true));
    cr_assert_str_eq(got.text, "x");
}

Test(errorfiles, of_an_earlier_run)
{
    write_it("{\"message\": \"x\"}", 16);
    struct timespec old[2] = {{.tv_sec = 1700000000}, {.tv_sec = 1700000000}};
    cr_assert_eq(utimensat(AT_FDCWD, path, old, 0), 0);
    cr_assert(!read_it(false));
    cr_assert_eq(err.code, ERR_NOT_FOUND);
}

Test(errorfiles, too_long)
{
    write_it("{\"message\": \"x\"}", 16);
    cr_assert_eq(truncate(path, 10 << 20), 0);
    cr_assert(!read_it(true));
    cr_assert_str_eq(err.text, "it is longer than 1 MiB");
}

Test(errorfiles, no_file_at_all)
{
    cr_assert_eq(mkfifo(path, 0600), 0);
    cr_assert(!read_it(true));
    cr_assert_eq(err.code, ERR_USAGE);
    unlink(path);
    cr_assert_eq(mkdir(path, 0700), 0);
    cr_assert(!read_it(true) && err.code == ERR_USAGE);
    rmdir(path);
    cr_assert_eq(symlink("/dev/zero", path), 0);
    cr_assert(!read_it(true) && err.code == ERR_SYSTEM);
    cr_assert(!read_it(false) && err.code == ERR_USAGE);
}
