/* SPDX-License-Identifier: Apache-2.0
 *
 * watchrun: one run of pchrun-watch: a source, its live events, and standard output.
 *
 * A source has a file of its own and one entry in the table of commandline.c. Its `start` sends the
 * first request and sets up timers, requests or a descriptor. Its answers go to watch_tell().
 * Failures go to watch_failed() and change nothing. A process has one watch, so a source's state is
 * static in its file.
 *
 * Owns the mask and the dispositions of signals. The run ends on a signal, or when the reader of
 * standard output closes it. Main thread.
 */
#pragma once

#include "base/args.h"
#include "base/clock.h"
#include "watch/endpoint.h"
#include "watch/http.h"
#include "watch/tracker.h"

struct source {
    struct args_word word; /* its name, its help text and its options */
    int64_t interval_ns;
    int64_t lead_ns; /* 0: an hour */
    const struct endpoint_rule
        *rule; /* where the source's metadata service is; NULL: the source asks none */
    const struct imds_cloud *cloud; /* for imds.c */
    unsigned topics;                /* number of topics; they count from 0 */
    const char *late;               /* why the first answer may be late; NULL: never late */
    bool (*start)(struct err *err);
};

extern const struct source source_gce, source_aws, source_azure, source_alibaba, source_tencent,
    source_slurm, source_file, source_kubernetes, source_pod, source_trainjob;

/* The command line; its texts are borrowed, NULL if not given. */
struct watch_options {
    const struct source *source;
    const char *path, *endpoint, *end_time, *name, *annotation, *value, *acknowledge;
    int64_t interval_ns, timeout_ns, hang_ns, lead_ns;
    int mild;       /* enum notice_type; NOTICE_CANCEL: not given */
    int log_format; /* enum log_format */
    bool is_check;
};

/* commandline.c: the options; the shells' completions are made from them, too. */
extern const struct args watch_args;
/* Reads the command line, which ends with NULL. `out` gets the text of --help and the like. */
MUST_CHECK enum args_end watch_options_read(char **argv, FILE *out, struct watch_options *ret,
                                            struct err *err);

struct watch_timer {
    int64_t at_ns; /* CLOCK_MONOTONIC; CLOCK_NEVER: not set */
    void (*fn)(void *ctx);
    void *ctx;
    struct watch_timer *next;
    bool is_listed;
};

struct watch {
    struct watch_options options;
    char server[ENDPOINT_MAX]; /* of the source's rule */
    char boot_id[64];          /* of this machine; "": unknown */
    struct tracker tracker;
    struct watch_timer *timers;
    int signals; /* a signalfd */
    int fd;      /* a source's descriptor to read; -1: none */
    void (*on_fd)(void);
    char remarks[TRACKER_TOPICS_MAX][EVENTS_REMARK_MAX]; /* the last remark about each topic */
    struct log_limit remark_limit;
    unsigned answered;      /* bits: topics with an answer */
    char last_failure[480]; /* the last failure, logged or not; "": none */
    bool is_done;           /* the source has finished, with exit status `code` */
    int code;
};

/* The one watch of this process. */
extern struct watch watch;

/* A line of standard output, as in pchrun-protocol(7): with its newline, at most SAY_LINE_MAX bytes
 * (a pipe takes so many in one piece); `now_ns` by the monotonic clock. It is composed only when it
 * can be written, so that its seconds left are correct. Returns its length. */
#define SAY_LINE_MAX 2048
size_t say_format(const struct event *news, int64_t now_ns, char out[SAY_LINE_MAX]);

#define WATCH_EXIT_USAGE 2
/* The exit status: 0, or 1 or WATCH_EXIT_USAGE after an error that was logged. With is_check: 0,
 * the source answers; 1, it does not; one line on standard output says so. */
int watch_run(const struct watch_options *options);

/* For sources: a valid answer about a topic; watch_absent(): the topic does not exist. True: this
 * is believed. */
void watch_tell(unsigned topic, const struct events *events);
bool watch_absent(unsigned topic);
/* The failures of one of a source's requests; zeroed at first. */
struct trouble {
    unsigned times;  /* failures since the last success */
    bool is_said;    /* the log mentions them */
    int64_t said_ns; /* when the log last did; 0: never */
};
/* `what` failed. The log gets the first failure at once, then their number every minute, and once
 * the recovery. This holds also for failures that come and go. */
void watch_failed(struct trouble *trouble, const char *what, const struct err *err);
void watch_works(struct trouble *trouble, const char *what);
/* For --check: the source is done with the topic, without an answer. */
void watch_answered(unsigned topic);
/* Calls the timer's function once, at `at_ns`, or after `ns`. Replaces an earlier setting. The
 * source owns the timer. */
void watch_call_at(struct watch_timer *timer, int64_t at_ns);
void watch_after(struct watch_timer *timer, int64_t ns);
/* The next poll comes one interval after the last one began. */
void watch_poll_again(struct watch_timer *timer, int64_t began_ns);
/* In a forked child: resets the signals to their defaults. Async-signal-safe. */
void watch_restore_signals(void);
void watch_finish(int code);
