/* SPDX-License-Identifier: Apache-2.0
 *
 * robustlock: tells the supervisor of this process's death at once, by robust mutexes in the
 * process's page (wire/page.h). The kernel releases them when their thread ends, long before it
 * reports the end of the process. The attaching thread holds one mutex. If another thread trains,
 * that thread holds the second mutex.
 *
 * A held mutex is in its thread's list of the C library, so the page must stay mapped until
 * robustlock_release() returns true. Failures are not reported: then the supervisor learns of a
 * death later, from the kernel.
 */
#pragma once

#include "wire/page.h"

#include <stdbool.h>

/* Call from the thread that will hold it, once per page. */
void robustlock_take(struct page_process *page, enum page_holder holder);
/* Call from the training thread: it takes its own mutex, unless it is the attaching thread. */
void robustlock_train(struct page_process *page);
/* The id of another living thread that trains; 0: unknown. */
uint32_t robustlock_other_trainer(const struct page_process *page);
/* Releases the calling thread's mutexes. False: another thread still holds one. */
bool robustlock_release(struct page_process *page);
/* In the child of a fork, where the page is not mapped: maps empty memory in its place. An older C
 * library may still write there, through the forking thread's list. Async-signal-safe. */
void robustlock_fork(struct page_process *page);
