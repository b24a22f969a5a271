/* SPDX-License-Identifier: Apache-2.0
 *
 * asker: a thread that talks to the supervisor, so that a supervisor that does not answer blocks
 * only this thread. It follows the events of the job. While there are readers it also asks for the
 * state, once a second, or with thousands of ranks every two, and it asks for the metrics when the
 * owner wants them. When the supervisor has ended, it looks for the next attempt of the job. Node 0
 * takes the place of another node that was found before it.
 *
 * The thread hands its news over: texts that it never touches again. The owner calls all functions
 * from one thread, the main thread. Owns the thread, two descriptors and the news.
 */
#pragma once

#include "ctl/ctl.h"
#include "web/identity.h"

#include <pthread.h>
#include <stdatomic.h>

/* A picture of the job; all texts are lines without their newline. Free with picture_free(). */
struct asker_picture {
    char *answer, *layout, *state; /* as it was received; picture.h */
    char *state_dir;               /* of the job; "": none */
    size_t layout_len, state_len;
    int64_t at; /* when it was received, CLOCK_MONOTONIC; 0: there is none */
};
void picture_free(struct asker_picture *picture);

/* The metrics of the job, in the text format of Prometheus. The owner frees the text. */
struct asker_metrics {
    char *text;      /* NULL: there are none */
    char why[256];   /* there are none */
    bool is_of_none; /* no supervisor of the job runs here */
    int64_t at;      /* when that was known, CLOCK_MONOTONIC; 0: never */
};

/* The contact with the supervisor. */
struct asker_contact {
    bool is_lost;
    int64_t since; /* when it was lost, CLOCK_MONOTONIC */
    char why[256];
};

struct asker_news {
    struct asker_picture picture; /* .at 0: no new one */
    struct asker_metrics metrics; /* .at 0: no new ones */
    struct asker_contact contact;
    struct buf lines; /* new lines of the journal, each with its newline */
};

struct asker {
    struct ctl_options which; /* the job; set before asker_start(), as the next two */
    const char *state_dir;    /* the job's, if the user named it; else NULL */
    char dir[FIND_DIR_MAX];   /* the directory of its supervisor; "": it is looked for */
    int news_fd;              /* readable: asker_take() has news */
    /* private from here on */
    pthread_t thread;
    pthread_mutex_t lock;
    int wake_fd;
    struct asker_news news; /* under the lock */
    /* of both threads, without the lock */
    atomic_bool is_wanted;     /* pictures are */
    atomic_bool wants_metrics; /* once */
    atomic_bool is_stopped;
    /* of the thread alone */
    struct talk events;
    struct asker_contact contact;
    struct identity job;
    int64_t node;     /* that told the last picture; -1: unknown */
    bool is_searched; /* the pchrun was looked for, so the user did not name it */
    char parent[FIND_DIR_MAX];
    int64_t ask_at, look_at; /* the next picture; the next search, or try to follow the events */
    int64_t followed_at;     /* when the events were asked for */
};

/* False: *err. Call asker_stop() only if it was started. */
MUST_CHECK bool asker_start(struct asker *asker, struct err *err);
/* Says whether pictures are wanted. The first one comes at once. */
void asker_want(struct asker *asker, bool is_wanted);
/* Asks for the metrics once. The news has them soon, or the reason why there are none. */
void asker_want_metrics(struct asker *asker);
/* Moves the news to *ret. The owner frees picture, metrics and lines. */
void asker_take(struct asker *asker, struct asker_news *ret);
/* Ends the thread, and frees all. A thread that waits for a supervisor has a second; then it is
 * left as it is, and ends with the process. */
void asker_stop(struct asker *asker);
