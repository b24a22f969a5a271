/* SPDX-License-Identifier: Apache-2.0
 *
 * pch: the calls (include/pch.h) that open, close and query the job. Steps and saves are in
 * stepcalls.c, the connection in line.c.
 *
 * There is one static struct pch, so no call can get an invalid job. It owns the memory of struct
 * live, which stays until the process ends, and the state of line.c. Nothing here ends the host
 * program. Only line_say() prints: when attaching fails and when the supervisor is lost.
 */
#include "pch.h"

#include "base/str.h"
#include "libpch/job.h"
#include "libpch/line.h"
#include "libpch/robustlock.h"
#include "libpch/shield.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum { GOODBYE_WAIT_MS = 1000, ATTACH_TRIES = 3 };

static struct live nobody; /* always LIVE_OFF */
static struct pch the_job = {.live = &nobody,
                             .fd = -1,
                             .opening = PTHREAD_MUTEX_INITIALIZER,
                             .lock = PTHREAD_MUTEX_INITIALIZER,
                             .turn = PTHREAD_COND_INITIALIZER};

/* Opening and closing */

/* In the child of a fork: closes the job, so that pch_open may attach the child as its own process.
 * The kernel may have zeroed the page already. But the copy of the socket is then still open, and
 * would keep the connection open after the parent's end. Also, some locks may be held by threads
 * that do not exist in the child. */
static void on_fork_child(void)
{
    struct pch *job = &the_job;
    shield_fork();
    line_drop(job);
    if (job->is_wiped)
        robustlock_fork(job->process);
    job->process = NULL;
    memset(job->page, 0, sizeof *job->page);
    atomic_store(&job->live, &nobody);
    job->is_open = false;
    job->paths = NULL; /* another thread may have been changing the list; the texts leak */
    job->has_reader = false;
    job->connection++;
    job->scratch_asked = job->scratch_answered = 0;
    pthread_mutex_init(&job->opening, NULL);
    pthread_mutex_init(&job->lock, NULL);
    pthread_cond_init(&job->turn, NULL);
}

/* True in a forked child where on_fork_child() did not run: the C library did not make the fork.
 * The child's locks are in an unknown state, so it stays unsupervised. */
static bool is_fork(const struct pch *job)
{
    const struct live *live = job_live(job);
    return live != &nobody && atomic_load(&live->mark) == 0;
}

/* A fork that bypasses the C library is recognized only if the kernel zeroes the page (Linux
 * 4.14). */
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

/* False for options that were not initialized with PCH_OPTIONS_INIT. The oldest struct has all
 * ranks. */
static bool pch_is_sized(const struct pch_options *given)
{
    return given->size >= offsetof(struct pch_options, first_step);
}

/* A program built with an older, smaller struct gets the defaults for the missing fields. */
static struct pch_options pch_complete(const struct pch_options *given)
{
    struct pch_options options = PCH_OPTIONS_INIT;
    if (given && pch_is_sized(given))
        memcpy(&options, given, given->size < sizeof options ? given->size : sizeof options);
    return options;
}

/* The process's place in the job, from the environment. PROCMSG_UNKNOWN: missing or malformed. */
struct where {
    int rank, local_rank, world_size, local_world_size;
};

static const struct {
    const char *rank, *local_rank, *world_size, *local_world_size;
    bool may_be_inner; /* its launcher usually runs below pchrun */
} families[] = {
    {"PCH_RANK", "PCH_LOCAL_RANK", "PCH_WORLD_SIZE", "PCH_LOCAL_WORLD_SIZE", false},
    {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", true},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_SIZE", true},
    {"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS", "SLURM_NTASKS_PER_NODE", false},
};

static int where_number(const char *name)
{
    int64_t v;
    const char *text = getenv(name);
    return text && str_to_i64(text, 0, INT_MAX, &v) ? (int)v : PROCMSG_UNKNOWN;
}

/* Takes all values from one launcher: the first family that names a rank. A launcher below pchrun
 * (torchrun, mpirun) starts more processes, so its values win if its world size is larger than
 * PCH_WORLD_SIZE. A program that starts its ranks itself (Lightning) may give them a local rank
 * alone. Slurm's variables describe pchrun's own task, so they come last. */
static struct where where_by_env(void)
{
    struct where found = {PROCMSG_UNKNOWN, PROCMSG_UNKNOWN, PROCMSG_UNKNOWN, PROCMSG_UNKNOWN};
    for (size_t i = 0; i < ARRAY_LEN(families); i++) {
        struct where w = {where_number(families[i].rank), where_number(families[i].local_rank),
                          where_number(families[i].world_size),
                          where_number(families[i].local_world_size)};
        bool is_first = found.rank == PROCMSG_UNKNOWN;
        bool is_inner = families[i].may_be_inner && found.world_size != PROCMSG_UNKNOWN &&
                        w.world_size > found.world_size;
        bool has_rank = w.rank != PROCMSG_UNKNOWN;
        if ((has_rank && is_first) || ((has_rank || w.local_rank != PROCMSG_UNKNOWN) && is_inner))
            found = w;
    }
    return found;
}

/* 0: not set. */
static uint64_t where_resume_step(void)
{
    int64_t v;
    const char *text = getenv("PCH_RESUME_STEP");
    return text && str_to_i64(text, 0, INT64_MAX, &v) ? (uint64_t)v : 0;
}

static int first_known(int stated, int found)
{
    return stated >= 0 ? stated : found;
}

static void pch_describe(struct procmsg *ret, const struct pch_options *options)
{
    struct where where = where_by_env();
    *ret = (struct procmsg){.type = PROCMSG_ATTACH,
                            .rank = first_known(options->rank, where.rank),
                            .local_rank = first_known(options->local_rank, where.local_rank),
                            .world_size = first_known(options->world_size, where.world_size),
                            .local_world_size =
                                first_known(options->local_world_size, where.local_world_size)};
    bool resumes = !(options->flags & PCH_NO_SAVE) && options->first_step == 0;
    ret->first_step = resumes ? where_resume_step() : options->first_step;
    ret->step = ret->first_step;
    ret->stride = options->stride ? options->stride : 1;
    ret->last_step = options->last_step;
}

/* The status of exit() or main. The handler only stores it: exit handlers that the program set
 * earlier run later and may still call libpch. */
static int exit_status;

static void note_status(int status, void *arg)
{
    exit_status = status & 0xff;
}

/* Without on_exit() the status stays 0, and only the exit code of the command counts.
 */
static void watch_exit(struct pch *job)
{
#ifdef __GLIBC__
    job->is_exit_watched = job->is_exit_watched || on_exit(note_status, NULL) == 0;
#else
    (void)note_status;
#endif
}

static const char *pch_advice(int number)
{
    if (number == EACCES)
        return " (start pchrun as the user that trains)";
    return number == ENOENT ? " (in a container, that directory has to be mounted)" : "";
}

enum { NEEDS_BOTH = PCH_NEEDS_RANK0 | PCH_NEEDS_ANY };

/* The flags of ATTACH. The job needs no save of a process that only counts its steps. */
static uint32_t flags_of(unsigned options, bool is_shielded)
{
    if (options & PCH_NO_SAVE)
        return PROCMSG_FLAG_COUNTS;
    return (is_shielded ? PROCMSG_FLAG_SHIELD : 0) |
           (options & PCH_NEEDS_RANK0 ? PROCMSG_FLAG_NEEDS_RANK0 : 0) |
           (options & PCH_NEEDS_ANY ? PROCMSG_FLAG_NEEDS_ANY : 0);
}

/* pchrun drops a connection that says nothing for long, as that of a process that stood still. Only
 * a connection that fails shows that pchrun has died. */
static bool attach_line(struct pch *job, const char *path, const struct procmsg *msg,
                        struct err *err)
{
    struct err again;
    if (line_attach(job, path, msg, err))
        return true;
    again = *err;
    for (int left = ATTACH_TRIES; left > 0 && again.code == ERR_PEER && !again.sys_errno; left--)
        if (line_attach(job, path, msg, &again))
            return true;
    if (again.code != ERR_SYSTEM)
        *err = again;
    return false;
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
    pch_describe(&msg, options);
    msg.flags = flags_of(options->flags, is_shielded);
    live->counts = counts;
    if (attach_line(job, path, &msg, &err)) {
        job->supervisor = live->supervisor;
        job->process = live->process;
        robustlock_take(live->process, PAGE_OPENER);
        atomic_store(&live->state, LIVE_SERVING);
        watch_exit(job);
        if (may_shield)
            shield_raise(job, job->notices | UINT64_C(1) << (SIGTERM - 1));
    } else if (err.code == ERR_PEER) {
        job->rank = msg.rank;
        str_addf(how, sizeof how, "pchrun has died: %.200s", err.text);
        line_lost(job, how);
    } else {
        line_say("cannot attach to pchrun at %s: %s%s; this process trains unsupervised", path,
                 err.text, pch_advice(err.sys_errno));
    }
}

static void open_job(struct pch *job, const struct pch_options *given)
{
    const char *path = getenv("PCH_SOCKET");
    struct pch_options options = pch_complete(given);
    /* For an unattached process; WELCOME may replace both values. */
    job->resume_step = where_resume_step();
    str_copy(job->resume_path, sizeof job->resume_path, getenv("PCH_RESUME_PATH"));
    job->is_open = true;
    if (!path || !path[0])
        return;
    if (given && !pch_is_sized(given))
        line_say("pch_open() ignores its options, because their size is %zu; write struct "
                 "pch_options options = PCH_OPTIONS_INIT; and set members after that",
                 given->size);
    if ((options.flags & NEEDS_BOTH) == NEEDS_BOTH) {
        line_say("pch_open() ignores PCH_NEEDS_RANK0 and PCH_NEEDS_ANY, because both are given: a "
                 "commit needs the save of every rank; give one of the two");
        options.flags &= ~(unsigned)NEEDS_BOTH;
    }
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
            line_say(
                "cannot attach to pchrun: this process is a copy of an attached one, not made by "
                "fork(2); it trains unsupervised");
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

/* Runs after exit() or a return from main, so the end is intended and the status known. After a
 * kill or _exit it does not run. */
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
        /* The page stays mapped: a running call finds LIVE_OFF there. */
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

/* Returns a copy of `text` that is never freed: a thread may still read it while another closes the
 * job. Under the lock. */
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

/* Makes the directory and its missing parents. */
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
    /* Answers arrive in the order of the questions, so a count identifies the right answer. */
    pthread_mutex_lock(&job->lock);
    unsigned connection = job->connection;
    unsigned ticket = ++job->scratch_asked;
    pthread_mutex_unlock(&job->lock);
    if (!line_ask(job, connection, &msg, has_scratch, &ticket))
        return NULL;
    pthread_mutex_lock(&job->lock);
    str_copy(path, sizeof path, job->scratch);
    pthread_mutex_unlock(&job->lock);
    /* This process makes the directory, because the supervisor must not wait for a file system. */
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

/* Copies the text. False: the supervisor changed it meanwhile. */
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
    enum { TRIES = 1000 }; /* bounded: a supervisor may have died in the middle of a change */
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
