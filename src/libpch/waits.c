/* SPDX-License-Identifier: Apache-2.0
 *
 * waits: pch_wait_begin and pch_wait_end, for other ranks; pch_load_begin and pch_load_end, for
 * data. The page shows the sum of the waits for data, see wire/page.h. Ranks that wait for each
 * other all take the same time for a step. Only the time in which a rank does not wait shows which
 * rank is slow.
 *
 * That time is measured from the end of one wait to the begin of the next, so pch_step needs no
 * clock. A window lasts at least WINDOW steps and WINDOW_NS, because other processes of the machine
 * may slow a rank down for seconds. Its longest step does not count: that may hold a save, a
 * compilation or a pause of the machine. The page shows the lower value of the last two windows, so
 * one bad window blames no rank.
 */
#include "pch.h"

#include "base/clock.h"
#include "libpch/job.h"

enum { WINDOW = 20 };
#define WINDOW_NS (5 * NS_PER_S)

static void sum_add(struct waits_sum *sum, int64_t ns)
{
    sum->sum_ns += ns;
    sum->longest_ns = ns > sum->longest_ns ? ns : sum->longest_ns;
}

static int64_t sum_mean(const struct waits_sum *sum, int n)
{
    return (sum->sum_ns - sum->longest_ns) / (n - 1);
}

/* 0 means that nothing is known, so a step takes at least 1 ns. */
static void end_window(struct waits *waits, struct page_process *page)
{
    int64_t own = sum_mean(&waits->own, waits->n) + 1;
    int64_t whole = sum_mean(&waits->whole, waits->n) + 1;
    if (waits->earlier_ns) {
        atomic_store_explicit(&page->whole_ns, (uint64_t)whole, memory_order_relaxed);
        atomic_store_explicit(&page->own_ns, (uint64_t)clock_min(own, waits->earlier_ns),
                              memory_order_relaxed);
    }
    waits->earlier_ns = own;
    waits->own = waits->whole = (struct waits_sum){0};
    waits->n = 0;
}

/* A wait begins in another step than the last one. `steps` is above 1 if some had no wait. */
static void end_step(struct waits *waits, struct page_process *page, uint64_t step)
{
    bool is_counted = waits->began_at && step > waits->step;
    if (is_counted) {
        int64_t steps = step - waits->step < INT32_MAX ? (int64_t)(step - waits->step) : INT32_MAX;
        sum_add(&waits->own, waits->own_ns / steps);
        sum_add(&waits->whole, (waits->since - waits->began_at) / steps);
        if (++waits->n >= WINDOW && waits->whole.sum_ns >= WINDOW_NS)
            end_window(waits, page);
    }
    waits->step = step;
    waits->began_at = waits->since;
    waits->own_ns = 0;
}

/* The process's page, with the lock held. NULL: it is not attached, and the lock is not held. */
static struct page_process *waits_enter(pch_t *job)
{
    if (!job || job_state(job_live(job)) == LIVE_OFF)
        return NULL;
    pthread_mutex_lock(&job->lock);
    struct live *live = job_live(job);
    if (job_state(live) != LIVE_OFF && live->process)
        return live->process;
    pthread_mutex_unlock(&job->lock);
    return NULL;
}

void waits_begin(struct waits *waits, struct page_process *page, int64_t now)
{
    if (waits->is_waiting)
        return;
    uint64_t step = atomic_load_explicit(&page->step, memory_order_relaxed);
    if (step != waits->step)
        end_step(waits, page, step);
    waits->own_ns += waits->since ? now - waits->since : 0;
    waits->since = now;
    waits->is_waiting = true;
}

void waits_end(struct waits *waits, int64_t now)
{
    if (waits->is_waiting)
        waits->since = now;
    waits->is_waiting = false;
}

void pch_wait_begin(pch_t *job)
{
    struct page_process *page = waits_enter(job);
    if (!page)
        return;
    waits_begin(&job_live(job)->waits, page, clock_now_ns());
    pthread_mutex_unlock(&job->lock);
}

void pch_wait_end(pch_t *job)
{
    if (!waits_enter(job))
        return;
    waits_end(&job_live(job)->waits, clock_now_ns());
    pthread_mutex_unlock(&job->lock);
}

void pch_load_begin(pch_t *job)
{
    struct page_process *page = waits_enter(job);
    if (!page)
        return;
    page->loading = page_loading_begin(page->loading, clock_now_ns());
    pthread_mutex_unlock(&job->lock);
}

void pch_load_end(pch_t *job)
{
    struct page_process *page = waits_enter(job);
    if (!page)
        return;
    page->loading = page_loading_ns(page->loading, clock_now_ns());
    pthread_mutex_unlock(&job->lock);
}
