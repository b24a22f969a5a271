/* SPDX-License-Identifier: Apache-2.0
 * See takeover.h.
 */
#include "record/takeover.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/sigtext.h"
#include "base/str.h"
#include "peers/brief.h"
#include "record/history.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A file system that needs longer than this to look at a few files counts as dead. */
#define ANSWER_WAIT_NS (10 * NS_PER_S)

enum { WHO_MAX = 384 };

/* Until a new attempt has written the record, the record does not name it. The lock does. */
static void name_holder(const struct takeover *takeover, const char *holder, char who[WHO_MAX],
                        bool *ret_is_others)
{
    history_owner_text(takeover->record, config_job_identity(takeover->config), who, WHO_MAX,
                       ret_is_others);
    if (!strstr(who, holder))
        str_copy(who, WHO_MAX, holder);
    if (takeover->params->nnodes > 1)
        str_addf(who, WHO_MAX, ", node 0 as this one is,");
}

static void on_held(void *ctx, const char *holder)
{
    const struct takeover *takeover = ctx;
    char who[WHO_MAX], wait[32];
    bool is_others;
    name_holder(takeover, holder, who, &is_others);
    log_warn("start",
             "%s still holds the state directory '%s'; waiting for its end, for %s at most", who,
             takeover->dir,
             str_duration(takeover->config->checkpoint.lock_wait_ns, wait, sizeof wait));
    brief_tell_duplicate(takeover->config);
}

void takeover_ends(const struct core_params *params, sigset_t *ret)
{
    struct sigaction now;
    sigemptyset(ret);
    for (int number = 1; number < 65; number++) {
        enum signal_rule rule = params->signals[number].rule;
        bool ends = rule == SIGNAL_PREEMPT || (rule == SIGNAL_FORWARD && sigends(number));
        if (ends && (sigaction(number, NULL, &now) != 0 || now.sa_handler != SIG_IGN))
            sigaddset(ret, number);
    }
}

static int pending_of(const sigset_t *set)
{
    sigset_t pending;
    if (sigpending(&pending) != 0)
        return 0;
    for (int number = 1; number < 65; number++)
        if (sigismember(set, number) > 0 && sigismember(&pending, number) > 0)
            return number;
    return 0;
}

static bool still_held(const struct takeover *takeover, struct err *err)
{
    char who[WHO_MAX], wait[32], advice[160];
    bool is_others;
    snprintf(advice, sizeof advice,
             "%s first, or, if its host will not come back, remove commit.lock there",
             takeover->params->nnodes > 1 ? "give each node its own --node-rank, or end that one"
                                          : "end it");
    name_holder(takeover, err->text, who, &is_others);
    /* when the wait began, the other node 0 may not have listened yet */
    brief_tell_duplicate(takeover->config);
    return err_set(err, ERR_TAKEN, 0, "%s still holds the state directory '%s' after %s; %s", who,
                   takeover->dir,
                   str_duration(takeover->config->checkpoint.lock_wait_ns, wait, sizeof wait),
                   is_others ? "give each job a checkpoint.dir or state_dir of its own" : advice);
}

static bool takeover_judge(struct takeover *takeover, enum dirlock_result result,
                           const sigset_t *end, struct err *err)
{
    switch (result) {
    case DIRLOCK_OK:
        return true;
    case DIRLOCK_NONE:
        log_info("start", "%s; if another attempt still runs, the record will refuse its writes",
                 err->text);
        return true;
    case DIRLOCK_HELD:
        return still_held(takeover, err);
    case DIRLOCK_SIGNAL:
        takeover->signal = pending_of(end);
        err_set(&takeover->why, ERR_TAKEN, 0, "%s came while pchrun waited for the state directory",
                SIGTEXT(takeover->signal));
        *err = takeover->why;
        return false;
    case DIRLOCK_FAILED:
        break;
    }
    return err_wrap(err, "nothing could be recorded, so nothing is started");
}

/* True: pchrun goes on without the directory, to send the notice to the other nodes, which wait. */
static bool goes_on_to_tell(struct takeover *takeover, char **dir, const struct err *err)
{
    const struct core_params *params = takeover->params;
    bool is_notice = takeover->signal && params->signals[takeover->signal].rule == SIGNAL_PREEMPT;
    if (!is_notice || params->nnodes == 1 || params->node_rank != 0)
        return false;
    log_notice("start", "%s; nothing is started, and the other nodes are told", err->text);
    free(*dir);
    *dir = NULL;
    takeover->dir = NULL;
    return true;
}

bool takeover_begin(struct takeover *takeover, char **dir, struct reap *reap, struct err *err)
{
    const struct config *config = takeover->config;
    char owner[128];
    sigset_t end;
    bool locks = config->cluster.node_rank == 0;
    takeover->dir = *dir;
    if (!*dir)
        return true;
    if (asprintf(&takeover->record, "%s/" HISTORY_FILE, *dir) < 0 ||
        asprintf(&takeover->file, "%s/commit.lock", *dir) < 0)
        return err_set(err, ERR_SYSTEM, ENOMEM, "cannot start");
    takeover_ends(takeover->params, &end);
    snprintf(owner, sizeof owner, "process %d on %s", takeover->params->pid,
             takeover->params->host);
    struct dirlock_request request = {.parent = config->checkpoint.dir,
                                      .dir = *dir,
                                      .file = locks ? takeover->file : NULL,
                                      .owner = owner,
                                      .answer_ns = ANSWER_WAIT_NS,
                                      .wait_ns = config->checkpoint.lock_wait_ns,
                                      .end = &end,
                                      .on_held = on_held,
                                      .ctx = takeover};
    return takeover_judge(takeover, dirlock_take(&takeover->lock, &request, reap, err), &end,
                          err) ||
           goes_on_to_tell(takeover, dir, err);
}

void takeover_end(struct takeover *takeover)
{
    dirlock_free(&takeover->lock);
    free(takeover->record);
    free(takeover->file);
    *takeover = (struct takeover){0};
}
