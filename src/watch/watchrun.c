/* SPDX-License-Identifier: Apache-2.0
 * See watchrun.h.
 */
#include "watch/watchrun.h"

#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "json/writer.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* Limits of --check: pchrun's --doctor checks several sources, one after the other. */
#define CHECK_NS         (2500 * NS_PER_MS)
#define CHECK_TIMEOUT_NS NS_PER_S

/* A unique id of this boot of this machine. */
#define BOOT_ID "/proc/sys/kernel/random/boot_id"

/* Time between two log lines about the same failure. */
#define SAY_AGAIN_NS (60 * NS_PER_S)

/* A deadline below this is written with milliseconds, above in whole seconds. */
#define FRACTION_NS (1000 * NS_PER_S)

/* Signals that end the watch. All others keep their default action. */
static const int ending[] = {SIGTERM, SIGINT, SIGHUP};

/* Without SIGPIPE a write fails with EPIPE. Without SIGCHLD the kernel reaps children. A scheduler
 * may send SIGUSR1 or SIGUSR2 to every process of the job as a notice. */
static const int ignored[] = {SIGPIPE, SIGCHLD, SIGUSR1, SIGUSR2};

struct watch watch;

/* ---- for sources ---- */

static struct tracker_now now(void)
{
    return (struct tracker_now){.real_ns = clock_real_ns(), .mono_ns = clock_now_ns()};
}

/* Logs an unreadable part of an answer once, and again if it changes. */
static void say_remark(unsigned topic, const char *remark)
{
    const char *name = watch.options.source->word.name;
    char *said = watch.remarks[topic];
    bool is_new = *remark && !str_is(said, remark);
    if (is_new && log_limit_ok(&watch.remark_limit, name, LOG_LIMIT_FEW))
        log_warn(name, "%s", remark);
    str_copy(said, EVENTS_REMARK_MAX, remark);
}

/* A check is over when all topics have answered. */
void watch_answered(unsigned topic)
{
    watch.answered |= 1U << topic;
    if (watch.options.is_check && watch.answered == (1U << watch.options.source->topics) - 1)
        watch_finish(EXIT_SUCCESS);
}

void watch_tell(unsigned topic, const struct events *events)
{
    watch_answered(topic);
    say_remark(topic, events->remark);
    tracker_update(&watch.tracker, topic, events, now());
}

bool watch_absent(unsigned topic)
{
    watch_answered(topic);
    return tracker_absent(&watch.tracker, topic, now());
}

void watch_failed(struct trouble *trouble, const char *what, const struct err *err)
{
    const char *name = watch.options.source->word.name;
    int64_t now_ns = clock_now_ns();
    snprintf(watch.last_failure, sizeof watch.last_failure, "%.80s: %.380s", what, err->text);
    trouble->times++;
    if (trouble->said_ns > 0 && now_ns - trouble->said_ns < SAY_AGAIN_NS)
        return;
    trouble->said_ns = now_ns;
    trouble->is_said = true;
    if (trouble->times == 1)
        log_warn(name, "%s: %s; trying again", what, err->text);
    else
        log_warn(name, "%s: %s; failed %u times so far", what, err->text, trouble->times);
}

void watch_works(struct trouble *trouble, const char *what)
{
    if (trouble->is_said)
        log_info(watch.options.source->word.name, "%s: it works again, after %u failures", what,
                 trouble->times);
    trouble->times = 0;
    trouble->is_said = false;
}

void watch_call_at(struct watch_timer *timer, int64_t at_ns)
{
    timer->at_ns = at_ns;
    if (timer->is_listed)
        return;
    timer->is_listed = true;
    timer->next = watch.timers;
    watch.timers = timer;
}

void watch_after(struct watch_timer *timer, int64_t ns)
{
    watch_call_at(timer, clock_now_ns() + ns);
}

void watch_poll_again(struct watch_timer *timer, int64_t began_ns)
{
    watch_call_at(timer, began_ns + watch.options.interval_ns);
}

void watch_finish(int code)
{
    watch.is_done = true;
    watch.code = code;
}

/* ---- signals, timers and descriptors ---- */

static void set_ignored(void (*action)(int))
{
    for (size_t i = 0; i < ARRAY_LEN(ignored); i++)
        signal(ignored[i], action);
}

void watch_restore_signals(void)
{
    sigset_t none;
    sigemptyset(&none);
    set_ignored(SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Call before any thread starts. */
static bool take_signals(struct err *err)
{
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < ARRAY_LEN(ending); i++)
        sigaddset(&set, ending[i]);
    set_ignored(SIG_IGN);
    sigprocmask(SIG_SETMASK, &set, NULL);
    watch.signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    return watch.signals >= 0 || err_set(err, ERR_SYSTEM, errno, "cannot watch for signals");
}

/* A timer's function may set any timer. No timer is ever removed from the list. */
static void run_timers(void)
{
    int64_t now_ns = clock_now_ns();
    for (struct watch_timer *timer = watch.timers; timer; timer = timer->next)
        if (timer->at_ns <= now_ns) {
            timer->at_ns = CLOCK_NEVER;
            timer->fn(timer->ctx);
        }
}

enum { FD_SIGNALS, FD_OUT, FD_SOURCE, FD__COUNT };

/* Waits for events, at most to `until`, and runs their callbacks. False: a signal has come, or the
 * reader of standard output has closed it. */
static bool watch_wait(int64_t until)
{
    bool wants_out = watch.tracker.news_count > 0 && !watch.options.is_check;
    struct pollfd fds[FD__COUNT] = {
        [FD_SIGNALS] = {.fd = watch.signals, .events = POLLIN},
        [FD_OUT] = {.fd = STDOUT_FILENO, .events = wants_out ? POLLOUT : 0},
        [FD_SOURCE] = {.fd = watch.fd, .events = POLLIN},
    };
    unsigned n = watch.fd >= 0 ? FD__COUNT : FD_SOURCE;
    for (const struct watch_timer *timer = watch.timers; timer; timer = timer->next)
        until = clock_min(until, timer->at_ns);
    int64_t now_ns = clock_now_ns();
    http_wait(fds, n, until > now_ns ? until - now_ns : 0);
    if (fds[FD_SIGNALS].revents || (fds[FD_OUT].revents & (POLLERR | POLLHUP | POLLNVAL)))
        return false;
    if (n > FD_SOURCE && fds[FD_SOURCE].revents)
        watch.on_fd();
    run_timers();
    return true;
}

/* ---- standard output ---- */

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

size_t say_format(const struct event *news, int64_t now_ns, char out[SAY_LINE_MAX])
{
    struct writer w;
    size_t len = 0;
    writer_init(&w, SAY_LINE_MAX, WRITER_LINE);
    writer_object(&w, NULL);
    writer_text(&w, "type", notice_type_name(news->type));
    if (news->id[0])
        writer_text(&w, "id", news->id);
    if (news->at_ns != EVENT_AT_UNKNOWN && news->type != NOTICE_CANCEL)
        add_seconds(&w, news->at_ns - now_ns);
    if (news->text[0])
        writer_text(&w, "text", news->text);
    writer_end(&w);
    const char *text = writer_done(&w, &len);
    if (text)
        memcpy(out, text, len);
    writer_free(&w);
    return text ? len : 0;
}

static bool say_can_write(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return poll(&out, 1, 0) == 1;
}

/* Writes the news without blocking. False: the reader has closed standard output (EPIPE), or a
 * write failed: *err. */
static bool say_flush(struct tracker *tracker, struct err *err)
{
    while (tracker->news_count > 0 && say_can_write()) {
        char text[SAY_LINE_MAX];
        size_t len = say_format(&tracker->news[0], clock_now_ns(), text);
        ssize_t n = write(STDOUT_FILENO, text, len);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            return true;
        if (n < 0)
            return err_set(err, ERR_SYSTEM, errno, "cannot write to standard output");
        tracker_drop(tracker, 0);
    }
    return true;
}

/* ---- the run ---- */

static int turn_until_end(void)
{
    struct err err;
    while (!watch.is_done) {
        if (!say_flush(&watch.tracker, &err)) {
            if (err.sys_errno == EPIPE)
                return EXIT_SUCCESS;
            log_error(NULL, "%s", err.text);
            return EXIT_FAILURE;
        }
        if (!watch_wait(tracker_next(&watch.tracker)))
            return EXIT_SUCCESS;
        tracker_tick(&watch.tracker, now());
    }
    return watch.code;
}

/* ---- --check ---- */

/* True after a failure, once no request is running: now a source without --check would retry. */
static bool has_failed(void)
{
    return watch.last_failure[0] && http_is_idle() && watch.fd < 0;
}

static int say_check(const char *verdict, int code, const char *what)
{
    printf("%s: %s\n", verdict, what);
    return fflush(stdout) == 0 ? code : EXIT_FAILURE;
}

/* The last failure says most, because it takes the other answers into account. */
static int judge_check(void)
{
    const struct source *source = watch.options.source;
    const char *failure = watch.last_failure;
    char text[600];
    bool is_whole = watch.answered == (1U << source->topics) - 1;
    snprintf(text, sizeof text, "%s%s%s",
             is_whole         ? "it answers"
             : watch.answered ? "it answers only in part"
                              : "it does not answer",
             *failure ? ": " : "", failure);
    if (is_whole)
        return say_check(*failure ? "warn" : "ok", EXIT_SUCCESS, text);
    if (source->late)
        str_addf(text, sizeof text, "; %s", source->late);
    return say_check(source->late ? "unknown" : "bad", EXIT_FAILURE, text);
}

/* A failing source is not retried. */
static int check_until_end(void)
{
    int64_t until = clock_now_ns() + CHECK_NS;
    bool goes_on = true;
    while (goes_on && !watch.is_done && !has_failed() && clock_now_ns() < until)
        goes_on = watch_wait(until);
    return judge_check();
}

/* ---- both ---- */

static bool find_service(const struct endpoint_rule *rule, struct err *err)
{
    return endpoint_find(rule, watch.options.endpoint, ENDPOINT_DMI, watch.server, err) &&
           http_open(err);
}

static bool watch_begin(const struct watch_options *options, struct err *err)
{
    const struct source *source = options->source;
    watch.options = *options;
    watch.fd = -1;
    if (options->is_check)
        watch.options.timeout_ns = clock_min(options->timeout_ns, CHECK_TIMEOUT_NS);
    watch.tracker.rules = (struct tracker_rules){.lead_ns = options->lead_ns,
                                                 .mild = (enum notice_type)options->mild};
    (void)fd_read_line(BOOT_ID, watch.boot_id, sizeof watch.boot_id);
    return take_signals(err) && (!source->rule || find_service(source->rule, err)) &&
           source->start(err);
}

int watch_run(const struct watch_options *options)
{
    struct err err;
    if (watch_begin(options, &err))
        return options->is_check ? check_until_end() : turn_until_end();
    if (options->is_check)
        return say_check("bad", EXIT_FAILURE, err.text);
    log_error(options->source->word.name, "%s", err.text);
    return err.code == ERR_USAGE ? WATCH_EXIT_USAGE : EXIT_FAILURE;
}
