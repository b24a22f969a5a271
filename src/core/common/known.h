/* SPDX-License-Identifier: Apache-2.0
 *
 * known: the failures that are known by what the program says, in one table.
 *
 * The text of a failure comes from the program (pch_error, its error file), or is the end of its
 * standard error. It is untrusted: at worst a job that lies about its failure is not restarted in
 * place. Pure.
 */
#pragma once

#include "wire/peermsg.h"

#include <stdbool.h>
#include <stddef.h>

/* `what` names a failure that comes back at each start, such as the import of a missing module; "":
 * the failure is not known as one. Call this only for a failure before the first step.
 * `has_attached`: a process had attached before the failure. */
void known_repeats(const struct peer_cause *cause, bool has_attached, char *what, size_t size);
