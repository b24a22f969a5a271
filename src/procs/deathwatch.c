/* SPDX-License-Identifier: Apache-2.0
 * See deathwatch.h. Read first: futex_waitv in the kernel's documentation (userspace-api/futex2).
 *
 * Only the thread of a process reads the words of that process. It reports that a mutex's thread
 * has died, and that it has nothing more to watch. No process can keep pchrun busy: after some
 * wake-ups its thread gives up.
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
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    WARDS = 320,           /* more than the slots of procs */
    LOOKS_MAX = 5,         /* at a process after one of its threads has died */
    WAKES_MAX = 100,       /* of a thread; an honest process needs a few */
    STACK_BYTES = 1 << 17, /* enough for sanitizers; untouched pages cost no memory */
};
/* The kernel stops threads one by one, so look several times. Each pause is four times the last. */
#define LOOK_AGAIN_NS NS_PER_MS

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449 /* on every architecture */
#endif
#define FUTEX_U32     2
#define FUTEX_PRIVATE 128
#define FUTEX_WAKE_IT 1

struct waiter { /* struct futex_waitv */
    uint64_t value, address;
    uint32_t flags, reserved;
};

/* A message of the main thread to the thread that watches a process. CLOSED: the connection of the
 * process has ended, so the process takes no further mutex. */
enum told { WATCH, CLOSED, END };

struct ward {
    int pid; /* 0: this place is free */
    int reports;
    const struct page_process *page;
    pthread_t thread;
    _Atomic uint32_t told;
    _Atomic bool has_died;  /* the death of one thread of the process, or of the whole process */
    _Atomic bool has_ended; /* the watching thread */
    _Atomic bool is_corrupt;
    int looks; /* how many are left */
    int64_t look_at;
};

struct deathwatch {
    deathwatch_fn *fn;
    void *ctx;
    int reports; /* an eventfd */
    struct watch report, clock;
    struct ward wards[WARDS];
};

/* --- the threads --- */

/* Reads the words, and adds those to the list that may still change. True: a holder has died. */
static bool read_words(const struct page_process *page, bool is_closed, bool is_over[PAGE_HOLDS],
                       struct waiter *list, unsigned *n)
{
    bool has_died = false;
    for (int k = 0; k < PAGE_HOLDS; k++) {
        uint32_t value = atomic_load(&page->holds[k].word);
        bool is_held = (value & PAGE_ALIVE_MASK) && !(value & PAGE_DIED);
        if (is_over[k])
            continue;
        has_died |= value & PAGE_DIED;
        is_over[k] = !is_held && (value || is_closed);
        if (!is_over[k])
            list[(*n)++] = (struct waiter){
                .value = value, .address = (uintptr_t)&page->holds[k].word, .flags = FUTEX_U32};
    }
    return has_died;
}

/* Cannot fail: the eventfd's counter cannot overflow here. */
static void report(const struct ward *ward, _Atomic bool *what)
{
    atomic_store(what, true);
    if (eventfd_write(ward->reports, 1) != 0)
        abort();
}

static void *keep_watch(void *arg)
{
    struct ward *ward = arg;
    bool is_over[PAGE_HOLDS] = {false};
    unsigned n = 2, wakes = 0;
    for (uint32_t told; n > 1 && (told = atomic_load(&ward->told)) != END; wakes++) {
        struct waiter list[1 + PAGE_HOLDS] = {
            {.value = told, .address = (uintptr_t)&ward->told, .flags = FUTEX_U32 | FUTEX_PRIVATE}};
        n = 1;
        if (read_words(ward->page, told == CLOSED, is_over, list, &n))
            report(ward, &ward->has_died);
        if (wakes == WAKES_MAX) {
            atomic_store(&ward->is_corrupt, true);
            break;
        }
        if (n > 1)
            syscall(SYS_futex_waitv, list, n, 0, NULL, CLOCK_MONOTONIC);
    }
    report(ward, &ward->has_ended);
    return NULL;
}

/* --- the processes --- */

static void deathwatch_tell(struct ward *ward, enum told told)
{
    atomic_store(&ward->told, told);
    syscall(SYS_futex, &ward->told, FUTEX_WAKE_IT | FUTEX_PRIVATE, 1, NULL, NULL, 0);
}

static void end_ward(struct ward *ward)
{
    deathwatch_tell(ward, END);
    pthread_join(ward->thread, NULL);
    if (ward->is_corrupt)
        log_debug("procs", "process %d is corrupting its death futex; ignoring it", ward->pid);
    munmap((void *)(uintptr_t)ward->page, PAGE_SIZE_BYTES);
    *ward = (struct ward){.pid = 0};
}

/* A death may also mean that only a thread ended, or that exec ran. So ask the kernel. */
static void deathwatch_look(struct deathwatch *deathwatch, struct ward *ward)
{
    int pid = ward->pid, status = proc_died_with(pid);
    ward->look_at = clock_now_ns() + (LOOK_AGAIN_NS << (2 * (LOOKS_MAX - ward->looks--)));
    if (!status)
        return;
    end_ward(ward);
    deathwatch->fn(deathwatch->ctx, pid, status);
}

/* --- the loop --- */

static void deathwatch_look_at_all(void *ctx)
{
    struct deathwatch *deathwatch = ctx;
    int64_t at = CLOCK_NEVER;
    for (int i = 0; i < WARDS; i++) {
        struct ward *ward = &deathwatch->wards[i];
        if (atomic_exchange(&ward->has_died, false)) {
            ward->looks = LOOKS_MAX;
            ward->look_at = 0;
        }
        if (ward->looks > 0 && ward->look_at <= clock_now_ns())
            deathwatch_look(deathwatch, ward);
        if (ward->looks > 0)
            at = clock_min(at, ward->look_at);
        else if (ward->has_ended)
            end_ward(ward);
    }
    watch_at(&deathwatch->clock, at);
}

static void on_report(void *ctx)
{
    struct deathwatch *deathwatch = ctx;
    eventfd_t count;
    if (eventfd_read(deathwatch->reports, &count) == 0)
        deathwatch_look_at_all(deathwatch);
}

/* --- begin and end --- */

struct deathwatch *deathwatch_new(struct event_base *base, deathwatch_fn *fn, void *ctx)
{
    struct err err;
    if (syscall(SYS_futex_waitv, NULL, 0, 0, NULL, 0) < 0 && errno != EINVAL)
        return NULL;
    struct deathwatch *deathwatch = calloc(1, sizeof *deathwatch);
    if (!deathwatch)
        return NULL;
    deathwatch->fn = fn;
    deathwatch->ctx = ctx;
    watch_init(&deathwatch->report, base, on_report, deathwatch);
    watch_init(&deathwatch->clock, base, deathwatch_look_at_all, deathwatch);
    deathwatch->reports = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (deathwatch->reports < 0 || !watch_fd(&deathwatch->report, deathwatch->reports, &err)) {
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
        if (ward->pid == pid)
            end_ward(ward);
        if (!place && ward->pid == 0)
            place = ward;
    }
    return place;
}

static bool watch_ward(struct deathwatch *deathwatch, struct ward *ward, int pid, int page_fd)
{
    void *page = mmap(NULL, PAGE_SIZE_BYTES, PROT_READ, MAP_SHARED, page_fd, 0);
    if (page == MAP_FAILED)
        return false;
    *ward = (struct ward){.pid = pid, .reports = deathwatch->reports, .page = page};
    if (thread_start(&ward->thread, STACK_BYTES, keep_watch, ward) == 0)
        return true;
    munmap(page, PAGE_SIZE_BYTES);
    *ward = (struct ward){.pid = 0};
    return false;
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
    for (int i = 0; deathwatch && pid > 0 && i < WARDS; i++)
        if (deathwatch->wards[i].pid == pid)
            deathwatch_tell(&deathwatch->wards[i], CLOSED);
}

void deathwatch_free(struct deathwatch *deathwatch)
{
    if (!deathwatch)
        return;
    for (int i = 0; i < WARDS; i++)
        if (deathwatch->wards[i].pid)
            end_ward(&deathwatch->wards[i]);
    watch_end(&deathwatch->report);
    watch_end(&deathwatch->clock);
    fd_close(&deathwatch->reports);
    free(deathwatch);
}
