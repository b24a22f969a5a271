/* SPDX-License-Identifier: Apache-2.0
 *
 * sigtext: names of signals. Apart from str, because this needs a newer C library than libpch,
 * which uses str, may need. Any thread; cannot fail.
 */
#ifndef PCHRUN_BASE_SIGTEXT_H
#define PCHRUN_BASE_SIGTEXT_H

#define SIGTEXT_MAX 32

/* "SIGTERM", "SIGRTMIN+3", "signal 99". Returns text. */
const char *sigtext(int number, char text[SIGTEXT_MAX]);
/* The same, valid until the end of the block. */
#define SIGTEXT(number) sigtext((number), (char[SIGTEXT_MAX]){0})

#endif
