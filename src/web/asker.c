/* SPDX-License-Identifier: Apache-2.0
 * See asker.h.
 */
#include "web/asker.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/thread.h"
#include "web/next.h"
#include "web/picture.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Between two pictures. With thousands of ranks it is longer, up to the maximum, so that reading
 * the answers takes a hundredth of a processor's time. */
#define ASK_NS      NS_PER_S
#define ASK_MAX_NS  (2 * NS_PER_S)
#define ASK_PER_CPU 100
/* Between two searches for the next attempt. */
#define LOOK_NS NS_PER_S
/* How long asker_stop() waits. */
#define STOP_NS NS_PER_S

enum { STACK_BYTES = 512 * 1024, LINES_BYTES_MAX = 4 * 1024 * 1024 };

void picture_free(struct asker_picture *picture)
{
    free(picture->answer);
    free(picture->layout);
    free(picture->state);
    free(picture->state_dir);
    *picture = (struct asker_picture){0};
}

/* --- handing over --- */

static void asker_signal(int fd)
{
    /* Fails only if the counter is full, and then it is readable anyway. */
    if (eventfd_write(fd, 1) != 0)
        return;
}

static void asker_drain(int fd)
{
    eventfd_t ignored;
    if (eventfd_read(fd, &ignored) != 0)
        return;
}

/* Under the lock. */
static void news_changed(struct asker *asker)
{
    asker->news.contact = asker->contact;
    asker_signal(asker->news_fd);
}

static void asker_tell_lost(struct asker *asker, const char *why)
{
    if (!asker->contact.is_lost)
        asker->contact = (struct asker_contact){.is_lost = true, .since = clock_now_ns()};
    str_copy(asker->contact.why, sizeof asker->contact.why, why);
    pthread_mutex_lock(&asker->lock);
    news_changed(asker);
    pthread_mutex_unlock(&asker->lock);
}

static void asker_tell_picture(struct asker *asker, const struct asker_picture *picture)
{
    asker->contact = (struct asker_contact){0};
    pthread_mutex_lock(&asker->lock);
    picture_free(&asker->news.picture);
    asker->news.picture = *picture;
    news_changed(asker);
    pthread_mutex_unlock(&asker->lock);
}

static void asker_tell_metrics(struct asker *asker, struct asker_metrics *metrics)
{
    metrics->at = clock_now_ns();
    pthread_mutex_lock(&asker->lock);
    free(asker->news.metrics.text);
    asker->news.metrics = *metrics;
    news_changed(asker);
    pthread_mutex_unlock(&asker->lock);
}

/* A line that does not fit is left out: the owner has not read for a long time. */
static void asker_tell_line(struct asker *asker, const char *line, size_t len)
{
    pthread_mutex_lock(&asker->lock);
    struct buf *lines = &asker->news.lines;
    if (buf_len(lines) + len + 1 <= lines->max && buf_add(lines, line, len) &&
        !buf_add(lines, "\n", 1))
        buf_drop(lines, buf_len(lines));
    news_changed(asker);
    pthread_mutex_unlock(&asker->lock);
}

/* The first picture tells by what the next attempt is known, and a picture ends the loss of
 * contact. */
static bool asker_is_due(const struct asker *asker)
{
    return asker->is_wanted || !asker->job.name[0] || asker->contact.is_lost;
}

/* --- finding --- */

static void asker_tell_ended(struct asker *asker, const char *more)
{
    char why[sizeof asker->contact.why];
    snprintf(why, sizeof why, "the supervisor has ended%s%s", *more ? "; " : "", more);
    asker_tell_lost(asker, why);
}

/* The supervisor has ended: the next attempt of the job is looked for. */
static void asker_leave(struct asker *asker)
{
    talk_close(&asker->events);
    asker->events.fd = -1;
    asker->dir[0] = '\0';
    asker->look_at = clock_now_ns();
    asker_tell_ended(asker, "");
}

/* Remembers by what the next attempt is known. */
static void asker_learn(struct asker *asker, const struct json *answer)
{
    const char *slash = strrchr(asker->dir, '/');
    identity_take(answer, &asker->job);
    asker->node = json_int_at(answer, "report.node_rank", -1);
    if (!slash)
        return;
    str_fit(asker->parent, sizeof asker->parent, asker->dir);
    asker->parent[slash - asker->dir] = '\0';
}

/* There was no picture so far: any job that the user means is the right one. */
static void asker_look_first(struct asker *asker)
{
    struct err err;
    struct ctl_options which = asker->which;
    which.is_quiet = true;
    if (find_dir(&which, asker->dir, &err) &&
        (!asker->state_dir || next_has_state_dir(asker->dir, asker->state_dir, &err)))
        return;
    asker->dir[0] = '\0';
    asker_tell_lost(asker, err.text);
}

static void asker_look(struct asker *asker)
{
    char why[NEXT_WHY_MAX];
    asker->is_searched = true;
    asker->look_at = clock_now_ns() + LOOK_NS;
    if (!asker->job.name[0])
        asker_look_first(asker);
    else if (!next_find(&asker->job, asker->which.node, asker->parent, asker->dir, why))
        asker_tell_ended(asker, why);
    asker->ask_at = clock_now_ns();
}

/* Node 0 knows every rank, and may be found only after another node of the job. A node that the
 * user named stays. */
static void asker_prefer_node_0(struct asker *asker)
{
    char dir[FIND_DIR_MAX], why[NEXT_WHY_MAX];
    if (!asker->is_searched || asker->which.node >= 0 || asker->node <= 0 ||
        !next_find(&asker->job, 0, asker->parent, dir, why))
        return;
    talk_close(&asker->events);
    asker->events.fd = -1;
    str_copy(asker->dir, sizeof asker->dir, dir);
    asker->look_at = asker->ask_at = clock_now_ns();
}

/* --- asking --- */

static void asker_follow(struct asker *asker)
{
    struct err err;
    const struct ctl_options follow = {.follows = true};
    asker->followed_at = clock_now_ns();
    if (talk_open(asker->dir, CONTROL_EVENTS, &follow, &asker->events, &err))
        return;
    talk_close(&asker->events);
    asker->look_at = clock_now_ns() + LOOK_NS;
    if (ask_found_nobody(&err))
        asker_leave(asker);
    else
        asker_tell_lost(asker, err.text);
}

/* A line of the journal, or a refusal. Lines that are not JSON are left out. */
static void asker_read_line(struct asker *asker, const char *line, size_t len)
{
    struct err err;
    JSON_CLEANUP struct json *event = json_read("event", line, len, &err);
    if (event && json_at(event, "error"))
        asker_tell_lost(asker, json_text_at(event, "error"));
    else if (event)
        asker_tell_line(asker, line, len);
    /* The supervisor may end before the next picture is due, which would have the cause. */
    if (event && json_is_at(event, "event", "failed"))
        asker->ask_at = clock_now_ns();
}

/* Takes the lines that have come. At their end the supervisor has ended, or has closed this
 * connection only: the next try to follow tells. */
static void asker_read(struct asker *asker)
{
    char *line;
    size_t len;
    struct err err;
    enum talk_result result;
    while ((result = talk_read(&asker->events, 0, &line, &len, &err)) == TALK_LINE)
        asker_read_line(asker, line, len);
    if (result == TALK_LATE)
        return;
    talk_close(&asker->events);
    asker->look_at = asker->followed_at + LOOK_NS;
}

/* A supervisor runs while its events can come. A cleaner of old files may remove its socket. */
static bool asker_is_followed(struct asker *asker)
{
    if (asker->events.fd >= 0)
        asker_read(asker);
    return asker->events.fd >= 0;
}

static bool asker_has_ended(struct asker *asker, const struct err *err)
{
    return ask_found_nobody(err) && !(err->sys_errno == ENOENT && asker_is_followed(asker));
}

/* The processor's time that this thread has used. */
static int64_t asker_used_ns(void)
{
    struct timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return used.tv_sec * NS_PER_S + used.tv_nsec;
}

static void asker_take_picture(struct asker *asker)
{
    struct answer answer;
    struct err err;
    const struct ctl_options all = {.is_raw = true};
    bool ok = ask(asker->dir, CONTROL_STATUS, &all, &answer, &err);
    struct asker_picture picture = {.at = clock_now_ns()};
    if (ok) {
        asker_learn(asker, answer.root);
        picture.layout = picture_layout(answer.root, &picture.layout_len);
        picture.state = picture_state(answer.root, &picture.state_len);
        picture.state_dir = strdup(json_text_at(answer.root, "state_dir"));
        picture.answer = answer.text;
        answer.text = NULL;
    }
    answer_free(&answer);
    if (ok && picture.layout && picture.state && picture.state_dir) {
        asker_tell_picture(asker, &picture);
        asker_prefer_node_0(asker);
        return;
    }
    picture_free(&picture);
    if (ok)
        asker_tell_lost(asker, "pchrun-web has no memory for the answer");
    else if (asker_has_ended(asker, &err))
        asker_leave(asker);
    else
        asker_tell_lost(asker, err.text);
}

/* The answer may have set ask_at, too: then the next picture is wanted at once. */
static void asker_ask(struct asker *asker)
{
    int64_t used = asker_used_ns();
    asker->ask_at = CLOCK_NEVER;
    asker_take_picture(asker);
    int64_t pause = clock_min(ASK_PER_CPU * (asker_used_ns() - used), ASK_MAX_NS);
    asker->ask_at = clock_min(asker->ask_at, clock_now_ns() + (pause > ASK_NS ? pause : ASK_NS));
}

static void asker_ask_metrics(struct asker *asker)
{
    struct answer answer = {0};
    struct err err = {0};
    struct asker_metrics metrics = {0};
    const struct ctl_options raw = {.is_raw = true};
    bool ok = asker->dir[0] && ask(asker->dir, CONTROL_METRICS, &raw, &answer, &err);
    if (ok)
        metrics.text = strdup(json_text_at(answer.root, "metrics"));
    else if (asker->dir[0] && asker_has_ended(asker, &err))
        asker_leave(asker);
    if (ok)
        str_fit(metrics.why, sizeof metrics.why, "pchrun-web has no memory for them");
    else
        str_fit(metrics.why, sizeof metrics.why, asker->dir[0] ? err.text : asker->contact.why);
    metrics.is_of_none = !asker->dir[0];
    answer_free(&answer);
    asker_tell_metrics(asker, &metrics);
}

/* --- the thread --- */

static void asker_work(struct asker *asker)
{
    if (asker->events.fd >= 0)
        asker_read(asker);
    bool is_time = clock_now_ns() >= asker->look_at;
    if (!asker->dir[0] && is_time)
        asker_look(asker);
    if (asker->dir[0] && asker->events.fd < 0 && is_time)
        asker_follow(asker);
    if (asker->dir[0] && asker_is_due(asker) && clock_now_ns() >= asker->ask_at)
        asker_ask(asker);
    if (atomic_exchange(&asker->wants_metrics, false))
        asker_ask_metrics(asker);
}

static int64_t asker_next(const struct asker *asker)
{
    int64_t at = asker->events.fd >= 0 ? CLOCK_NEVER : asker->look_at;
    return asker->dir[0] && asker_is_due(asker) ? clock_min(at, asker->ask_at) : at;
}

static void *asker_run(void *arg)
{
    struct asker *asker = arg;
    while (!asker->is_stopped) {
        asker_drain(asker->wake_fd);
        asker_work(asker);
        fd_wait(asker->wake_fd, asker->events.fd, asker_next(asker));
    }
    talk_close(&asker->events);
    return NULL;
}

/* --- the owner's side --- */

bool asker_start(struct asker *asker, struct err *err)
{
    asker->events = (struct talk){.fd = -1};
    asker->ask_at = asker->look_at = clock_now_ns();
    buf_init(&asker->news.lines, LINES_BYTES_MAX);
    pthread_mutex_init(&asker->lock, NULL);
    asker->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    asker->news_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (asker->wake_fd < 0 || asker->news_fd < 0)
        return err_set(err, ERR_SYSTEM, errno, "cannot make an eventfd");
    int why = thread_start(&asker->thread, STACK_BYTES, asker_run, asker);
    return why == 0 || err_set(err, ERR_SYSTEM, why, "cannot start a thread");
}

void asker_want(struct asker *asker, bool is_wanted)
{
    if (atomic_exchange(&asker->is_wanted, is_wanted) != is_wanted)
        asker_signal(asker->wake_fd);
}

void asker_want_metrics(struct asker *asker)
{
    asker->wants_metrics = true;
    asker_signal(asker->wake_fd);
}

void asker_take(struct asker *asker, struct asker_news *ret)
{
    asker_drain(asker->news_fd);
    pthread_mutex_lock(&asker->lock);
    *ret = asker->news;
    asker->news.picture = (struct asker_picture){0};
    asker->news.metrics = (struct asker_metrics){0};
    buf_init(&asker->news.lines, LINES_BYTES_MAX);
    pthread_mutex_unlock(&asker->lock);
}

void asker_stop(struct asker *asker)
{
    struct timespec until;
    asker->is_stopped = true;
    asker_signal(asker->wake_fd);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += STOP_NS / NS_PER_S;
    if (pthread_timedjoin_np(asker->thread, NULL, &until) != 0)
        return;
    picture_free(&asker->news.picture);
    free(asker->news.metrics.text);
    buf_free(&asker->news.lines);
    pthread_mutex_destroy(&asker->lock);
    fd_close(&asker->wake_fd);
    fd_close(&asker->news_fd);
}
