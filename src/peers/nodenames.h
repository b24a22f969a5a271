/* SPDX-License-Identifier: Apache-2.0
 *
 * nodenames: can node 0 look up the names of the other nodes?
 *
 * The others connect to node 0, so a run does without. But a name that is not known here is often
 * misspelt, and then that node does not join. Owns look-ups: nodenames_free(). Main thread.
 */
#pragma once

#include "config/config.h"
#include "loop/loop.h"
#include "loop/watch.h"

/* The log names at most this many nodes, and looks up only their names. */
enum { NODENAMES_MAX = 4 };

struct nodenames {
    int n;
    struct nodename {
        int rank, fd;
        struct watch watch;
    } all[NODENAMES_MAX];
};

/* "node 1 (hostb)"; or only how many other nodes there are, if they are more, or have no names. */
void nodenames_list(const struct config *config, char *text, size_t size);
/* Looks the listed names up in the background, and logs each that fails. `names` is zeroed. */
void nodenames_look_up(struct nodenames *names, const struct config *config, struct loop *loop);
void nodenames_free(struct nodenames *names);

/* The advice for a name that is not known. */
#define NODENAMES_ADVICE                                                                 \
    "node 0 does not need its address, but if that node does not join, check its entry " \
    "in cluster.nodes"

/* Looks all names up, and waits for at most wait_ns. `text`: those that fail, as many as fit; "":
 * none. False: no entry is a name. */
bool nodenames_check(const struct config *config, int64_t wait_ns, char *text, size_t size);
