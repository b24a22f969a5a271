/* SPDX-License-Identifier: Apache-2.0
 * See deathwatch.h. Read first: futex_waitv in the kernel's documentation (userspace-api/futex2).
 *
 * One futex_waitv takes 128 words, so one thread serves 63 processes; the first process starts the
 * thread. The thread reports that a word may have changed, then waits for a new list from the main
 * thread. No process can keep pchrun busy: each of its words may change only a few times. After a
 * report without a change, pchrun pauses. After 100 of them it gives the thread no new list.
 */
#include "procs/deathwatch.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/thread.h"
#include "loop/watch.h"
#include "os/proc.h"
#include "wire/page.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    WAITERS_MAX = 128, /* of futex_waitv */
    GROUPS = 5,        /* more than the slots of procs */
    GROUP_WARDS = (WAITERS_MAX - 1) / PAGE_HOLDS,
    WARDS = GROUPS * GROUP_WARDS,
    CHANGES_MAX = 2,       /* of a word: held, then with a waiter; the next change is the last */
    LOOKS_MAX = 5,         /* at a process after a change */
    UNFOUNDED_MAX = 100,   /* reports without a change in a row */
    STACK_BYTES = 1 << 17, /* enough for sanitizers; untouched pages cost no memory */
};
/* The kernel stops threads one by one, so look several times. Each pause is four times as long as
 * the last. */
#define LOOK_AGAIN_NS NS_PER_MS
/* The pause after a report without a change. */
#define REST_NS (10 * NS_PER_MS)

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449 /* on every architecture */
#endif
#define FUTEX_U32     2
#define FUTEX_PRIVATE 128
#define FUTEX_WAIT_ME 0
#define FUTEX_WAKE_IT 1

struct waiter { /* struct futex_waitv */
    uint64_t value, address;
    uint32_t flags, reserved;
};

struct ward {
    int pid; /* 0: this place is free */
    const struct page_process *page;
    uint32_t expected[PAGE_HOLDS];
    uint8_t changes[PAGE_HOLDS];
    bool is_over[PAGE_HOLDS]; /* this word is not watched any more */
    bool is_closed;           /* its connection has ended: it takes no further mutex */
    int looks;
    int64_t look_at; /* CLOCK_NEVER: no need */
};

struct group {
    struct deathwatch *deathwatch;
    struct ward *wards; /* GROUP_WARDS of them */
    bool is_started;
    pthread_t thread;
    pthread_mutex_t lock;            /* guards the words */
    struct waiter list[WAITERS_MAX]; /* the first word is `turn` */
    unsigned n;                      /* 0: the thread ends */
    _Atomic uint32_t turn;           /* rises with each new list */
    _Atomic bool has_reported;
    int unfounded;
    int64_t rest_until; /* CLOCK_NEVER: no rest */
};

struct deathwatch {
    struct event_base *base;
    deathwatch_fn *fn;
    void *ctx;
    int reports; /* an eventfd */
    struct watch report, clock;
    struct group groups[GROUPS];
    struct ward wards[WARDS];
};

/* --- the threads --- */

static long futex(const _Atomic uint32_t *word, int op, uint32_t value)
{
    return syscall(SYS_futex, word, op | FUTEX_PRIVATE, value, NULL, NULL, 0);
}

static void *keep_watch(void *arg)
{
    struct group *group = arg;
    struct waiter list[WAITERS_MAX];
    for (;;) {
        pthread_mutex_lock(&group->lock);
        uint32_t turn = atomic_load(&group->turn);
        unsigned n = group->n;
        memcpy(list, group->list, n * sizeof *list);
        pthread_mutex_unlock(&group->lock);
        if (n == 0)
            return NULL;
        list[0].value = turn;
        syscall(SYS_futex_waitv, list, n, 0, NULL, CLOCK_MONOTONIC);
        if (atomic_load(&group->turn) != turn)
            continue;
        atomic_store(&group->has_reported, true);
        /* Cannot fail: the eventfd's counter cannot overflow here. */
        if (eventfd_write(group->deathwatch->reports, 1) != 0)
            abort();
        while (atomic_load(&group->turn) == turn)
            futex(&group->turn, FUTEX_WAIT_ME, turn);
    }
}

static void give_words(struct group *group)
{
    pthread_mutex_lock(&group->lock);
    group->list[0] =
        (struct waiter){.address = (uintptr_t)&group->turn, .flags = FUTEX_U32 | FUTEX_PRIVATE};
    group->n = 1;
    for (int i = 0; i < GROUP_WARDS; i++) {
        const struct ward *ward = &group->wards[i];
        for (int k = 0; ward->pid && k < PAGE_HOLDS; k++)
            if (!ward->is_over[k])
                group->list[group->n++] =
                    (struct waiter){.value = ward->expected[k],
                                    .address = (uintptr_t)&ward->page->holds[k].word,
                                    .flags = FUTEX_U32};
    }
    atomic_fetch_add(&group->turn, 1);
    pthread_mutex_unlock(&group->lock);
    group->rest_until = CLOCK_NEVER;
    futex(&group->turn, FUTEX_WAKE_IT, 1);
}

static bool deathwatch_start_thread(struct group *group)
{
    group->is_started = thread_start(&group->thread, STACK_BYTES, keep_watch, group) == 0;
    return group->is_started;
}

/* --- the processes --- */

static void end_ward(struct ward *ward)
{
    munmap((void *)(uintptr_t)ward->page, PAGE_SIZE_BYTES);
    *ward = (struct ward){.look_at = CLOCK_NEVER};
}

/* Reads the words. False: none has changed. */
static bool read_words(struct ward *ward)
{
    bool has_changed = false;
    for (int k = 0; ward->pid && k < PAGE_HOLDS; k++) {
        uint32_t value = atomic_load(&ward->page->holds[k].word);
        if (ward->is_over[k] || value == ward->expected[k])
            continue;
        has_changed = true;
        ward->expected[k] = value;
        bool is_held = (value & PAGE_ALIVE_MASK) && !(value & PAGE_DIED);
        ward->is_over[k] = !is_held || ++ward->changes[k] > CHANGES_MAX;
        if (value & PAGE_DIED) {
            ward->looks = LOOKS_MAX;
            ward->look_at = 0;
        }
    }
    return has_changed;
}

static bool is_all_over(const struct ward *ward)
{
    for (int k = 0; k < PAGE_HOLDS; k++)
        if (!ward->is_over[k] && (ward->expected[k] || !ward->is_closed))
            return false;
    return true;
}

/* A changed word may also mean that only a thread ended, or that exec ran. So ask the kernel. */
static void deathwatch_look(struct deathwatch *deathwatch, struct ward *ward)
{
    int pid = ward->pid, status = proc_died_with(pid);
    int64_t wait = LOOK_AGAIN_NS << (2 * (LOOKS_MAX - ward->looks--));
    ward->look_at = ward->looks > 0 ? clock_now_ns() + wait : CLOCK_NEVER;
    if (status || (ward->look_at == CLOCK_NEVER && is_all_over(ward)))
        end_ward(ward);
    if (status)
        deathwatch->fn(deathwatch->ctx, pid, status);
}

/* --- the loop --- */

static void deathwatch_set_clock(struct deathwatch *deathwatch)
{
    int64_t at = CLOCK_NEVER;
    for (int i = 0; i < GROUPS; i++)
        at = clock_min(at, deathwatch->groups[i].rest_until);
    for (int i = 0; i < WARDS; i++)
        at = clock_min(at, deathwatch->wards[i].look_at);
    watch_at(&deathwatch->clock, at);
}

static void deathwatch_look_at_all(struct deathwatch *deathwatch)
{
    for (int i = 0; i < WARDS; i++)
        if (deathwatch->wards[i].look_at <= clock_now_ns())
            deathwatch_look(deathwatch, &deathwatch->wards[i]);
    deathwatch_set_clock(deathwatch);
}

static void take_report(struct group *group)
{
    bool has_changed = false;
    for (int i = 0; i < GROUP_WARDS; i++)
        has_changed |= read_words(&group->wards[i]);
    group->unfounded = has_changed ? 0 : group->unfounded + 1;
    if (has_changed)
        give_words(group);
    else if (group->unfounded < UNFOUNDED_MAX)
        group->rest_until = clock_now_ns() + REST_NS;
    else
        log_debug("procs", "a process is corrupting its death futex; ignoring it");
}

static void on_report(void *ctx)
{
    struct deathwatch *deathwatch = ctx;
    eventfd_t count;
    if (eventfd_read(deathwatch->reports, &count) != 0)
        return;
    for (int i = 0; i < GROUPS; i++)
        if (atomic_exchange(&deathwatch->groups[i].has_reported, false))
            take_report(&deathwatch->groups[i]);
    deathwatch_look_at_all(deathwatch);
}

static void on_clock(void *ctx)
{
    struct deathwatch *deathwatch = ctx;
    for (int i = 0; i < GROUPS; i++)
        if (deathwatch->groups[i].rest_until <= clock_now_ns())
            give_words(&deathwatch->groups[i]);
    deathwatch_look_at_all(deathwatch);
}

/* --- begin and end --- */

static bool open_reports(struct deathwatch *deathwatch)
{
    struct err err;
    watch_init(&deathwatch->report, deathwatch->base, on_report, deathwatch);
    watch_init(&deathwatch->clock, deathwatch->base, on_clock, deathwatch);
    deathwatch->reports = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return deathwatch->reports >= 0 && watch_fd(&deathwatch->report, deathwatch->reports, &err);
}

struct deathwatch *deathwatch_new(struct event_base *base, deathwatch_fn *fn, void *ctx)
{
    if (syscall(SYS_futex_waitv, NULL, 0, 0, NULL, 0) < 0 && errno != EINVAL)
        return NULL;
    struct deathwatch *deathwatch = calloc(1, sizeof *deathwatch);
    if (!deathwatch)
        return NULL;
    deathwatch->base = base;
    deathwatch->fn = fn;
    deathwatch->ctx = ctx;
    for (int i = 0; i < GROUPS; i++) {
        struct group *group = &deathwatch->groups[i];
        group->deathwatch = deathwatch;
        group->wards = &deathwatch->wards[(size_t)i * GROUP_WARDS];
        group->rest_until = CLOCK_NEVER;
        pthread_mutex_init(&group->lock, NULL);
    }
    for (int i = 0; i < WARDS; i++)
        deathwatch->wards[i].look_at = CLOCK_NEVER;
    if (!open_reports(deathwatch)) {
        deathwatch_free(deathwatch);
        return NULL;
    }
    return deathwatch;
}

/* A process has one place: its old one, or a free one. */
static struct ward *deathwatch_place_for(struct deathwatch *deathwatch, int pid)
{
    struct ward *place = NULL;
    for (int i = 0; i < WARDS; i++) {
        struct ward *ward = &deathwatch->wards[i];
        if (ward->pid == pid) {
            end_ward(ward);
            return ward;
        }
        if (!place && ward->pid == 0)
            place = ward;
    }
    return place;
}

static bool watch_ward(struct deathwatch *deathwatch, struct ward *ward, int pid, int page_fd)
{
    struct group *group = &deathwatch->groups[(ward - deathwatch->wards) / GROUP_WARDS];
    void *page = mmap(NULL, PAGE_SIZE_BYTES, PROT_READ, MAP_SHARED, page_fd, 0);
    if (page != MAP_FAILED)
        *ward = (struct ward){.pid = pid, .page = page, .look_at = CLOCK_NEVER};
    give_words(group);
    return page != MAP_FAILED && (group->is_started || deathwatch_start_thread(group));
}

void deathwatch_begin(struct deathwatch *deathwatch, int pid, int page_fd)
{
    if (!deathwatch || pid <= 0)
        return;
    struct ward *ward = deathwatch_place_for(deathwatch, pid);
    if (!ward || !watch_ward(deathwatch, ward, pid, page_fd))
        log_debug("procs", "process %d cannot be watched; its death will be noticed late", pid);
}

void deathwatch_closed(struct deathwatch *deathwatch, int pid)
{
    for (int i = 0; deathwatch && pid > 0 && i < WARDS; i++) {
        struct ward *ward = &deathwatch->wards[i];
        if (ward->pid != pid)
            continue;
        ward->is_closed = true;
        read_words(ward);
        if (ward->look_at == CLOCK_NEVER && is_all_over(ward))
            end_ward(ward);
        give_words(&deathwatch->groups[i / GROUP_WARDS]);
        deathwatch_set_clock(deathwatch);
        return;
    }
}

static void end_group(struct group *group)
{
    if (group->is_started) {
        pthread_mutex_lock(&group->lock);
        group->n = 0;
        atomic_fetch_add(&group->turn, 1);
        pthread_mutex_unlock(&group->lock);
        futex(&group->turn, FUTEX_WAKE_IT, 1);
        pthread_join(group->thread, NULL);
    }
    pthread_mutex_destroy(&group->lock);
}

void deathwatch_free(struct deathwatch *deathwatch)
{
    if (!deathwatch)
        return;
    for (int i = 0; i < GROUPS; i++)
        end_group(&deathwatch->groups[i]);
    for (int i = 0; i < WARDS; i++)
        if (deathwatch->wards[i].pid)
            end_ward(&deathwatch->wards[i]);
    watch_end(&deathwatch->report);
    watch_end(&deathwatch->clock);
    fd_close(&deathwatch->reports);
    free(deathwatch);
}
