/* SPDX-License-Identifier: Apache-2.0
 *
 * stepcalls: the functions of include/pch.h that a training loop calls at steps, at saves and at
 * its end: pch_step, pch_saved, pch_error, pch_done and others.
 *
 * Owns nothing; the state is in the job (job.h). Nothing here ends the program: when the supervisor
 * has died, a waiting call returns PCH_EXIT.
 */
#include "pch.h"

#include "base/ckptfile.h"
#include "base/str.h"
#include "libpch/job.h"
#include "libpch/line.h"
#include "libpch/robustlock.h"
#include "wire/gate.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Steps */

static bool has_answer(struct pch *job, const void *arg)
{
    return job->answer.is_there;
}

/* Sends a message and waits for its ANSWER. */
static enum pch_action loop_ask(struct pch *job, const struct procmsg *msg)
{
    struct live *live = job_live(job);
    pthread_mutex_lock(&job->lock);
    job->answer.is_there = false;
    job->answer.step = msg->step;
    pthread_mutex_unlock(&job->lock);
    if (!line_ask(job, job->connection, msg, has_answer, NULL))
        return PCH_EXIT;
    if (job->answer.action == PROC_CONTINUE)
        return PCH_CONTINUE;
    atomic_store(&live->state, LIVE_LEAVING);
    return PCH_EXIT;
}

/* True if the gate has changed. A LOOK message only wakes the reading thread. */
static bool gate_has_moved(struct pch *job, const void *arg)
{
    const uint64_t *word = arg;
    return atomic_load(&job_live(job)->supervisor->gate) != *word;
}

/* Makes the next pch_step take the slow path. */
static void look_again(struct live *live)
{
    uint32_t was = LIVE_ON; /* fails if the state is LIVE_LEAVING by now */
    (void)atomic_compare_exchange_strong(&live->state, &was, LIVE_SERVING);
}

static enum pch_action serve(struct pch *job, uint64_t step, uint64_t word)
{
    struct live *live = job_live(job);
    struct procmsg msg = {.type = PROCMSG_SERVING, .step = step, .tag = gate_tag(word)};
    pthread_mutex_lock(&job->lock);
    live->served_tag = gate_tag(word);
    live->served_step = step;
    pthread_mutex_unlock(&job->lock);
    if (!line_send(job, &msg))
        return PCH_EXIT;
    live->is_serving = true;
    live->is_held = gate_ends_run(word);
    look_again(live);
    return PCH_SAVE;
}

/* Waits for the answer about a background save: its round ends the run, so no step may begin before
 * the answer. */
static enum pch_action loop_hold(struct pch *job)
{
    struct live *live = job_live(job);
    struct procmsg msg = {.type = PROCMSG_HELD, .step = live->served_step, .tag = live->served_tag};
    enum pch_action action = loop_ask(job, &msg);
    live->is_held = !job->answer.is_there;
    if (live->is_held)
        look_again(live); /* the wait was interrupted: the next step asks again */
    return action;
}

static enum pch_action loop_look(struct pch *job, uint64_t step)
{
    struct live *live = job_live(job);
    for (;;) {
        line_check(job);
        if (job_state(live) != LIVE_ON)
            return PCH_EXIT;
        if (live->is_held && loop_hold(job) == PCH_EXIT)
            return PCH_EXIT;
        uint64_t word = atomic_load(&live->supervisor->gate);
        if (!gate_stops(word, step, live->served_tag) || gate_tag(word) == 0)
            return PCH_CONTINUE;
        if (gate_tag(word) == GATE_TAG_LEAVE) {
            atomic_store(&live->state, LIVE_LEAVING);
            return PCH_EXIT;
        }
        if (gate_is_decided(word))
            return serve(job, step, word);
        struct procmsg waits = {.type = PROCMSG_WAITING, .step = step, .word = word};
        if (!line_ask(job, job->connection, &waits, gate_has_moved, &word))
            return PCH_EXIT;
    }
}

/* Checked only on the slow path: the check needs a system call. */
static void warn_of_threads(struct pch *job)
{
    struct live *live = job_live(job);
    uint32_t other = robustlock_other_trainer(live->process);
    if (other && !atomic_exchange(&live->has_said, true))
        line_say("rank %d: thread %ld calls pch_step, but thread %u trains. Make all calls in one "
                 "thread; this save may be lost. See Threads in libpch(3)",
                 job->rank, (long)syscall(SYS_gettid), other);
}

/* A process that only reports steps takes no part in rounds. */
static enum pch_action step_slowly(struct pch *job, uint64_t step)
{
    NOT_CANCELLED;
    struct live *live = job_live(job);
    uint32_t was = LIVE_SERVING; /* fails if the state is LIVE_LEAVING by now */
    if (!live->has_begun)
        robustlock_train(live->process);
    else if (!live->counts)
        warn_of_threads(job);
    live->has_begun = true;
    live->is_serving = false;
    (void)atomic_compare_exchange_strong(&live->state, &was, LIVE_ON);
    if (!live->counts)
        return loop_look(job, step);
    line_check(job);
    return PCH_CONTINUE;
}

/* The slow path: a round is open, the supervisor has died, or the call is the first one or the
 * first after a save or another phase. */
static __attribute__((noinline)) enum pch_action step_from_afar(struct pch *job, uint64_t step)
{
    struct live *live = job_live(job);
    enum live_state state = job_state(live);
    if (state != LIVE_ON && state != LIVE_SERVING)
        return state == LIVE_LEAVING ? PCH_EXIT : PCH_CONTINUE;
    atomic_store_explicit(&job->process->phase, PCH_TRAIN, memory_order_relaxed);
    atomic_store(&job->process->step, step);
    uint64_t word = atomic_load(&job->supervisor->gate);
    if (state == LIVE_ON && !live->counts && !gate_stops(word, step, live->served_tag) &&
        page_is_alive(job->supervisor))
        return PCH_CONTINUE;
    return step_slowly(job, step);
}

/* Aligned so that its code fits into one cache line: with two lines it is 10 % slower. */
__attribute__((aligned(64))) enum pch_action pch_step(pch_t *job, uint64_t finished)
{
    if (!LIKELY(job))
        return PCH_CONTINUE;
    if (LIKELY(job_step_is_short(job, finished)))
        return PCH_CONTINUE;
    return step_from_afar(job, finished);
}

/* The path of a checkpoint */

/* False: the path is too long, or the working directory was removed. */
static bool savepath_make_absolute(char ret[PROCMSG_PATH_MAX], const char *path, struct err *err)
{
    bool is_absolute = path[0] == '/';
    ret[0] = '\0';
    /* If the directory is unreachable, the path from getcwd does not begin with a slash. */
    if (!is_absolute && (!getcwd(ret, PROCMSG_PATH_MAX) || ret[0] != '/'))
        return err_set(err, ERR_USAGE, 0,
                       "the working directory was removed, so the relative path %.100s cannot be "
                       "found: pass an absolute one",
                       path);
    if (str_addf(ret, PROCMSG_PATH_MAX, "%s%s", is_absolute || !ret[1] ? "" : "/", path))
        return true;
    return err_set(err, ERR_USAGE, 0,
                   "the path of the checkpoint is too long (4095 bytes at most)");
}

bool savepath_take(char ret[PROCMSG_PATH_MAX], const char *path, struct err *err)
{
    ret[0] = '\0';
    if (!path || !path[0])
        return true;
    if (str_is_url(path) && str_copy(ret, PROCMSG_PATH_MAX, path))
        return true;
    return savepath_make_absolute(ret, path, err);
}

bool savepath_look(const char *path, struct err *err)
{
    char shown[128];
    if (path[0] != '/' || ckptfile_look(path) != CKPTFILE_ABSENT)
        return true;
    str_fit(shown, sizeof shown, path);
    return err_set(err, ERR_USAGE, 0,
                   "there is nothing at %s; a rank that writes no checkpoint passes NULL (None)",
                   shown);
}

/* Saves */

/* The tag of the round that saves at `step`; 0: the program saves on its own. */
static uint32_t tag_of(struct pch *job, uint64_t step)
{
    struct live *live = job_live(job);
    pthread_mutex_lock(&job->lock);
    uint32_t tag = live->served_tag && live->served_step == step ? live->served_tag : 0;
    pthread_mutex_unlock(&job->lock);
    return tag;
}

static const char *reason_of(const char *text)
{
    return text && text[0] ? text : "no reason given";
}

static void send_failed(struct pch *job, uint64_t step, uint32_t tag, const char *why)
{
    struct procmsg msg = {.type = PROCMSG_SAVE_FAILED, .step = step, .tag = tag};
    str_fit(msg.text, sizeof msg.text, reason_of(why));
    line_send(job, &msg);
}

/* False: no checkpoint at the path, and the save is reported as failed. Only rank 0 checks: if one
 * rank writes for all, the others may report the path before the checkpoint exists. */
static bool describe_save(struct pch *job, struct procmsg *ret, uint64_t step, uint32_t tag,
                          const char *path)
{
    struct err err;
    *ret = (struct procmsg){.type = PROCMSG_SAVED, .step = step, .tag = tag};
    if (savepath_take(ret->path, path, &err) && (job->rank != 0 || savepath_look(ret->path, &err)))
        return true;
    send_failed(job, step, tag, err.text);
    return false;
}

enum pch_action pch_saved(pch_t *job, uint64_t step, const char *path)
{
    NOT_CANCELLED;
    struct procmsg msg;
    if (!job)
        return PCH_CONTINUE;
    struct live *live = job_live(job);
    if (live->counts || !job_can_talk(live))
        return job_state(live) == LIVE_LEAVING ? PCH_EXIT : PCH_CONTINUE;
    uint32_t tag = live->is_serving ? live->served_tag : 0;
    bool is_described = describe_save(job, &msg, step, tag, path);
    live->is_serving = false;
    if (!is_described)
        return PCH_CONTINUE;
    msg.wants_answer = 1;
    if (tag)
        live->is_held = false; /* answered here */
    return loop_ask(job, &msg);
}

static bool job_saves(const pch_t *job)
{
    return pch_supervised(job) && !job_live(job)->counts;
}

void pch_durable(pch_t *job, uint64_t step, const char *path)
{
    NOT_CANCELLED;
    struct procmsg msg;
    if (job_saves(job) && describe_save(job, &msg, step, tag_of(job, step), path))
        line_send(job, &msg);
}

void pch_save_failed(pch_t *job, uint64_t step, const char *why)
{
    NOT_CANCELLED;
    if (job_saves(job))
        send_failed(job, step, tag_of(job, step), why);
}

/* The end */

void pch_error(pch_t *job, int code, const char *text)
{
    NOT_CANCELLED;
    struct procmsg msg = {.type = PROCMSG_ERROR, .number = code};
    str_fit(msg.text, sizeof msg.text, reason_of(text));
    if (pch_supervised(job))
        line_send(job, &msg);
}

void pch_collective_timeout(pch_t *job, uint64_t milliseconds)
{
    NOT_CANCELLED;
    bool is_finite = milliseconds <= INT64_MAX;
    struct procmsg msg = {.type = PROCMSG_TIMEOUT, .number = is_finite ? (int64_t)milliseconds : 0};
    if (pch_supervised(job))
        line_send(job, &msg);
}

void pch_done(pch_t *job)
{
    NOT_CANCELLED;
    struct procmsg msg = {.type = PROCMSG_DONE};
    if (!pch_supervised(job))
        return;
    pthread_mutex_lock(&job->lock);
    struct live *live = job_live(job);
    if (live->process)
        msg.step = atomic_load(&live->process->step);
    pthread_mutex_unlock(&job->lock);
    line_send(job, &msg);
}
