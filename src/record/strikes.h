/* SPDX-License-Identifier: Apache-2.0
 *
 * strikes: how often each host of the job was not healthy, over all attempts: in memory and as
 * JSON. It advises people and the exit hook; no decision of pchrun depends on it. So a damaged
 * strike is left out, and refuses no start. Pure; owns nothing.
 */
#pragma once

#include "json/json.h"
#include "json/writer.h"

#include <stddef.h>
#include <stdint.h>

enum { STRIKES_HOSTS = 32 };

struct strike {
    char host[64], text[256]; /* the text of the last one: "gpu3: Xid 79" */
    int64_t count;
    int64_t at; /* of the last one; real time, ns */
};

/* The host with the latest strike is the last. Zeroed: there is none. */
struct strikes {
    struct strike list[STRIKES_HOSTS];
    int n;
    bool has_new; /* since they were read, or written last */
};

/* One more of this host. A host beyond the room replaces the one whose last strike is the oldest. A
 * name that is none of a host does nothing. */
void strikes_add(struct strikes *strikes, const char *host, const char *text, int64_t at);
/* The member "strikes" of a record; none if it is missing. */
void strikes_read(struct strikes *strikes, const struct json *root);
/* Writes that member. */
void strikes_write(const struct strikes *strikes, struct writer *w);
/* "n7,n9": the hosts with a strike since `since`. "": there are none. Those that do not fit are
 * left out. Returns `text`. */
char *strikes_hosts(const struct strikes *strikes, int64_t since, char *text, size_t size);
