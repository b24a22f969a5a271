/* SPDX-License-Identifier: Apache-2.0
 * See body.h: what Kubernetes says of a pod and its node.
 */
#include "base/clock.h"
#include "base/str.h"
#include "watch/answers/body.h"

#include <stdio.h>

#define TOLERATED_MAX_S (INT64_C(366) * 24 * 3600)

/* Parses a Kubernetes object of that kind; free with json_free(). NULL: see *err. */
static struct json *read_kind(const char *data, size_t len, const char *kind, struct err *err)
{
    struct json *root = bodytext_json(data, len, JSON_IS_OBJECT, err);
    if (!root || json_is_at(root, "kind", kind))
        return root;
    err_set(err, ERR_PROTOCOL, 0, "the answer is not a %s", kind);
    json_free(root);
    return NULL;
}

/* The resourceVersion, if it is safe in a URL; else "". */
static void read_version(const struct json *root, char version[POD_VERSION_MAX])
{
    const char *text = json_text_at(root, "metadata.resourceVersion");
    if (!str_is_of(text, STR_LETTERS STR_DIGITS) || !str_copy(version, POD_VERSION_MAX, text))
        version[0] = '\0';
}

/* ---- the pod ---- */

/* The condition that announces the end; NULL: none. */
static const struct json *find_disruption(const struct json *root)
{
    const struct json *item = json_items_at(root, "status.conditions");
    for (; item; item = json_next(item))
        if (json_is_at(item, "type", "DisruptionTarget") && json_is_at(item, "status", "True"))
            return item;
    return NULL;
}

/* Announcement and deletion are one event: the deletion adds the time. */
static void add_end(const struct json *root, struct events *ret)
{
    const struct json *why = find_disruption(root);
    const char *at = json_text_at(root, "metadata.deletionTimestamp");
    if (!why && !*at)
        return;
    struct event *event = events_add(ret, NOTICE_TERMINATE, "pod");
    event_id(event->id, "pod", json_text_at(root, "metadata.uid"));
    if (why)
        snprintf(event->text, sizeof event->text, "%.40s: %.50s", json_text_at(why, "reason"),
                 json_text_at(why, "message"));
    else
        str_copy(event->text, sizeof event->text, "the pod is being deleted");
    events_set_time(ret, event, "deletionTimestamp", at);
}

bool body_pod(const char *data, size_t len, struct pod *pod, struct events *ret, struct err *err)
{
    struct json *root = read_kind(data, len, "Pod", err);
    if (!root)
        return false;
    json_free(pod->root);
    pod->root = root;
    if (!str_copy(pod->node, sizeof pod->node, json_text_at(root, "spec.nodeName")))
        pod->node[0] = '\0';
    read_version(root, pod->version);
    add_end(root, ret);
    return true;
}

/* ---- the node ---- */

/* With these taints a node manager announces that the node ends or may end. Their effect does not
 * matter. */
static const struct {
    const char *key;
    enum notice_type type;
} known[] = {
    {"ToBeDeletedByClusterAutoscaler", NOTICE_TERMINATE},
    {"karpenter.sh/disrupted", NOTICE_TERMINATE},
    {"karpenter.sh/disruption", NOTICE_TERMINATE},
    {"cloud.google.com/impending-node-termination", NOTICE_TERMINATE},
    {"node.cloudprovider.kubernetes.io/shutdown", NOTICE_TERMINATE},
    {"node.kubernetes.io/out-of-service", NOTICE_TERMINATE},
    {"aws-node-termination-handler/spot-itn", NOTICE_TERMINATE},
    {"aws-node-termination-handler/asg-lifecycle-termination", NOTICE_TERMINATE},
    {"aws-node-termination-handler/scheduled-maintenance", NOTICE_TERMINATE},
    {"aws-node-termination-handler/rebalance-recommendation", NOTICE_CHECKPOINT},
    {"DeletionCandidateOfClusterAutoscaler", NOTICE_LOG},
    {"node.kubernetes.io/unschedulable", NOTICE_LOG},
};

/* NOTICE_CANCEL: not in the list. */
static enum notice_type meaning_of(const char *key)
{
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (str_is(known[i].key, key))
            return known[i].type;
    return NOTICE_CANCEL;
}

struct taint {
    const char *key, *value, *effect, *since;
};

/* A toleration without effect or key matches any. */
static bool tolerates(const struct json *toleration, const struct taint *taint)
{
    const char *key = json_text_at(toleration, "key"), *effect = json_text_at(toleration, "effect");
    return (!*effect || str_is(effect, taint->effect)) && (!*key || str_is(key, taint->key)) &&
           (json_is_at(toleration, "operator", "Exists") ||
            json_is_at(toleration, "value", taint->value));
}

/* How long the pod stays on a node with this taint: the minimum of the matching tolerations; 0 if
 * none matches. False: it stays for ever. */
static bool taint_is_ending(const struct pod *pod, const struct taint *taint, int64_t *ret_s)
{
    bool is_tolerated = false, has_end = false;
    const struct json *item = json_items_at(pod->root, "spec.tolerations");
    *ret_s = 0;
    for (; item; item = json_next(item)) {
        int64_t seconds;
        if (!tolerates(item, taint))
            continue;
        is_tolerated = true;
        if (!json_int(json_find(item, "tolerationSeconds"), &seconds))
            continue;
        seconds = seconds > 0 ? seconds : 0;
        *ret_s = has_end ? clock_min(*ret_s, seconds) : seconds;
        has_end = true;
    }
    return has_end || !is_tolerated;
}

/* True for taints that alone announce no end: by default pods tolerate them for minutes, and a
 * kubelet that restarts evicts no pod. An evicted pod gets a deletionTimestamp (add_end()). */
static bool is_of_health(const char *key)
{
    return str_is(key, "node.kubernetes.io/not-ready") ||
           str_is(key, "node.kubernetes.io/unreachable");
}

static void add_taint(const struct json *root, const struct pod *pod, const struct taint *taint,
                      struct events *ret)
{
    char key[EVENT_ID_MAX], name[320], what[400];
    enum notice_type type = meaning_of(taint->key);
    int64_t seconds = 0, since_ns;
    bool is_own = str_is(taint->effect, "NoExecute") && taint_is_ending(pod, taint, &seconds);
    bool is_passing = is_own && seconds > 0 && is_of_health(taint->key);
    if (is_passing || (!is_own && type == NOTICE_CANCEL))
        return;
    /* A node may have one key with several effects; each is a separate taint. */
    snprintf(what, sizeof what, "%.320s:%.60s", taint->key, taint->effect);
    struct event *event =
        events_add(ret, is_own ? NOTICE_TERMINATE : type, event_id(key, "taint", what));
    if (!event)
        return;
    str_copy(name, sizeof name, taint->key);
    for (char *c = name; *c; c++) /* an id must not contain '/' */
        if (*c == '/')
            *c = '.';
    const char *uid = json_text_at(root, "metadata.uid");
    snprintf(what, sizeof what, "%.320s:%.60s", *taint->since ? taint->since : uid, taint->effect);
    event_id(event->id, name, what);
    event->is_mild = event->type != NOTICE_TERMINATE;
    snprintf(event->text, sizeof event->text, "the node has the taint %.50s", taint->key);
    bool has_end = is_own && seconds > 0 && seconds <= TOLERATED_MAX_S;
    if (has_end && date_parse(taint->since, &since_ns))
        event->at_ns =
            since_ns > INT64_MAX - seconds * NS_PER_S ? INT64_MAX : since_ns + seconds * NS_PER_S;
}

bool body_node(const char *data, size_t len, struct pod *pod, struct events *ret, struct err *err)
{
    JSON_CLEANUP struct json *root = read_kind(data, len, "Node", err);
    if (!root)
        return false;
    read_version(root, pod->node_version);
    const struct json *item = json_items_at(root, "spec.taints");
    for (; item; item = json_next(item)) {
        struct taint taint = {json_text_at(item, "key"), json_text_at(item, "value"),
                              json_text_at(item, "effect"), json_text_at(item, "timeAdded")};
        if (*taint.key)
            add_taint(root, pod, &taint, ret);
        else
            ret->is_partial = true;
    }
    return true;
}
