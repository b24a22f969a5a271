/* SPDX-License-Identifier: Apache-2.0
 *
 * limits: how many descriptors we may open. What is raised for us is not for the commands: they get
 * back what we were started with.
 */
#ifndef PCHRUN_OS_LIMITS_H
#define PCHRUN_OS_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

/* Descriptors that may be open; with the hard limit those that limits_want could get. */
int64_t limits_files(void);
int64_t limits_files_hard(void);

/* Raises the soft limit to `files`, or as far as the hard one allows. Once, main thread. */
void limits_want(int64_t files);

/* In a child before its exec, async-signal-safe: undoes limits_want. */
void limits_restore(void);

#endif
