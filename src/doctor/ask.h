/* SPDX-License-Identifier: Apache-2.0
 *
 * ask: runs a program that knows something, and takes what it prints. It may be missing, hang,
 * print rubbish without end, or leave others behind; none of that holds the asker longer than it
 * wants to wait. For a child of the doctor: the program, and what it has started in its group, is
 * ended before a signal ends us. Owns nothing afterwards. Main thread.
 */
#ifndef PCHRUN_DOCTOR_ASK_H
#define PCHRUN_DOCTOR_ASK_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

/* `argv` is looked for in PATH. What it prints in time goes into `text`, which is ended; of more
 * than fits the beginning. False: it cannot be run, or has not come to an end in time, or has
 * printed nothing, as one does that fails. */
MUST_CHECK bool ask(char **argv, int64_t wait_ns, char *text, size_t size, struct err *err);

#endif
