/* SPDX-License-Identifier: Apache-2.0
 *
 * body: what the answers of metadata services say, as pure functions over text; fuzzed. The bytes
 * come from outside and need not end with a NUL.
 *
 * True: the answer is valid, and *ret holds the events that it tells of; none of them: nothing is
 * going to happen. False: it says nothing that can be relied on, *err why; what was known before
 * stands. Keys and ids do not name the machine (events_bind()). Any thread.
 */
#ifndef PCHRUN_WATCH_BODY_H
#define PCHRUN_WATCH_BODY_H

#include "watch/event.h"

#include "base/buf.h"

#include <stddef.h>

typedef bool body_fn(const char *data, size_t len, struct events *ret, struct err *err);

/* Google Compute Engine: instance/maintenance-event, /preempted, /upcoming-maintenance. */
MUST_CHECK bool body_gce_maintenance(const char *data, size_t len, struct events *ret,
                                     struct err *err);
MUST_CHECK bool body_gce_preempted(const char *data, size_t len, struct events *ret,
                                   struct err *err);
MUST_CHECK bool body_gce_upcoming(const char *data, size_t len, struct events *ret,
                                  struct err *err);
/* instance/shutdown-details/stop-state; the event does not say when. */
MUST_CHECK bool body_gce_stop(const char *data, size_t len, struct events *ret, struct err *err);
/* When that ends: `since` is request-timestamp, `duration` is max-duration, both as words. */
MUST_CHECK bool body_gce_stop_end(const char *since, const char *duration, int64_t *ret,
                                  struct err *err);
/* Is the answer the error by which the server says that it knows of no maintenance? It comes with
 * the status 503. */
bool body_gce_says_none(const char *data, size_t len);

/* Amazon EC2, below latest/meta-data: spot/instance-action, spot/termination-time (which both tell
 * of one event, with one key), events/recommendations/rebalance, events/maintenance/scheduled,
 * autoscaling/target-lifecycle-state. */
MUST_CHECK bool body_aws_action(const char *data, size_t len, struct events *ret, struct err *err);
MUST_CHECK bool body_aws_termination(const char *data, size_t len, struct events *ret,
                                     struct err *err);
MUST_CHECK bool body_aws_rebalance(const char *data, size_t len, struct events *ret,
                                   struct err *err);
MUST_CHECK bool body_aws_scheduled(const char *data, size_t len, struct events *ret,
                                   struct err *err);
MUST_CHECK bool body_aws_lifecycle(const char *data, size_t len, struct events *ret,
                                   struct err *err);

/* Below latest/meta-data, too: instance/spot/termination-time of Alibaba Cloud, in UTC, and
 * spot/termination-time of Tencent Cloud, in UTC+8 without saying so. */
MUST_CHECK bool body_alibaba_termination(const char *data, size_t len, struct events *ret,
                                         struct err *err);
MUST_CHECK bool body_tencent_termination(const char *data, size_t len, struct events *ret,
                                         struct err *err);

/* Azure's document of scheduled events. Those of other machines are left out: `name` is our own, as
 * the document calls it; "": not known, all count. */
MUST_CHECK bool body_azure(const char *data, size_t len, const char *name, struct events *ret,
                           struct err *err);

/* What a file, or an annotation, says: a notice as pchrun-protocol(7) has it, where a "deadline"
 * may also be a date, or any other text, whose first line is the text of a notice to terminate.
 * `since_ns`: when it was written, from which its seconds count. */
MUST_CHECK bool body_notice(const char *data, size_t len, int64_t since_ns, struct events *ret,
                            struct err *err);
/* The value of an annotation in a file of the downward API (KEY="VALUE" on each line, quoted as Go
 * does), with a NUL at its end, into `value`; nothing if it is not among them. */
MUST_CHECK bool body_annotation(const char *data, size_t len, const char *key, struct buf *value,
                                struct err *err);

#endif
