/* SPDX-License-Identifier: Apache-2.0
 *
 * sigtext: what a signal is called. A file of its own, since libpch uses str and must not need so
 * new a C library as this does. Any thread; cannot fail.
 */
#ifndef PCHRUN_BASE_SIGTEXT_H
#define PCHRUN_BASE_SIGTEXT_H

#define SIGTEXT_MAX 32

/* "SIGTERM", "SIGRTMIN+3", "signal 99". Returns text. */
const char *sigtext(int number, char text[SIGTEXT_MAX]);
/* The same, valid until the end of the block. */
#define SIGTEXT(number) sigtext((number), (char[SIGTEXT_MAX]){0})

#endif
