/* SPDX-License-Identifier: Apache-2.0
 *
 * recordfile: the writes of one of the record's two files, and their deadlines. A write that is
 * late counts as failed, so a dead file system never holds pchrun. Owns the file:
 * recordfile_free(). Main thread.
 */
#pragma once

#include "record/recordstate.h"

#define RECORDFILE_WAIT_NS (10 * NS_PER_S) /* for one write */

/* Call after statefile_init(), and before the first write. */
void recordfile_open(struct record_file *file, struct event_base *base);
void recordfile_free(struct record_file *file);

/* Starts to write the composed text, and frees the writer. False: it failed at once. */
MUST_CHECK bool recordfile_write(struct record_file *file, struct writer *w, uint64_t tag,
                                 struct err *err);
/* The write or look that has just begun is late after RECORDFILE_WAIT_NS. */
void recordfile_set_deadline(struct record_file *file);
/* Call when the write of `tag` has ended. False: this write had already timed out. */
bool recordfile_take_end(struct record_file *file, uint64_t tag);
/* The run is over: each write is late at `until` at the latest. */
void recordfile_hasten(struct record_file *file, int64_t until);
