/* SPDX-License-Identifier: Apache-2.0
 *
 * healthline: the answer of a health check: its exit status, and the line that it has printed.
 * Pure.
 *
 *   exit code 0    the node is healthy
 *   exit code 1    it is not, and the last line is {"healthy": false, "component": "gpu3",
 *                  "text": "Xid 79"}; other members are ignored
 *   anything else  unknown: a check that is broken says nothing about the node
 */
#pragma once

#include <stddef.h>

/* The greater one of two counts. HEALTH_SKIPPED: there is nothing to check on this machine. */
enum health_verdict { HEALTH_SKIPPED, HEALTH_GOOD, HEALTH_UNKNOWN, HEALTH_BAD };

struct health_answer {
    enum health_verdict verdict;
    char component[64]; /* with HEALTH_BAD: "gpu3"; "": not named */
    char text[256];     /* what is wrong; with HEALTH_UNKNOWN: with the check; with HEALTH_SKIPPED:
                           why; with HEALTH_GOOD: what else people should know, or "" */
};

/* `status`: as of wait(2); -1: unknown. `how`: how the program ended, for people. `text`: what it
 * has printed. Texts are cut to their room, and are printable. */
void healthline_read(int status, const char *how, const void *text, size_t len,
                     struct health_answer *ret);
/* "gpu3: Xid 79", or the text alone. Returns `text`. */
char *healthline_describe(const struct health_answer *answer, char *text, size_t size);
