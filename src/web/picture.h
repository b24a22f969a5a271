/* SPDX-License-Identifier: Apache-2.0
 *
 * picture: what the page gets of a supervisor's answer to CONTROL_STATUS, as two objects of JSON.
 * The layout has what seldom changes: the job, its nodes and ranks, the first cause. The state has
 * the rest, in columns: one short value for each rank, in the order of the layout. So a state with
 * 1,024 ranks has less than 20 kB. The page knows the letters. Pure; any thread.
 */
#pragma once

#include "json/writer.h"

enum { PICTURE_MAX = 4 * 1024 * 1024 }; /* bytes of each */

/* The text is one line without its newline; the caller frees it. NULL: no memory. */
char *picture_layout(const struct json *answer, size_t *ret_len);
char *picture_state(const struct json *answer, size_t *ret_len);
/* Ends an object that is the root, and takes its text in the same way. */
char *picture_done(struct writer *w, size_t *ret_len);
