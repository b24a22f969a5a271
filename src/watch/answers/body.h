/* SPDX-License-Identifier: Apache-2.0
 *
 * body: parses the answers of metadata services and of Kubernetes; pure functions, fuzzed. The
 * bytes are untrusted and need not end with a NUL.
 *
 * *ret is empty at first. True: the answer is valid, and *ret has its events, perhaps none. False:
 * the answer is unusable, *err says why, and earlier events stay valid. Keys and ids do not name
 * the machine (events_bind()). Any thread.
 */
#pragma once

#include "watch/answers/event.h"

#include "base/buf.h"
#include "json/json.h"

#include <stddef.h>

typedef MUST_CHECK bool body_fn(const char *data, size_t len, struct events *ret, struct err *err);

/* Google Compute Engine: instance/maintenance-event, /preempted, /upcoming-maintenance, and
 * /shutdown-details/stop-state, whose event has no time. */
body_fn body_gce_maintenance, body_gce_preempted, body_gce_upcoming, body_gce_stop;
/* When the stop ends: `since` is request-timestamp, `duration` is max-duration, both as words. */
MUST_CHECK bool body_gce_stop_end(const char *since, const char *duration, int64_t *ret,
                                  struct err *err);
/* True for the server's error (status 503) that means: no maintenance is known. */
bool body_gce_says_none(const char *data, size_t len);

/* Amazon EC2, below latest/meta-data: spot/instance-action, spot/termination-time (both announce
 * the same event, with the same key), events/recommendations/rebalance,
 * events/maintenance/scheduled, autoscaling/target-lifecycle-state. */
body_fn body_aws_action, body_aws_termination, body_aws_rebalance, body_aws_scheduled,
    body_aws_lifecycle;

/* Below latest/meta-data, too: instance/spot/termination-time of Alibaba Cloud, in UTC, and
 * spot/termination-time of Tencent Cloud, in UTC+8 without saying so. */
body_fn body_alibaba_termination, body_tencent_termination;

/* Azure's document of scheduled events. Skips events of other machines: `name` is this machine's in
 * the document; "": unknown, so that none is skipped. */
MUST_CHECK bool body_azure(const char *data, size_t len, const char *name, struct events *ret,
                           struct err *err);

/* The content of a file or an annotation: a notice as in pchrun-protocol(7), in which "deadline"
 * may be a date. Other text is a notice to terminate, with the first line as its text. `since_ns`:
 * when it was written; "deadline_seconds" counts from then. */
MUST_CHECK bool body_notice(const char *data, size_t len, int64_t since_ns, struct events *ret,
                            struct err *err);
/* The value of an annotation in a file of the downward API (KEY="VALUE" on each line, quoted as Go
 * does), into `value`, with a NUL; nothing if the key is missing. */
MUST_CHECK bool body_annotation(const char *data, size_t len, const char *key, struct buf *value,
                                struct err *err);

#define POD_NAME_MAX    254 /* of a pod or a node, with the NUL */
#define POD_VERSION_MAX 64

/* The last valid answer about the pod (to be freed with json_free()), and the resourceVersions of
 * the last answers; "": none that is safe in a URL. Zeroed at first. */
struct pod {
    struct json *root;
    char node[POD_NAME_MAX]; /* "": not scheduled yet */
    char version[POD_VERSION_MAX], node_version[POD_VERSION_MAX];
};

/* GET /api/v1/namespaces/NAMESPACE/pods/NAME: an announced end (DisruptionTarget), or an end that
 * has begun. Fills in *pod if the answer is valid. */
MUST_CHECK bool body_pod(const char *data, size_t len, struct pod *pod, struct events *ret,
                         struct err *err);
/* GET /api/v1/nodes/NAME: the taints that end this pod, or the node. */
MUST_CHECK bool body_node(const char *data, size_t len, struct pod *pod, struct events *ret,
                          struct err *err);

/* ---- bodytext.c: shared by the readers: one-word answers, and names with several spellings ----
 */

/* The answer without surrounding space and quotes. False: too long, or not printable. */
MUST_CHECK bool bodytext_word(const char *data, size_t len, char *word, size_t size);
/* The answer as JSON of that kind (an object or a list). NULL: it is something else, see *err. Free
 * with json_free(). */
MUST_CHECK struct json *bodytext_json(const char *data, size_t len, enum json_kind kind,
                                      struct err *err);
/* A member of an object; "window_start_time", "windowStartTime", "window-start-time" and "Window
 * start time" are the same. NULL: missing. */
const struct json *bodytext_find(const struct json *object, const char *name);

/* A value of a wrong type gets a remark in *ret, if that is not NULL. Null counts as missing,
 * except in a list and for a time. A missing text is "". */

/* The text of a value that the remark calls `name`. */
const char *bodytext_text(const struct json *value, const char *name, struct events *ret);
/* The text of a member, found as by bodytext_find(). */
const char *bodytext_of(const struct json *object, const char *name, struct events *ret);
/* The text at a path, as of json_at(). */
const char *bodytext_at(const struct json *object, const char *path, struct events *ret);
/* The first item of the list at a path; NULL: there is none. Another type: *ret is partial. */
const struct json *bodytext_items(const struct json *object, const char *path, struct events *ret);
/* Sets an event's deadline to a value that the source has under `name`; NULL: unknown. */
void bodytext_set_time(struct events *ret, struct event *event, const char *name,
                       const struct json *value);
/* True if the value is there and not null. */
bool bodytext_is_set(const struct json *value);
/* Remarks that a value has a wrong type: "NAME is a number, not WANTED". */
void bodytext_unwanted(struct events *ret, const char *name, const struct json *value,
                       const char *wanted);
