/* SPDX-License-Identifier: Apache-2.0
 *
 * stacks: lets the supervisor see the Python stacks of an attached process (wire/page.h). Python's
 * faulthandler writes them in a signal handler, so it works also while a thread keeps the
 * interpreter's lock. The signal is a real-time one that the process does not use; only the
 * supervisor sends it. A fork keeps the handler and the descriptor, so a data loader's worker shows
 * its stack, too; other children of multiprocessing get both from _children.py. A program that the
 * process starts has neither the handler nor the descriptor. The handler stays when the job is
 * closed: the supervisor may just be sending the signal. If a part fails, the process only shows no
 * stacks. Needs the interpreter's lock.
 */
#pragma once

#include "training.h"

/* Call it before any attach. */
void stacks_init(void);
/* Call it after each attach. Keeps the exception that is set. */
void stacks_show(struct pch *job);
/* The arguments of stacks_help() for a child. False: this process shows no stacks. */
bool stacks_are_shown(int *ret_fd, int *ret_number);
/* In a child: shows its stacks where its parent does. Owns the descriptor. Does nothing if the
 * child uses the signal. */
void stacks_help(int fd, int number);
