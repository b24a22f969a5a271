/* SPDX-License-Identifier: Apache-2.0
 *
 * status: the texts of the API about the contact with the supervisor. Pure; any thread.
 */
#pragma once

#include "web/asker.h"

/* {"picture_age_ms": …, "lost_ms": …, "lost_why": …}, one line. An unknown
 * number is null. The caller frees it. NULL: no memory. */
char *status_contact(const struct asker_picture *picture, const struct asker_contact *contact,
                     int64_t now, size_t *ret_len);
/* The same with "version", and as "status" the answer of the supervisor. */
char *status_text(const struct asker_picture *picture, const struct asker_contact *contact,
                  int64_t now, size_t *ret_len);
/* {"why": …}: of what there is not. The caller frees it. NULL: no memory. */
char *status_why(const char *why);
