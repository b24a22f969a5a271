/* SPDX-License-Identifier: Apache-2.0
 *
 * body_pod: parses what Kubernetes says of a pod and its node; pure functions as in body.h; fuzzed.
 * Any thread.
 */
#ifndef PCHRUN_WATCH_ANSWERS_BODY_POD_H
#define PCHRUN_WATCH_ANSWERS_BODY_POD_H

#include "watch/answers/event.h"
#include "json/json.h"

#include <stddef.h>

#define POD_NAME_MAX    254 /* of a pod or a node, with the NUL */
#define POD_VERSION_MAX 64

/* The last valid answer about the pod, and the resourceVersions of the last answers; "": none that
 * fits into a URL. Zeroed at first. */
struct pod {
    struct json *root;
    char node[POD_NAME_MAX]; /* "": not scheduled yet */
    char version[POD_VERSION_MAX], node_version[POD_VERSION_MAX];
};

/* GET /api/v1/namespaces/NAMESPACE/pods/NAME: an announced end (DisruptionTarget), or one that has
 * begun. Fills in *pod if the answer is valid. */
MUST_CHECK bool body_pod(const char *data, size_t len, struct pod *pod, struct events *ret,
                         struct err *err);
/* GET /api/v1/nodes/NAME: the taints that end this pod, or the node. */
MUST_CHECK bool body_node(const char *data, size_t len, struct pod *pod, struct events *ret,
                          struct err *err);
void pod_free(struct pod *pod);

#endif
