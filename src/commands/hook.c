/* SPDX-License-Identifier: Apache-2.0
 * See hook.h.
 */
#include "commands/hook.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "core/common/verdict.h"
#include "os/program.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

bool hook_is_busy(const struct hook *hook)
{
    return hook->phase == HOOK_RUNNING || hook->phase == HOOK_KILLED;
}

/* `text` must be set. */
static void hook_end(struct hook *hook, enum log_level level)
{
    bool has_run = hook->phase != HOOK_IDLE;
    char took[32];
    hook->took_ns = has_run ? clock_now_ns() - hook->started_at : 0;
    hook->phase = HOOK_OVER;
    watch_at(&hook->clock, CLOCK_NEVER);
    log_line(level, "hook", "'%s'%s%s: %s", hook->argv[0], has_run ? ", after " : "",
             has_run ? str_duration(hook->took_ns / NS_PER_MS * NS_PER_MS, took, sizeof took) : "",
             hook->text);
    hook->loop->has_changed = true;
}

static void hook_on_over(void *ctx)
{
    struct hook *hook = ctx;
    if (hook->phase == HOOK_OVER) /* hook_on_clock() has stopped the wait */
        return;
    bool is_well = hook->phase == HOOK_RUNNING && hook->probe.status == 0;
    str_copy(hook->text, sizeof hook->text, hook->probe.how);
    hook_end(hook, is_well ? LOG_INFO : LOG_WARN);
}

/* The hook has used up its time, or SIGKILL has not ended it. */
static void hook_on_clock(void *ctx)
{
    struct hook *hook = ctx;
    if (hook->phase == HOOK_KILLED) {
        str_addf(hook->text, sizeof hook->text, "%s; it does not die; pchrun ends without it",
                 hook->probe.how);
        hook_end(hook, LOG_WARN);
        return;
    }
    hook->phase = HOOK_KILLED;
    probe_kill(&hook->probe, hook->is_cut ? "the grace is over" : "exit.hook_wait is over");
    watch_at(&hook->clock, clock_now_ns() + hook->kill_wait_ns);
}

bool hook_open(struct hook *hook, struct err *err)
{
    watch_init(&hook->clock, hook->loop->base, hook_on_clock, hook);
    if (!hook->config->exit.hook)
        return true;
    /* Find the program at the start: the user sees an error early, and relative paths are valid. */
    hook->argv = program_args(hook->config->exit.hook, getenv("PATH"), err);
    return hook->argv || err_wrap(err, "exit.hook");
}

void hook_free(struct hook *hook)
{
    probe_free(&hook->probe); /* SIGKILL may not have ended it, or the event loop has failed */
    watch_end(&hook->clock);
    program_args_free(hook->argv);
}

static bool hook_start(struct hook *hook, const struct env_end *facts, struct err *err)
{
    struct env env;
    if (!env_build_end(&env, environ, facts, err))
        return false;
    hook->probe = (struct probe){.argv = hook->argv,
                                 .env = env.list,
                                 .own_pid = env.own_pid,
                                 .closed = hook->closed,
                                 .base = hook->loop->base,
                                 .reap = hook->reap,
                                 .on_over = hook_on_over,
                                 .ctx = hook};
    hook->has_run = probe_start(&hook->probe);
    env_free(&env);
    return hook->has_run || err_set(err, ERR_SYSTEM, 0, "%s", hook->probe.how);
}

void hook_run(struct hook *hook, const struct env_end *facts, int64_t deadline, int64_t margin)
{
    struct err err = {.text = "not run, since the grace is over"};
    char left[32];
    int64_t now = clock_now_ns(), until = now + hook->config->exit.hook_wait_ns;
    hook->started_at = now;
    hook->kill_wait_ns = hook->config->stop.kill_wait_ns;
    if (deadline != CLOCK_NEVER && deadline - margin < until) {
        until = deadline - margin;
        hook->is_cut = true;
    }
    if (deadline != CLOCK_NEVER && hook->kill_wait_ns > margin / 2)
        hook->kill_wait_ns = margin / 2;
    if (until <= now || !hook_start(hook, facts, &err)) {
        str_copy(hook->text, sizeof hook->text, err.text);
        hook_end(hook, LOG_WARN);
        return;
    }
    hook->phase = HOOK_RUNNING;
    watch_at(&hook->clock, until);
    log_info("hook", "running '%s' (exit.hook), which may take %s", hook->argv[0],
             str_duration((until - now) / NS_PER_MS * NS_PER_MS, left, sizeof left));
}

void hook_write(const struct hook *hook, struct writer *w, const char *key)
{
    if (!writer_object_if(w, key, hook->phase != HOOK_IDLE))
        return;
    writer_text(w, "command", hook->argv[0]);
    writer_text(w, "state",
                hook->phase == HOOK_RUNNING  ? "running"
                : hook->phase == HOOK_KILLED ? "killed"
                                             : "over");
    writer_int(w, "took_ms", hook->took_ns / NS_PER_MS);
    int status = hook->phase == HOOK_OVER && hook->has_run ? hook->probe.status : -1;
    writer_int_if(w, "code", status < 0 ? 0 : verdict_of_status(status), status >= 0);
    writer_int_if(w, "signal", WTERMSIG(status), status >= 0 && WIFSIGNALED(status));
    writer_text(w, "text", hook->text);
    writer_end(w);
}
