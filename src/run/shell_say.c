/* SPDX-License-Identifier: Apache-2.0
 * See shell_say.h. The core logs the last of these lines, when every rank has attached.
 */
#include "run/shell_say.h"

#include "base/log.h"
#include "base/sigtext.h"
#include "base/str.h"
#include "config/values.h"
#include "run/shell_parts.h"

#include <inttypes.h>
#include <stdlib.h>

enum { LINE_SIZE = 3 * PATH_MAX };

/* --- which job, and where it begins --- */

static void add_count(char *text, size_t size, unsigned long n, const char *what)
{
    str_addf(text, size, ", %lu %s%s", n, what, n == 1 ? "" : "s");
}

/* A person who starts a new experiment may have taken the directory of an old one, so the line says
 * what the record has, and how to begin anew. */
static void add_attempt(struct record *record, char *text, size_t size)
{
    int64_t attempt = record->history.attempt;
    uint64_t completed = record->completed_step, resumed = record->resume_step;
    const char *path = resumed ? record_path(record, 0, resumed) : NULL;
    if (completed)
        str_addf(text, size, "attempt %" PRId64 " completed this job at step %" PRIu64 "; ",
                 attempt - 1, completed);
    str_addf(text, size, "attempt %" PRId64, attempt);
    if (resumed)
        str_addf(text, size, " resumes at step %" PRIu64 "%s%s", resumed, path ? " of " : "",
                 path ? path : "");
    else
        str_addf(text, size, " begins at step 0%s",
                 record->history.is_there ? ": no earlier attempt has committed a save" : "");
    if (completed > resumed)
        str_addf(text, size,
                 "; steps %" PRIu64 " to %" PRIu64 " are trained again: a save at the program's "
                 "end prevents that",
                 resumed + 1, completed);
    else if (completed)
        str_addf(text, size, "; to train longer, give the program more steps");
    if (resumed || completed)
        str_addf(text, size, "; to begin anew, stop the job and move %s%s away",
                 record->is_shared ? "" : "every node's ", record->dir);
}

/* 0: only the processes will tell. */
static unsigned long ranks_of_job(const struct shell *shell)
{
    struct core_peer_report *nodes = calloc((size_t)shell->params.nnodes, sizeof *nodes);
    int n = nodes ? core_peers(shell->loop.core, nodes, shell->params.nnodes) : 0;
    unsigned long ranks = 0;
    bool is_known = true;
    for (int i = 0; i < n; i++) {
        is_known = is_known && nodes[i].ranks_expected >= 0;
        ranks += (unsigned long)nodes[i].ranks_expected;
    }
    free(nodes);
    return is_known ? ranks : 0;
}

static void say_job(struct shell *shell)
{
    char text[LINE_SIZE] = "";
    unsigned long ranks = ranks_of_job(shell);
    if (shell->config->is_unnamed)
        str_addf(text, sizeof text, " (%s; --job sets another)", origin_text(shell->config, "job"));
    add_count(text, sizeof text, (unsigned long)shell->params.nnodes, "node");
    if (ranks)
        add_count(text, sizeof text, ranks, "rank");
    str_addf(text, sizeof text, ": ");
    if (shell->record.dir)
        add_attempt(&shell->record, text, sizeof text);
    else if (shell->params.attempt > 1)
        str_addf(text, sizeof text,
                 "start %" PRIu32 " without checkpoint.dir: no progress is kept from one start to "
                 "the next",
                 shell->params.attempt);
    else
        str_addf(text, sizeof text, "begins at step 0");
    log_notice("start", "job %s%s", shell->params.job, text);
}

/* --- how it saves --- */

/* Nothing shows before a rank attaches that one will. */
static void add_warning(const struct shell *shell, char *text, size_t size)
{
    if (!shell->attach.has_rank)
        str_addf(text, size,
                 "; a program that never attaches (in Python: pch.attach%s) saves nothing",
                 shell->config->instrument ? ", or Trainer, Lightning or Keras" : "");
}

static void add_saves(const struct shell *shell, char *text, size_t size)
{
    const struct config *config = shell->config;
    const struct config_every *every = &config->checkpoint.every;
    int64_t grace = config_least_grace(config);
    bool is_guess = grace == config->grace_ns && config_is_guess(config, 0);
    char time[32];
    if (config->save.mode == SAVE_ATTACH)
        str_addf(text, size, "on a notice every rank that attaches saves one step");
    else if (config->save.mode == SAVE_SIGNAL)
        str_addf(text, size, "on a notice the ranks get %s and save", SIGTEXT(config->save.signal));
    else
        str_addf(text, size, "on a notice the commands get its signal and save");
    str_addf(text, size, ", within %s%s", str_about(grace, time, sizeof time),
             is_guess ? " (a guess; --grace sets it)" : "");
    if (config->save.mode != SAVE_ATTACH)
        return;
    if (every->is_auto)
        str_addf(text, size, "; without one, as often as pays (checkpoint.every auto)");
    else if (every->ns)
        str_addf(text, size, "; without one, every %s", str_about(every->ns, time, sizeof time));
    else if (every->steps)
        str_addf(text, size, "; without one, every %" PRId64 " steps", every->steps);
    add_warning(shell, text, size);
}

/* pchctl looks only in these directories, as the shell in which it is typed has them. */
static bool is_usual_base(const char *base)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    return str_is(base, "/tmp") || str_is(base, "/dev/shm") || (runtime && str_is(base, runtime));
}

/* Where people find more: the commands' output, and the state of the job. */
static void add_places(struct shell *shell, char *text, size_t size)
{
    const char *base = procs_run_dir(shell->attach.procs)->base;
    bool is_usual = is_usual_base(base), is_alone = shell->params.nnodes == 1;
    if (shell->config->logs.dir)
        str_addf(text, size, "; output in %s", shell->config->logs.dir);
    str_addf(text, size, "; status%s%s: pchctl --job ", is_alone ? "" : " on ",
             is_alone ? "" : shell->params.host);
    str_add_word(text, size, shell->params.job);
    str_addf(text, size, "%s%s", is_alone ? "" : " --node 0", is_usual ? "" : " --run-dir ");
    if (!is_usual)
        str_add_word(text, size, base);
    str_addf(text, size, " status");
}

static void say_saves(struct shell *shell)
{
    char text[LINE_SIZE] = "", places[2 * PATH_MAX] = "";
    add_places(shell, places, sizeof places);
    if (!shell->record.dir && shell->config->save.mode == SAVE_ATTACH) {
        add_warning(shell, text, sizeof text);
        log_warn("start",
                 "no checkpoint.dir is set, so no save is recorded: after a preemption the next "
                 "start begins at step 0; --checkpoint-dir DIRECTORY prevents that%s%s",
                 text, places);
        return;
    }
    add_saves(shell, text, sizeof text);
    log_info("start", "%s%s", text, places);
}

void shell_say_start(struct shell *shell)
{
    bool saves = shell->record.dir || shell->attach.has_rank ||
                 shell->config->save.mode != SAVE_ATTACH || log_level() >= LOG_INFO;
    if (shell->params.node_rank > 0)
        return;
    if (!shell->has_said_job && (saves || shell->params.nnodes > 1)) {
        shell->has_said_job = true;
        say_job(shell);
    }
    if (!shell->has_said_saves && saves) {
        shell->has_said_saves = true;
        say_saves(shell);
    }
}
