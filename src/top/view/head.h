/* SPDX-License-Identifier: Apache-2.0
 *
 * head: the lines above the tables: the state of the job in a sentence, its notice, what it waits
 * for, and the first cause of a failure. The most important lines come first. Pure; any thread.
 */
#pragma once

#include "ctl/waits.h"
#include "ctl/words.h"
#include "top/view/prose.h"
#include "top/view/rows.h"

/* Taken once from each answer, since jobs have thousands of ranks. */
struct gist {
    struct tally tally;
    struct waits waits;
    char ranks[WORDS_MAX]; /* how many ranks do what; "": there is no rank */
};
void gist_take(const struct json *answer, struct gist *ret);

/* Fills a prose whose `most` and `cols` are set. */
void head_build(struct prose *head, const struct picture *picture, const struct gist *gist);
