/* SPDX-License-Identifier: Apache-2.0
 *
 * samedir: does this node have the state directory of node 0?
 *
 * Node 0 writes commit.json, with its own random number, before it lets any node join. So a node
 * that has joined looks for that number in its own directory. A network file system may show a new
 * file late, so there the node looks for a while. A helper with a deadline looks: a dead file
 * system cannot block pchrun. If nothing can be read, the directory counts as the same one. Owns
 * its memory and its helper: samedir_free(). Main thread.
 */
#pragma once

#include "loop/inquiry.h"
#include "loop/loop.h"
#include "record/history.h"

struct samedir {
    struct loop *loop;
    struct reap *reap;
    const char *dir; /* the state directory, absolute */
    /* private from here on */
    char id[HISTORY_ID_SIZE]; /* of node 0, as in commit.json */
    struct inquiry inquiry;
};

/* Set the public fields first. ACT_SEEK_DIR: EV_DIR_SEEN follows, at once if no helper starts. */
void samedir_seek(struct samedir *samedir, uint64_t chief);
/* The run is over: does not look any longer. */
void samedir_stop(struct samedir *samedir);
void samedir_free(struct samedir *samedir);
