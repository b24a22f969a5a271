/* SPDX-License-Identifier: Apache-2.0
 * See notices.h.
 */
#include "notices/notices.h"

#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct notices {
    struct source_world world;
    struct notices_calls calls;
    char mark[64], mark_text[80];
    char **env;
    size_t count;
    struct source sources[];
};

bool notices_is_busy(const struct notices *notices)
{
    for (size_t i = 0; i < notices->count; i++)
        if (source_is_ending(&notices->sources[i]))
            return true;
    return false;
}

static void notices_on_notice(void *ctx, const struct notice *notice)
{
    const struct notices *notices = ctx;
    notices->calls.notice(notices->calls.ctx, notice);
}

static void notices_on_changed(void *ctx)
{
    const struct notices *notices = ctx;
    notices->calls.changed(notices->calls.ctx);
}

/* The mark is unique, even if one pchrun runs below another. */
static bool make_env(struct notices *notices, char **env)
{
    size_t n = 0;
    while (env[n])
        n++;
    snprintf(notices->mark, sizeof notices->mark, "PCH_SOURCE_OF_%d_%" PRId64, (int)getpid(),
             clock_now_ns());
    snprintf(notices->mark_text, sizeof notices->mark_text, "%s=1", notices->mark);
    notices->env = malloc((n + 2) * sizeof *notices->env);
    if (!notices->env)
        return false;
    memcpy(notices->env, env, n * sizeof *env);
    notices->env[n] = notices->mark_text;
    notices->env[n + 1] = NULL;
    return true;
}

struct notices *notices_new(struct event_base *base, struct reap *reap,
                            const struct notices_options *options,
                            const struct notices_calls *calls, struct err *err)
{
    struct notices *notices =
        calloc(1, sizeof *notices + options->count * sizeof notices->sources[0]);
    if (!notices || !make_env(notices, options->env)) {
        free(notices);
        err_set(err, ERR_SYSTEM, ENOMEM, "cannot watch the notice sources");
        return NULL;
    }
    notices->world = (struct source_world){.base = base,
                                           .reap = reap,
                                           .dir = options->dir,
                                           .env = notices->env,
                                           .mark = notices->mark,
                                           .null = open("/dev/null", O_RDONLY | O_CLOEXEC),
                                           .notice = notices_on_notice,
                                           .changed = notices_on_changed,
                                           .ctx = notices};
    notices->calls = *calls;
    bool ok = notices->world.null >= 0 || err_set(err, ERR_SYSTEM, errno, "cannot open /dev/null");
    while (ok && notices->count < options->count) {
        size_t i = notices->count;
        ok = source_init(&notices->sources[i], &options->sources[i], &notices->world, err);
        notices->count += ok;
    }
    if (ok)
        return notices;
    notices_free(notices);
    return NULL;
}

void notices_start(struct notices *notices)
{
    for (size_t i = 0; i < notices->count; i++)
        source_start(&notices->sources[i]);
}

void notices_end(struct notices *notices)
{
    for (size_t i = 0; i < notices->count; i++)
        source_end(&notices->sources[i]);
}

void notices_free(struct notices *notices)
{
    if (!notices)
        return;
    for (size_t i = 0; i < notices->count; i++)
        source_free(&notices->sources[i]);
    free(notices->env);
    fd_close(&notices->world.null);
    free(notices);
}

void notices_state(const struct notices *notices, size_t i, struct source_state *ret)
{
    source_state(&notices->sources[i], ret);
}
