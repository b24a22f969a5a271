/* SPDX-License-Identifier: Apache-2.0
 * See say.h.
 */
#include "watch/say.h"

#include "base/clock.h"
#include "base/str.h"
#include "json/writer.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

/* A deadline below this is written with milliseconds, above in whole seconds. */
#define FRACTION_NS (1000 * NS_PER_S)

/* Rounds down: the reader must not count on more time than is left. */
static int64_t in_units(int64_t ns, int64_t unit)
{
    return ns / unit - (ns % unit < 0);
}

static void add_seconds(struct writer *w, int64_t left_ns)
{
    if (left_ns >= FRACTION_NS || left_ns <= -FRACTION_NS)
        writer_int(w, "deadline_seconds", in_units(left_ns, NS_PER_S));
    else
        writer_real(w, "deadline_seconds", (double)in_units(left_ns, NS_PER_MS) / 1000);
}

size_t say_format(const struct ledger_news *news, int64_t now_ns, char out[SAY_LINE_MAX])
{
    struct writer w;
    size_t len = 0;
    writer_init(&w, SAY_LINE_MAX, WRITER_LINE);
    writer_object(&w, NULL);
    writer_text(&w, "type", notice_type_name(news->type));
    if (news->id[0])
        writer_text(&w, "id", news->id);
    if (news->deadline_ns != EVENT_AT_UNKNOWN && news->type != NOTICE_CANCEL)
        add_seconds(&w, news->deadline_ns - now_ns);
    if (news->text[0])
        writer_text(&w, "text", news->text);
    writer_end(&w);
    const char *text = writer_done(&w, &len);
    if (text)
        memcpy(out, text, len);
    writer_free(&w);
    return text ? len : 0;
}

static void say_drop(struct say *say, unsigned i)
{
    say->count--;
    memmove(&say->lines[i], &say->lines[i + 1], (say->count - i) * sizeof say->lines[0]);
}

void say_put(void *ctx, const struct ledger_news *news)
{
    struct say *say = ctx;
    for (unsigned i = 0; i < say->count; i++)
        if (str_is(say->lines[i].id, news->id)) {
            say_drop(say, i);
            break;
        }
    if (say->count == SAY_MAX)
        say_drop(say, 0);
    say->lines[say->count++] = *news;
}

static bool say_can_write(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return poll(&out, 1, 0) == 1;
}

bool say_flush(struct say *say, struct err *err)
{
    while (say->count > 0 && say_can_write()) {
        char text[SAY_LINE_MAX];
        size_t len = say_format(&say->lines[0], clock_now_ns(), text);
        ssize_t n = write(STDOUT_FILENO, text, len);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            return true;
        if (n < 0)
            return err_set(err, ERR_SYSTEM, errno, "cannot write to standard output");
        say_drop(say, 0);
    }
    return true;
}
