/* SPDX-License-Identifier: Apache-2.0
 *
 * limits: how many descriptors we may open. The commands get the original limit, not the raised
 * one.
 */
#ifndef PCHRUN_OS_LIMITS_H
#define PCHRUN_OS_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

/* The soft limit, and the hard limit: limits_want() can reach the latter. */
int64_t limits_files(void);
int64_t limits_files_hard(void);

/* Raises the soft limit to `files`, or as far as the hard one allows. Call once, from the main
 * thread. */
void limits_want(int64_t files);

/* In a child before its exec, async-signal-safe: undoes limits_want. */
void limits_restore(void);

#endif
