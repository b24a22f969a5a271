/* SPDX-License-Identifier: Apache-2.0
 *
 * pch: what a training program calls (include/pch.h) to open and close the job, and to ask of it;
 * what it says at its steps and saves is in loop.c, the connection in line.c.
 *
 * There is one struct pch, in static memory, so that no call can be given a job that is not there.
 * It owns the wiped page, which is kept to the end of the process, and what line.c owns. Nothing
 * here ends the host program, and nothing but line_say() prints: when an existing supervisor cannot
 * be attached to, and when it is lost.
 */
#include "pch.h"

#include "base/str.h"
#include "libpch/cancel.h"
#include "libpch/grip.h"
#include "libpch/job.h"
#include "libpch/line.h"
#include "libpch/shield.h"
#include "libpch/where.h"
#include "wire/gate.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum { GOODBYE_WAIT_MS = 1000 };

static struct live nobody; /* LIVE_OFF for ever */
static struct pch the_job = {.live = &nobody,
                             .fd = -1,
                             .opening = PTHREAD_MUTEX_INITIALIZER,
                             .lock = PTHREAD_MUTEX_INITIALIZER,
                             .turn = PTHREAD_COND_INITIALIZER};

/* Opening and closing */

/* In the child of a fork: the job is as if it had been closed, so that pch_open may attach the fork
 * as a process of its own. Where the kernel has wiped the page a part of this is done; what it
 * cannot do is close the copy of the socket, which would keep the connection open after the parent,
 * and free the locks of threads that are not here. */
static void on_fork_child(void)
{
    struct pch *job = &the_job;
    shield_fork();
    line_drop(job);
    if (job->is_wiped)
        grip_fork(job->process);
    job->process = NULL;
    memset(job->page, 0, sizeof *job->page);
    atomic_store(&job->live, &nobody);
    job->is_open = false;
    job->paths = NULL; /* another thread may have been at it; the texts stay */
    job->has_reader = false;
    job->connection++;
    job->scratch_asked = job->scratch_answered = 0;
    pthread_mutex_init(&job->opening, NULL);
    pthread_mutex_init(&job->lock, NULL);
    pthread_cond_init(&job->turn, NULL);
}

/* One that was made in another way, so that on_fork_child() was not called: of the locks nothing is
 * known, so it stays without a supervisor. */
static bool is_fork(const struct pch *job)
{
    const struct live *live = job_live(job);
    return live != &nobody && atomic_load(&live->mark) == 0;
}

/* A fork made in another way than by fork(2) of the C library is told from its parent only if the
 * kernel wipes the page (Linux 4.14). */
static bool make_live(struct pch *job)
{
    if (!job->page) {
        void *page =
            mmap(NULL, PAGE_SIZE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (page == MAP_FAILED)
            return false;
        job->is_wiped = madvise(page, PAGE_SIZE_BYTES, MADV_WIPEONFORK) == 0;
        job->page = page;
        if (pthread_atfork(NULL, NULL, on_fork_child) != 0 && !job->is_wiped)
            return false;
    }
    memset(job->page, 0, sizeof *job->page);
    atomic_store(&job->page->mark, 1);
    atomic_store(&job->live, job->page);
    return true;
}

/* Programs may have been built with a smaller struct; what it does not have keeps its default. */
static struct pch_options complete(const struct pch_options *given)
{
    struct pch_options options = PCH_OPTIONS_INIT;
    if (given && given->size <= sizeof options)
        memcpy(&options, given, given->size);
    else if (given)
        options = *given;
    return options;
}

static void describe(struct procmsg *ret, const struct pch_options *options)
{
    struct where where = where_by_env();
    bool is_stated = options->rank >= 0;
    *ret = (struct procmsg){.type = PROCMSG_ATTACH,
                            .rank = is_stated ? options->rank : where.rank,
                            .local_rank = where.local_rank,
                            .world_size = where.world_size,
                            .local_world_size = where.local_world_size};
    if (options->local_rank >= 0)
        ret->local_rank = options->local_rank;
    if (options->world_size >= 0)
        ret->world_size = options->world_size;
    if (options->local_world_size >= 0)
        ret->local_world_size = options->local_world_size;
    bool resumes = !(options->flags & PCH_NO_SAVE) && options->first_step == 0;
    ret->first_step = resumes ? where_resume_step() : options->first_step;
    ret->step = ret->first_step;
    ret->stride = options->stride ? options->stride : 1;
    ret->last_step = options->last_step;
}

/* What the program gave to exit or returned from main. Only asked for, not acted on: handlers that
 * the program set earlier come later, and may still call us. */
static int exit_status;

static void note_status(int status, void *arg)
{
    exit_status = status & 0xff;
}

/* A C library that does not tell the status leaves it at 0: the exit code of the command has to do.
 */
static void watch_exit(struct pch *job)
{
#ifdef __GLIBC__
    job->is_exit_watched = job->is_exit_watched || on_exit(note_status, NULL) == 0;
#else
    (void)note_status;
#endif
}

static const char *advice(int number)
{
    if (number == EACCES)
        return " (start pchrun as the user that trains)";
    return number == ENOENT ? " (in a container, that directory has to be mounted)" : "";
}

static void attach(struct pch *job, const char *path, const struct pch_options *options)
{
    struct err err = {0};
    char how[256] = "";
    struct procmsg msg;
    struct live *live = job_live(job);
    bool counts = options->flags & PCH_NO_SAVE;
    bool may_shield = !counts && !(options->flags & PCH_NO_SHIELD);
    bool is_shielded = may_shield && shield_is_wanted(SIGTERM);
    describe(&msg, options);
    msg.flags = (is_shielded ? PROCMSG_FLAG_SHIELD : 0) | (counts ? PROCMSG_FLAG_COUNTS : 0);
    live->counts = counts;
    switch (line_attach(job, path, &msg, &err)) {
    case LINE_ATTACHED:
        job->supervisor = live->supervisor;
        job->process = live->process;
        grip_take(live->process, PAGE_OPENER);
        atomic_store(&live->state, LIVE_SERVING);
        watch_exit(job);
        if (may_shield)
            shield_raise(job, job->notices | UINT64_C(1) << (SIGTERM - 1));
        break;
    case LINE_DEAD:
        job->rank = msg.rank;
        str_addf(how, sizeof how, "pchrun is gone: %.200s", err.text);
        line_lost(job, how);
        break;
    case LINE_FAILED:
        line_say("cannot attach to pchrun at %s: %s%s; this process trains unsupervised", path,
                 err.text, advice(err.sys_errno));
        break;
    }
}

static void open_job(struct pch *job, const struct pch_options *given)
{
    const char *path = getenv("PCH_SOCKET");
    struct pch_options options = complete(given);
    /* For a process that is not attached; WELCOME says it again. */
    job->resume_step = where_resume_step();
    str_copy(job->resume_path, sizeof job->resume_path, getenv("PCH_RESUME_PATH"));
    job->is_open = true;
    if (!path || !path[0])
        return;
    if (make_live(job))
        attach(job, path, &options);
    else
        line_say("cannot attach to pchrun: no memory; this process trains unsupervised");
}

pch_t *pch_open(const struct pch_options *options)
{
    NOT_CANCELLED;
    struct pch *job = &the_job;
    if (is_fork(job)) {
        if (!atomic_exchange(&job_live(job)->has_said, true))
            line_say("cannot attach to pchrun: this is a copy of an attached process that fork(2) "
                     "has not made; it trains unsupervised");
        return job;
    }
    pthread_mutex_lock(&job->opening);
    if (!job->is_open)
        open_job(job, options);
    pthread_mutex_unlock(&job->opening);
    return job;
}

static void say_goodbye(struct pch *job, int status)
{
    struct live *live = job_live(job);
    if (job_can_talk(live) && live->process)
        line_goodbye(job, atomic_load(&live->process->step), status, GOODBYE_WAIT_MS);
}

/* A program that returns from main, or calls exit, ends as it means to, and says with which status;
 * one that is killed, or calls _exit, gets here not at all. */
static __attribute__((destructor)) void end_of_program(void)
{
    if (is_fork(&the_job))
        return;
    say_goodbye(&the_job, exit_status);
    atomic_store(&job_live(&the_job)->state, LIVE_OFF);
}

void pch_close(pch_t *job)
{
    NOT_CANCELLED;
    if (!job || is_fork(job))
        return;
    pthread_mutex_lock(&job->opening);
    if (job->is_open) {
        shield_lower();
        say_goodbye(job, 0);
        if (job_live(job) != &nobody)
            line_close(job);
        /* The page stays: a call that is under way finds LIVE_OFF there. */
        atomic_store(&job->live, &nobody);
        job->is_open = false;
    }
    pthread_mutex_unlock(&job->opening);
}

int pch_supervised(const pch_t *job)
{
    return job && job_can_talk(job_live(job));
}

uint64_t pch_resume_step(const pch_t *job)
{
    return job ? job->resume_step : 0;
}

const char *pch_resume_path(const pch_t *job)
{
    return job && job->resume_path[0] ? job->resume_path : NULL;
}

/* The rest */

static bool has_scratch(struct pch *job, const void *arg)
{
    const unsigned *ticket = arg;
    return (int)(job->scratch_answered - *ticket) >= 0;
}

/* A pointer to `text` that lives as long as the process: the thread that asked may be about to read
 * it while another closes the job. Under the lock. */
static const char *keep_path(struct pch *job, const char *text)
{
    for (struct job_path *p = job->paths; p; p = p->next)
        if (str_is(p->text, text))
            return p->text;
    size_t size = strlen(text) + 1;
    struct job_path *path = malloc(sizeof *path + size);
    if (!path)
        return NULL;
    memcpy(path->text, text, size);
    path->next = job->paths;
    job->paths = path;
    return path->text;
}

/* Makes the directory and what it lies in. */
static bool make_directory(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        int rc = mkdir(path, 0777);
        *slash = '/';
        if (rc != 0 && errno != EEXIST && errno != EROFS && errno != EACCES)
            return false;
    }
    return mkdir(path, 0700) == 0 || errno == EEXIST;
}

const char *pch_scratch_dir(pch_t *job)
{
    NOT_CANCELLED;
    struct procmsg msg = {.type = PROCMSG_SCRATCH};
    char path[PROCMSG_PATH_MAX] = "";
    if (!pch_supervised(job))
        return NULL;
    /* Answers come in the order of the questions. */
    pthread_mutex_lock(&job->lock);
    unsigned connection = job->connection;
    unsigned ticket = ++job->scratch_asked;
    pthread_mutex_unlock(&job->lock);
    if (!line_ask(job, connection, &msg, has_scratch, &ticket))
        return NULL;
    pthread_mutex_lock(&job->lock);
    str_copy(path, sizeof path, job->scratch);
    pthread_mutex_unlock(&job->lock);
    /* Here and not in the supervisor, which must not wait for a file system. */
    if (!path[0] || !make_directory(path))
        return NULL;
    pthread_mutex_lock(&job->lock);
    const char *kept = keep_path(job, path);
    pthread_mutex_unlock(&job->lock);
    return kept;
}

_Static_assert((int)PCH_START == PAGE_START && (int)PCH_TRAIN == PAGE_TRAIN &&
                   (int)PCH_EVAL == PAGE_EVAL && (int)PCH_COMPILE == PAGE_COMPILE &&
                   (int)PCH_IN_SAVE == PAGE_SAVE,
               "the page speaks of the same phases");

void pch_phase(pch_t *job, enum pch_phase phase)
{
    struct live *live = job ? job_live(job) : &nobody;
    if (!job || job_state(live) == LIVE_OFF || (unsigned)phase > PCH_IN_SAVE)
        return;
    pthread_mutex_lock(&job->lock);
    if (job_state(live) != LIVE_OFF && live->process)
        atomic_store_explicit(&live->process->phase, phase, memory_order_relaxed);
    pthread_mutex_unlock(&job->lock);
}

/* Copies the text while the supervisor may be changing it. False: it was. */
static bool read_notice(const struct page_supervisor *page, char text[sizeof page->notice_text])
{
    uint32_t before = atomic_load_explicit(&page->notice_seq, memory_order_acquire);
    memcpy(text, page->notice_text, sizeof page->notice_text);
    atomic_thread_fence(memory_order_acquire);
    text[sizeof page->notice_text - 1] = '\0';
    return !(before & 1) && atomic_load_explicit(&page->notice_seq, memory_order_relaxed) == before;
}

size_t pch_notice(pch_t *job, char *text, size_t size)
{
    enum { TRIES = 1000 }; /* it changes seldom; a supervisor that died in the middle never ends */
    struct live *live = job ? job_live(job) : &nobody;
    char now[sizeof live->supervisor->notice_text] = "";
    if (size > 0)
        text[0] = '\0';
    if (!job || job_state(live) == LIVE_OFF)
        return 0;
    pthread_mutex_lock(&job->lock);
    int left = job_can_talk(live) ? TRIES : 0;
    while (left > 0 && !read_notice(live->supervisor, now))
        left--;
    pthread_mutex_unlock(&job->lock);
    if (left == 0)
        return 0;
    if (size > 0)
        str_copy(text, size, now);
    return strlen(now);
}
