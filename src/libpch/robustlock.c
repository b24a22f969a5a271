/* SPDX-License-Identifier: Apache-2.0
 * See robustlock.h. Read first: get_robust_list(2), futex(2).
 */
#include "libpch/robustlock.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000 /* only a hint before Linux 4.17 */
#endif

_Static_assert(sizeof(pthread_mutex_t) <= sizeof(((struct page_process *)0)->holds[0].room),
               "the mutex fits into its room");

static pthread_mutex_t *mutex_of(struct page_process *page, enum page_holder holder)
{
    return (pthread_mutex_t *)(void *)page->holds[holder].room;
}

static uint32_t holder_of(const struct page_process *page, enum page_holder holder)
{
    return atomic_load(&page->holds[holder].word) & PAGE_ALIVE_MASK;
}

static uint32_t own_thread(void)
{
    return (uint32_t)syscall(SYS_gettid);
}

/* Before glibc 2.34 the functions that make a mutex robust and shared were in libpthread, which a
 * program may not have loaded. glibc's ABI stores both flags in the mutex's kind. */
static bool robustlock_make(pthread_mutex_t *mutex)
{
#ifdef __GLIBC__
    enum { ROBUST = 16, SHARED = 128 };
    *mutex = (pthread_mutex_t){.__data = {.__kind = ROBUST | SHARED}};
    return true;
#else
    pthread_mutexattr_t attr;
    return pthread_mutexattr_init(&attr) == 0 &&
           pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED) == 0 &&
           pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST) == 0 &&
           pthread_mutex_init(mutex, &attr) == 0;
#endif
}

/* Checks that the mutex is the newest in this thread's robust list, which the kernel reads. */
static bool is_held(const _Atomic uint32_t *word)
{
    struct robust_list_head *head = NULL;
    size_t size = 0;
    if ((atomic_load(word) & PAGE_ALIVE_MASK) != own_thread() ||
        syscall(SYS_get_robust_list, 0, &head, &size) != 0 || !head || size < sizeof *head)
        return false;
    return (uintptr_t)head->list.next + (uintptr_t)head->futex_offset == (uintptr_t)word;
}

/* The kernel wakes the supervisor only if the word has its waiters bit. */
void robustlock_take(struct page_process *page, enum page_holder holder)
{
    _Atomic uint32_t *word = &page->holds[holder].word;
    pthread_mutex_t *mutex = mutex_of(page, holder);
    if (!robustlock_make(mutex) || pthread_mutex_lock(mutex) != 0)
        return;
    if (!is_held(word)) { /* the word is then undefined, and must not name a holder */
        pthread_mutex_unlock(mutex);
        memset(mutex, 0, sizeof *mutex);
        return;
    }
    atomic_fetch_or(word, PAGE_WAITERS);
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void robustlock_train(struct page_process *page)
{
    if (holder_of(page, PAGE_OPENER) != own_thread() && holder_of(page, PAGE_TRAINER) == 0)
        robustlock_take(page, PAGE_TRAINER);
}

uint32_t robustlock_other_trainer(const struct page_process *page)
{
    /* After the training thread's end its word is not 0, but has no thread's id. */
    bool is_opener = atomic_load(&page->holds[PAGE_TRAINER].word) == 0;
    uint32_t trainer = holder_of(page, is_opener ? PAGE_OPENER : PAGE_TRAINER);
    return trainer == own_thread() ? 0 : trainer;
}

bool robustlock_release(struct page_process *page)
{
    bool is_free = true;
    for (int i = 0; i < PAGE_HOLDS; i++) {
        uint32_t holder = holder_of(page, i);
        if (holder == own_thread())
            pthread_mutex_unlock(mutex_of(page, i));
        else if (holder != 0)
            is_free = false;
    }
    return is_free;
}

void robustlock_fork(struct page_process *page)
{
    if (page)
        (void)mmap(page, PAGE_SIZE_BYTES, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
}
