/* SPDX-License-Identifier: Apache-2.0
 * See top.h.
 */
#include "top/top.h"

#include "base/clock.h"
#include "base/str.h"
#include "ctl/words.h"
#include "top/screen.h"
#include "top/view/view.h"

#include <inttypes.h>
#include <locale.h>
#include <stdio.h>

/* Without an answer for so long, the contact counts as lost. Node 0 may wait 2 s for other nodes.
 */
#define TOP_LATE_NS (5 * NS_PER_S)
/* Between two tries to follow the events. */
#define TOP_FOLLOW_NS NS_PER_S

struct top {
    const struct ctl_options *options;
    const char *dir;
    struct talk status, events;
    int64_t ask_at, late_at; /* the next request; when its answer counts as late */
    int64_t follow_at;
    struct json *answer; /* NULL: none so far */
    int64_t answer_at;
    int64_t lost_since; /* 0: there is contact */
    char lost_why[256];
    struct json *failed; /* the last event of a failure; NULL: none has come */
    char end[WORDS_MAX]; /* "": the job runs */
    struct events journal;
    struct view view;
    struct cells cells;
    bool is_drawn; /* the screen shows all this */
};

/* --- the contact --- */

static void top_lose(struct top *top, const char *why)
{
    if (!top->lost_since)
        top->lost_since = clock_now_ns();
    top->is_drawn = false;
    str_copy(top->lost_why, sizeof top->lost_why, why);
}

/* The supervisor has ended. Its last event says how; if it was killed, there is none. */
static void top_end(struct top *top)
{
    top->is_drawn = false;
    if (!top->end[0])
        str_copy(top->end, sizeof top->end,
                 "ended: pchrun is gone, and did not say how (was it killed?); pchctl status "
                 "CHECKPOINT-DIR may tell more");
}

static void top_renew(struct top *top)
{
    view_renew(&top->view);
    top->is_drawn = false;
}

/* --- the state --- */

static void top_ask(struct top *top)
{
    struct err err;
    int64_t now = clock_now_ns();
    top->ask_at = now + top->options->interval_ns;
    top->late_at = now + TOP_LATE_NS;
    if (talk_open(top->dir, CONTROL_STATUS, top->options, &top->status, &err))
        return;
    talk_close(&top->status);
    /* A cleaner of old files may have removed the socket: while events can come, pchrun runs. */
    if (ask_found_nobody(&err) && top->events.fd < 0)
        top_end(top);
    else
        top_lose(top, err.text);
}

/* The texts keep their control characters: no cell of the screen takes one. */
static bool top_take_answer(struct top *top, const char *line, size_t len, struct err *err)
{
    struct json *answer = json_read("answer", line, len, err);
    if (!answer)
        return err_wrap(err, "this is not pchrun's answer");
    if (!json_bool_at(answer, "ok")) {
        err_set(err, ERR_PEER, 0, "%s", json_text_at(answer, "error"));
        json_free(answer);
        return false;
    }
    json_free(top->answer);
    top->answer = answer;
    top->answer_at = clock_now_ns();
    top->lost_since = 0;
    top_renew(top);
    return true;
}

/* A late answer is waited for on its connection: a stopped pchrun would not take another one. */
static void top_read_status(struct top *top)
{
    struct err err;
    char *line;
    size_t len;
    enum talk_result result = talk_read(&top->status, 0, &line, &len, &err);
    if (result == TALK_LATE) {
        if (clock_now_ns() >= top->late_at)
            top_lose(top, err.text);
        return;
    }
    if (result == TALK_END)
        err_set(&err, ERR_PEER, 0, "pchrun has closed the connection");
    if (result != TALK_LINE || !top_take_answer(top, line, len, &err))
        top_lose(top, err.text);
    talk_close(&top->status);
}

/* --- the events --- */

static void top_follow(struct top *top)
{
    struct err err;
    const struct ctl_options follow = {.follows = true};
    top->follow_at = clock_now_ns() + TOP_FOLLOW_NS;
    if (talk_open(top->dir, CONTROL_EVENTS, &follow, &top->events, &err)) {
        top->journal.first = top->journal.next; /* pchrun sends the last ones again */
        return;
    }
    talk_close(&top->events);
    if (ask_found_nobody(&err))
        top_end(top);
}

/* Takes the event over. */
static void top_take_event(struct top *top, struct json *event)
{
    if (json_is_at(event, "event", "exit"))
        snprintf(top->end, sizeof top->end, "ended: %s, exit code %" PRId64 ": %s",
                 json_text_at(event, "outcome"), json_int_at(event, "exit_code", -1),
                 json_text_at(event, "text"));
    if (json_text_at(event, "event")[0])
        events_take(&top->journal, event);
    /* The state has more about it. pchrun may end before the next request is due. */
    if (json_is_at(event, "event", "failed")) {
        top->ask_at = clock_now_ns();
        json_free(top->failed);
        top->failed = event;
    } else {
        json_free(event);
    }
    top_renew(top);
}

static void top_read_events(struct top *top)
{
    struct err err;
    char *line;
    size_t len;
    enum talk_result result;
    while ((result = talk_read(&top->events, 0, &line, &len, &err)) == TALK_LINE) {
        struct json *event = json_read("event", line, len, &err);
        if (event)
            top_take_event(top, event);
    }
    if (result != TALK_LATE)
        talk_close(&top->events);
}

/* --- the loop --- */

static void top_work(struct top *top)
{
    bool is_over = top->end[0], is_waiting = top->status.fd >= 0;
    if (!is_over && top->events.fd < 0 && clock_now_ns() >= top->follow_at)
        top_follow(top);
    if (top->events.fd >= 0)
        top_read_events(top);
    if (!is_over && !is_waiting && !top->view.is_paused && clock_now_ns() >= top->ask_at)
        top_ask(top);
    if (top->status.fd >= 0)
        top_read_status(top);
}

/* When there is something to do without a key or an answer. */
static int64_t top_next(const struct top *top)
{
    int64_t next = CLOCK_NEVER;
    if (top->end[0])
        return next;
    if (top->lost_since) /* the screen counts the seconds */
        next = clock_now_ns() + NS_PER_S;
    else if (top->status.fd >= 0)
        next = top->late_at;
    if (top->status.fd < 0 && !top->view.is_paused)
        next = clock_min(next, top->ask_at);
    return top->events.fd < 0 ? clock_min(next, top->follow_at) : next;
}

static struct picture top_picture(const struct top *top)
{
    int64_t now = clock_now_ns();
    return (struct picture){.answer = top->answer,
                            .age_ns = now - top->answer_at,
                            .events = &top->journal,
                            .failed = top->failed,
                            .lost_why = top->lost_since ? top->lost_why : NULL,
                            .lost_ns = now - top->lost_since,
                            .end = top->end[0] ? top->end : NULL};
}

static bool top_draw(struct top *top, struct err *err)
{
    int rows, cols;
    struct picture picture = top_picture(top);
    screen_size(&rows, &cols);
    if (!cells_reset(&top->cells, rows, cols, err) ||
        !view_draw(&top->view, &picture, &top->cells, err))
        return false;
    screen_draw(&top->cells);
    top->is_drawn = true;
    return true;
}

/* Returns false if the user leaves, or must. */
static bool top_wait(struct top *top)
{
    uint32_t key;
    struct picture picture = top_picture(top);
    enum screen_news news = screen_wait(top->status.fd, top->events.fd, top_next(top), &key);
    if (news != SCREEN_NOTHING || top->lost_since)
        top->is_drawn = false;
    return news != SCREEN_GONE && (news != SCREEN_KEY || view_press(&top->view, &picture, key));
}

static bool top_run(struct top *top, struct err *err)
{
    bool ok = true, stays = true;
    while (ok && stays) {
        top_work(top);
        ok = top->is_drawn || top_draw(top, err);
        stays = ok && top_wait(top);
    }
    return ok;
}

static void top_free(struct top *top)
{
    talk_close(&top->status);
    talk_close(&top->events);
    json_free(top->answer);
    json_free(top->failed);
    view_free(&top->view);
    cells_free(&top->cells);
}

bool top_show(const struct ctl_options *options, const char *dir, struct err *err)
{
    static struct top top; /* too large for a stack */
    top = (struct top){.options = options, .dir = dir, .status = {.fd = -1}, .events = {.fd = -1}};
    setlocale(LC_CTYPE, "");
    if (!screen_open(err))
        return false;
    bool ok = top_run(&top, err);
    screen_close();
    if (ok && top.end[0])
        printf("%s\n", str_printable(top.end));
    top_free(&top);
    return ok;
}
