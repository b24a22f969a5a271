/* SPDX-License-Identifier: Apache-2.0
 *
 * grip: what tells the supervisor of our death at once: robust mutexes in the process's page
 * (wire/page.h), which the kernel releases when a thread of ours ends, long before it tells of the
 * process's end. The thread that attaches holds one, and the training thread another if that is not
 * the same.
 *
 * A mutex is in the C library's list of its thread for as long as that lives, so its page must stay
 * where it is until grip_release() has said that nobody holds one. It fails without a word: then
 * the supervisor hears of a death when everybody does.
 */
#ifndef PCHRUN_LIBPCH_GRIP_H
#define PCHRUN_LIBPCH_GRIP_H

#include "wire/page.h"

#include <stdbool.h>

/* By the thread that is to hold it. Once for each page. */
void grip_take(struct page_process *page, enum page_holder holder);
/* The training thread: it takes its own, unless it is the one that attached. */
void grip_train(struct page_process *page);
/* Another thread that trains, and lives; 0: none is known. */
uint32_t grip_other_trainer(const struct page_process *page);
/* Lets go what the calling thread holds. False: another thread holds one. */
bool grip_release(struct page_process *page);
/* In the child of a fork, where the page is not: an older C library's list of the thread that has
 * forked may still lead there, and be written to. Async-signal-safe. */
void grip_fork(struct page_process *page);

#endif
