/* SPDX-License-Identifier: Apache-2.0
 *
 * sigtext: the names of signals, the signals that users send to end a program, and a text for how a
 * process has ended. Any thread; cannot fail.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define SIGTEXT_MAX 32

/* "TERM"; NULL: not one of the first 31 signals. */
const char *sigabbrev(int number);
/* "SIGTERM", "SIGRTMIN+3", "signal 99". Returns text. */
const char *sigtext(int number, char text[SIGTEXT_MAX]);
/* Like sigtext(); the text is valid until the end of the block. */
#define SIGTEXT(number) sigtext((number), (char[SIGTEXT_MAX]){0})

/* How a process has ended, by its status of wait(2): "exit code 7" or "signal 11 (Segmentation
 * fault, core dumped)". Returns text. */
char *sigtext_of_status(int status, char *text, size_t size);

/* True if the signal ends a pchrun that waits for the job's start. */
bool sigends(int number);
