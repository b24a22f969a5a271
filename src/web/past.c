/* SPDX-License-Identifier: Apache-2.0
 * See past.h.
 */
#include "web/past.h"

#include "base/clock.h"
#include "base/str.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define READ_NS (10 * NS_PER_S)
/* Years of a job that is restarted each hour. */
enum { TEXT_MAX = 64 * 1024 * 1024 };

/* The last byte of the helper's answer: a text, or the reason why there is none. Without it the
 * answer is cut. */
enum { PAST_TEXT = 1, PAST_WHY };

/* Runs in the helper. */
static void past_print(const void *arg, int answer)
{
    struct err err;
    const struct past *past = arg;
    if (dup2(answer, STDOUT_FILENO) < 0)
        return;
    bool ok = past->print(&past->options, &err);
    printf("%s%c", ok ? "" : err.text, ok ? PAST_TEXT : PAST_WHY);
    fflush(stdout); /* a text that is cut lacks its last byte */
}

static void past_fail(struct past *past, const char *why)
{
    str_fit(past->why, sizeof past->why, why);
    str_printable(past->why);
}

static void past_take(struct past *past)
{
    char why[sizeof past->why] = "the process that reads the ledger has died";
    const char *text = (const char *)buf_bytes(&past->inquiry.text);
    size_t len = buf_len(&past->inquiry.text);
    int last = len > 0 ? text[--len] : 0;
    if (last == PAST_TEXT) {
        past->text = strndup(text, len);
        past->len = len;
        past_fail(past, "pchrun-web has no memory for it");
        return;
    }
    if (last == PAST_WHY)
        snprintf(why, sizeof why, "%.*s", (int)(len < sizeof why ? len : sizeof why - 1), text);
    past_fail(past, why);
}

static void past_finish(struct past *past, const char *failure)
{
    past->at = clock_now_ns();
    free(past->text);
    past->text = NULL;
    if (failure)
        past_fail(past, failure);
    else
        past_take(past);
    past->on_over(past->ctx);
}

static void past_on_over(void *ctx, bool is_late)
{
    struct past *past = ctx;
    char late[sizeof past->why];
    snprintf(late, sizeof late,
             "the ledger in %.200s could not be read within %d s; does its disk hang?", past->dir,
             (int)(READ_NS / NS_PER_S));
    past_finish(past, is_late ? late : NULL);
}

void past_open(struct past *past)
{
    past->options = (struct ctl_options){
        .is_json = true, .is_quiet = true, .node = past->node, .path = past->dir};
    past->inquiry = (struct inquiry){.fn = past_print,
                                     .arg = past,
                                     .base = past->base,
                                     .wait_ns = READ_NS,
                                     .max = TEXT_MAX,
                                     .on_over = past_on_over,
                                     .ctx = past,
                                     .helper = {.reap = past->reap, .keeps_dir = true}};
}

void past_free(struct past *past)
{
    if (!past->inquiry.fn)
        return;
    inquiry_free(&past->inquiry);
    free(past->text);
    past->text = NULL;
}

bool past_read(struct past *past, const char *dir)
{
    struct err err;
    reap_all(past->reap);
    if (past->inquiry.deadline.is_open)
        return false;
    past->begun = clock_now_ns();
    if (!str_copy(past->dir, sizeof past->dir, dir))
        past_finish(past, "the path of the state directory is too long");
    else if (!inquiry_start(&past->inquiry, &err))
        past_finish(past, err.text);
    return true;
}
