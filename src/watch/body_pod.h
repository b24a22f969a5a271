/* SPDX-License-Identifier: Apache-2.0
 *
 * body_pod: what Kubernetes says of a pod and of its node, as pure functions over text, as in
 * body.h; fuzzed. Any thread.
 */
#ifndef PCHRUN_WATCH_BODY_POD_H
#define PCHRUN_WATCH_BODY_POD_H

#include "watch/event.h"

#include <stddef.h>

#define POD_NAME_MAX        254 /* of a pod or a node, with the NUL */
#define POD_TOLERATIONS_MAX 32

/* What the pod puts up with, and for how long. */
struct pod_toleration {
    char key[320]; /* "": any */
    char effect[24], value[80];
    bool is_any_value;
    bool has_end;
    int64_t seconds;
};
struct pod {
    char node[POD_NAME_MAX]; /* "": on none yet */
    struct pod_toleration tolerations[POD_TOLERATIONS_MAX];
    unsigned count;
};

/* GET /api/v1/namespaces/NAMESPACE/pods/NAME: an end that is announced (DisruptionTarget), and one
 * that has begun. *pod is filled in where the answer is valid. */
MUST_CHECK bool body_pod(const char *data, size_t len, struct pod *pod, struct events *ret,
                         struct err *err);
/* GET /api/v1/nodes/NAME: the taints that end this pod, or the node. */
MUST_CHECK bool body_node(const char *data, size_t len, const struct pod *pod, struct events *ret,
                          struct err *err);

#endif
