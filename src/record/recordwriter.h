/* SPDX-License-Identifier: Apache-2.0
 *
 * recordwriter: the part of the record (record.h) that runs in the writers of its files, which are
 * processes of their own (os/statefile.h). They check that no later attempt has taken over, and
 * restore files that a person has removed. Owns nothing.
 */
#pragma once

#include "record/recordstate.h"

/* The composed text. NULL: it is too long or not UTF-8. The caller calls writer_free(). */
const char *recordwriter_text(const struct statefile *file, struct writer *w, size_t *ret_len,
                              struct err *err);

/* pack() and unpack() of the standby writers; ctx: the struct record. */
size_t recordwriter_pack(void *ctx, void *room, size_t size);
void recordwriter_unpack(void *ctx, const void *data, size_t len);

/* In a writer, with ctx as above: the checks before commit.json and a ranks file are replaced. */
MUST_CHECK bool recordwriter_check_commits(void *ctx, struct err *err);
MUST_CHECK bool recordwriter_check_ranks(void *ctx, struct err *err);
/* A statefile_look(), after a commit, on all nodes but node 0. */
MUST_CHECK bool recordwriter_look_for_ranks(void *ctx, struct err *err);
