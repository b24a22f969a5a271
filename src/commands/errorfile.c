/* SPDX-License-Identifier: Apache-2.0
 * See errorfile.h.
 */
#include "commands/errorfile.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "json/json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Python prints the exception on the last line of the call stack. */
static const char *last_line(const char *text)
{
    size_t n = strlen(text);
    while (n > 0 && text[n - 1] == '\n')
        n--;
    const char *before = memrchr(text, '\n', n);
    return before ? before + 1 : text;
}

/* Joins the lines of a message: the reason may be in any of them, often in the last. */
static bool errorfile_take_text(const char *text, char *ret, size_t size)
{
    if (!text)
        return false;
    str_fit(ret, size, text + strspn(text, " \t\r\n"));
    str_printable(str_one_line(ret));
    return ret[0] != '\0';
}

/* torchrun writes whole seconds, as a string. */
static bool read_seconds(const struct json *value, int64_t *ret)
{
    const char *text = json_text(value);
    double number;
    if (text)
        return str_to_i64(text, 1, INT64_MAX / NS_PER_S - 1, ret);
    if (!json_number(value, &number) || number < 1 || number > 1e9 * 9)
        return false;
    *ret = (int64_t)number;
    return true;
}

/* A whole second is too coarse to tell which rank failed first, so use the time of the file. If the
 * file's time is far from the second (the clocks differ), use the end of the second. */
static int64_t errorfile_time_of(int64_t second, const struct errorfile_span *span)
{
    int64_t changed = span->changed;
    int64_t begin = second * NS_PER_S, end = begin + NS_PER_S;
    if (begin > span->to || end <= span->from)
        return 0;
    if (changed >= begin && changed < end + NS_PER_S && changed >= span->from &&
        changed <= span->to)
        return changed;
    return clock_min(end, span->to);
}

static bool errorfile_take_message(const struct json *message, const struct errorfile_span *span,
                                   struct errorfile *ret)
{
    int64_t second;
    if (errorfile_take_text(json_text(message), ret->text, sizeof ret->text))
        return true;
    const struct json *info = json_find(message, "extraInfo");
    const char *stack = json_text(json_find(info, "py_callstack"));
    if (read_seconds(json_find(info, "timestamp"), &second))
        ret->wall = errorfile_time_of(second, span);
    return errorfile_take_text(json_text(json_find(message, "message")), ret->text,
                               sizeof ret->text) ||
           (stack && errorfile_take_text(last_line(stack), ret->text, sizeof ret->text));
}

bool errorfile_parse(const void *data, size_t len, const struct errorfile_span *span,
                     struct errorfile *ret, struct err *err)
{
    *ret = (struct errorfile){0};
    struct json *root = json_read("the error file", data, len, err);
    if (!root)
        return false;
    bool ok = errorfile_take_message(json_find(root, "message"), span, ret);
    json_free(root);
    return ok || err_set(err, ERR_USAGE, 0, "the error file holds no message");
}

static int64_t ns_of(const struct timespec *ts)
{
    return ts->tv_sec * NS_PER_S + ts->tv_nsec;
}

bool errorfile_read(const char *path, bool is_ours, const struct errorfile_span *span,
                    struct errorfile *ret, struct err *err)
{
    /* The kernel's file times lag by up to a tick. */
    const int64_t tick = 10 * NS_PER_MS;
    struct stat st;
    int flags = O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY | (is_ours ? O_NOFOLLOW : 0);
    FD_CLEANUP int fd = open(path, flags);
    if (fd < 0 && errno == ENOENT)
        return err_set(err, ERR_NOT_FOUND, 0, "there is none");
    if (fd < 0 || fstat(fd, &st) != 0)
        return err_set(err, ERR_SYSTEM, errno, "cannot open it");
    if (!S_ISREG(st.st_mode))
        return err_set(err, ERR_USAGE, 0, "it is not a regular file");
    if (st.st_size == 0 || ns_of(&st.st_mtim) + tick < span->from)
        return err_set(err, ERR_NOT_FOUND, 0, "it is older than the program");
    if (st.st_size > ERRORFILE_MAX)
        return err_set(err, ERR_USAGE, 0, "it is longer than 1 MiB");
    struct errorfile_span known = {span->from, span->to, ns_of(&st.st_mtim)};
    char *data = malloc(ERRORFILE_MAX);
    if (!data)
        return err_set(err, ERR_SYSTEM, ENOMEM, "cannot read it");
    ssize_t len = fd_read_all(fd, data, ERRORFILE_MAX);
    bool ok = len < 0 ? err_set(err, ERR_SYSTEM, errno, "cannot read it")
                      : errorfile_parse(data, (size_t)len, &known, ret, err);
    free(data);
    return ok;
}
