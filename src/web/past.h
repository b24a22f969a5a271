/* SPDX-License-Identifier: Apache-2.0
 *
 * past: what the files of the job say, as a text that a function of ctl prints. A helper process
 * reads them, since their disk may hang, and a ledger of months takes a while.
 * Owns its memory and its helper: past_free(). Main thread.
 */
#pragma once

#include "ctl/ctl.h"
#include "loop/inquiry.h"

#include <limits.h>

struct past {
    struct event_base *base; /* set before past_open(), as the next five */
    struct reap *reap;       /* after reap_begin(); call reap_all() once a second */
    /* prints the text, with a newline at its end */
    bool (*print)(const struct ctl_options *options, struct err *err);
    int node; /* whose files are meant; -1: those of the lowest node */
    void (*on_over)(void *ctx);
    void *ctx;
    char *text; /* with its newline; NULL: there is none */
    size_t len;
    char why[400]; /* there is none */
    int64_t at;    /* when it was read, CLOCK_MONOTONIC; 0: never */
    int64_t begun; /* when reading it began */
    /* private from here on */
    struct inquiry inquiry;
    struct ctl_options options;
    char dir[PATH_MAX];
};

void past_open(struct past *past);
void past_free(struct past *past);
/* Begins to read the ledger in this state directory, or checkpoint directory. False: a ledger is
 * being read, so nothing is begun. Else on_over() follows, also within this call. */
bool past_read(struct past *past, const char *dir);
