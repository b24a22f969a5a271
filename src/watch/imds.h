/* SPDX-License-Identifier: Apache-2.0
 *
 * imds: polls the instance metadata service of clouds whose service works like Amazon's. Each poll
 * requests all paths at once, with a token from a PUT if the service gives one. A missing path
 * (404) means no event. A row describes what differs between clouds.
 *
 * One service in a process. Main thread.
 */
#ifndef PCHRUN_WATCH_IMDS_H
#define PCHRUN_WATCH_IMDS_H

#include "watch/answers/body.h"
#include "watch/watch.h"

#define IMDS_PATHS_MAX LEDGER_TOPICS_MAX

struct imds_path {
    const char *path; /* below latest/meta-data/ */
    body_fn *read;
    bool is_slow;       /* announced days ahead: not in every poll */
    bool needs_machine; /* the answer has no unique id (events_bind()) */
};
struct imds_cloud {
    struct endpoint_rule rule;
    const char *token;                     /* "the token (IMDSv2)"; NULL: the cloud has none */
    const char *without;                   /* what it is without one: " (IMDSv1)" */
    const char *token_header, *ttl_header; /* the header of a request, and that of the PUT */
    struct imds_path paths[IMDS_PATHS_MAX + 1];
};

/* The start of a source that has a cloud. */
MUST_CHECK bool imds_start(struct watch *watch, struct err *err);

#endif
