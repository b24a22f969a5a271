/* SPDX-License-Identifier: Apache-2.0
 * See inquiry.h.
 */
#include "loop/inquiry.h"

#include "base/fd.h"
#include "os/proc.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

enum { READ_BYTES = 16384 };

void inquiry_stop(struct inquiry *inquiry)
{
    watch_end(&inquiry->readable);
    watch_end(&inquiry->deadline);
    if (inquiry->helper.answer > 0)
        fd_close(&inquiry->helper.answer);
    if (inquiry->helper.watch.pid)
        proc_kill(inquiry->helper.watch.pid, SIGKILL);
}

/* Returns 1 if bytes were read, 0 if there are none now, -1 at the end or on failure. */
static int inquiry_take_some(struct inquiry *inquiry)
{
    char data[READ_BYTES];
    ssize_t n = read(inquiry->helper.answer, data, sizeof data);
    if (n > 0)
        return buf_add(&inquiry->text, data, (size_t)n) ? 1 : -1;
    return n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
}

static void end_inquiry(struct inquiry *inquiry, bool is_late)
{
    inquiry_stop(inquiry);
    inquiry->on_over(inquiry->ctx, is_late);
}

static void inquiry_on_readable(void *ctx)
{
    if (inquiry_take_some(ctx) < 0)
        end_inquiry(ctx, false);
}

/* First read what has come: if pchrun itself was stopped, the answer may have come in time. */
static void inquiry_on_deadline(void *ctx)
{
    int more;
    do
        more = inquiry_take_some(ctx);
    while (more > 0);
    end_inquiry(ctx, more == 0);
}

bool inquiry_start(struct inquiry *inquiry, struct err *err)
{
    struct helper *helper = &inquiry->helper;
    if (helper->watch.pid)
        return err_set(err, ERR_SYSTEM, 0, "the process of the previous query has not ended");
    buf_free(&inquiry->text);
    buf_init(&inquiry->text, inquiry->max);
    watch_init(&inquiry->readable, inquiry->base, inquiry_on_readable, inquiry);
    watch_init(&inquiry->deadline, inquiry->base, inquiry_on_deadline, inquiry);
    if (helper_ask(helper, inquiry->fn, inquiry->arg, err) &&
        watch_fd(&inquiry->readable, helper->answer, err)) {
        watch_within(&inquiry->deadline, inquiry->wait_ns);
        return true;
    }
    inquiry_stop(inquiry);
    return false;
}

void inquiry_free(struct inquiry *inquiry)
{
    inquiry_stop(inquiry);
    helper_end(&inquiry->helper, true, 0);
    buf_free(&inquiry->text);
}
