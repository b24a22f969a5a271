/* SPDX-License-Identifier: Apache-2.0
 *
 * stacks: the Python stacks of the ranks that show them (wire/page.h), and of their forks, such as
 * the workers of a data loader.
 *
 * The supervisor lists the ranks; a child asks them, since /proc may block. It asks the processes
 * of one rank one after the other, since they write to one file, and all ranks at the same time. A
 * process gets the signal only if it handles it and has that file open. So a process that has
 * inherited, replaced or reused anything else is left alone. The handler runs even while another
 * thread holds the interpreter's lock. Owns its memory: stacks_free().
 */
#pragma once

#include "commands/children.h"
#include "procs/procpage.h"

enum { STACKS_RANKS = 64 };

struct stacks {
    struct {
        int rank;
        pid_t pid;
        struct procpage_stacks room;
    } ranks[STACKS_RANKS];
    int n;
    struct tree tree; /* the processes of the job */
};

/* Lists those ranks that show their stacks, and empties the room for them. Forgets earlier ranks.
 */
void stacks_list(struct stacks *stacks, struct children *children,
                 const struct core_rank_report *ranks, int n);
void stacks_free(struct stacks *stacks);
/* In a child: asks all processes, and writes first a line for each rank, then the stacks. */
void stacks_write(const struct stacks *stacks, int out);
/* Logs at most `max` of those lines; `text` begins with what stacks_write() has written. */
void stacks_log(const uint8_t *text, size_t len, int max);
/* True if the text has the stack of this process. */
bool stacks_are_in(const uint8_t *text, size_t len, pid_t pid);
