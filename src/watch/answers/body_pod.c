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
static void read_version(const struct json *root, char version[POD_VERSION_MAX], struct events *ret)
{
    const char *text = bodytext_at(root, "metadata.resourceVersion", ret);
    if (!str_is_of(text, STR_LETTERS STR_DIGITS) || !str_copy(version, POD_VERSION_MAX, text))
        version[0] = '\0';
}

/* ---- the pod ---- */

/* A status of a wrong type counts as true, unless it is false. */
static bool is_true(const struct json *condition, struct events *ret)
{
    const struct json *status = json_find(condition, "status");
    const char *text = bodytext_at(condition, "status", ret);
    bool value = true;
    if (json_text(status) || !bodytext_is_set(status))
        return str_is(text, "True");
    return !json_bool(status, &value) || value;
}

/* The condition that announces the end; NULL: none. */
static const struct json *find_disruption(const struct json *root, struct events *ret)
{
    const struct json *item = bodytext_items(root, "status.conditions", ret);
    for (; item; item = json_next(item))
        if (str_is(bodytext_at(item, "type", ret), "DisruptionTarget") && is_true(item, ret))
            return item;
    return NULL;
}

/* The announcement and the deletion of a pod are one event: the deletion adds the time. */
static void add_end(const struct json *root, struct events *ret)
{
    const struct json *why = find_disruption(root, ret);
    const struct json *at = json_at(root, "metadata.deletionTimestamp");
    bool is_deleted = bodytext_is_set(at) && !(json_text(at) && str_is(json_text(at), ""));
    if (!why && !is_deleted)
        return;
    struct event *event = events_add(ret, NOTICE_TERMINATE, "pod");
    event_id(event->id, "pod", bodytext_at(root, "metadata.uid", ret));
    if (why)
        snprintf(event->text, sizeof event->text, "%.40s: %.50s", bodytext_at(why, "reason", ret),
                 bodytext_at(why, "message", ret));
    else
        str_copy(event->text, sizeof event->text, "the pod is being deleted");
    bodytext_set_time(ret, event, "deletionTimestamp", is_deleted ? at : NULL);
}

bool body_pod(const char *data, size_t len, struct pod *pod, struct events *ret, struct err *err)
{
    struct json *root = read_kind(data, len, "Pod", err);
    if (!root)
        return false;
    json_free(pod->root);
    pod->root = root;
    if (!str_copy(pod->node, sizeof pod->node, bodytext_at(root, "spec.nodeName", ret)))
        pod->node[0] = '\0';
    read_version(root, pod->version, ret);
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

/* False for a toleration with a member of a wrong type: what it tolerates is unknown. */
static bool toleration_is_clear(const struct json *toleration, struct events *ret)
{
    static const char *const names[] = {"key", "effect", "operator", "value"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const struct json *value = json_find(toleration, names[i]);
        if (!bodytext_is_set(value) || json_text(value))
            continue;
        bodytext_unwanted(ret, "a member of spec.tolerations", value, "a string");
        return false;
    }
    return true;
}

/* A toleration without effect or key matches any. */
static bool tolerates(const struct json *toleration, const struct taint *taint)
{
    const char *key = json_text_at(toleration, "key"), *effect = json_text_at(toleration, "effect");
    return (!*effect || str_is(effect, taint->effect)) && (!*key || str_is(key, taint->key)) &&
           (json_is_at(toleration, "operator", "Exists") ||
            json_is_at(toleration, "value", taint->value));
}

/* How long the pod stays on a node with this taint: the minimum of the matching tolerations; 0 if
 * none matches or the time has a wrong type. False: it stays for ever. */
static bool taint_is_ending(const struct pod *pod, const struct taint *taint, int64_t *ret_s,
                            struct events *ret)
{
    bool is_tolerated = false, has_end = false;
    const struct json *item = bodytext_items(pod->root, "spec.tolerations", ret);
    *ret_s = 0;
    for (; item; item = json_next(item)) {
        const struct json *time = json_find(item, "tolerationSeconds");
        int64_t seconds = 0;
        if (!toleration_is_clear(item, ret) || !tolerates(item, taint))
            continue;
        is_tolerated = true;
        if (!bodytext_is_set(time))
            continue;
        if (!json_int(time, &seconds))
            bodytext_unwanted(ret, "tolerationSeconds", time, "a whole number");
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
    int64_t seconds = 0;
    bool is_own = str_is(taint->effect, "NoExecute") && taint_is_ending(pod, taint, &seconds, ret);
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
    const char *uid = bodytext_at(root, "metadata.uid", ret);
    snprintf(what, sizeof what, "%.320s:%.60s", *taint->since ? taint->since : uid, taint->effect);
    event_id(event->id, name, what);
    event->is_mild = event->type != NOTICE_TERMINATE;
    snprintf(event->text, sizeof event->text, "the node has the taint %.50s", taint->key);
    bool has_end = is_own && seconds > 0 && seconds <= TOLERATED_MAX_S;
    if (has_end)
        events_set_time(ret, event, "timeAdded", taint->since);
    if (event->at_ns != EVENT_AT_UNKNOWN)
        event->at_ns = event->at_ns > INT64_MAX - seconds * NS_PER_S
                           ? INT64_MAX
                           : event->at_ns + seconds * NS_PER_S;
}

/* An effect of a wrong JSON type may stand for the effect that ends the pod. */
static const char *effect_of(const struct json *item, struct events *ret)
{
    const struct json *value = json_find(item, "effect");
    const char *text = bodytext_at(item, "effect", ret);
    return bodytext_is_set(value) && !json_text(value) ? "NoExecute" : text;
}

bool body_node(const char *data, size_t len, struct pod *pod, struct events *ret, struct err *err)
{
    JSON_CLEANUP struct json *root = read_kind(data, len, "Node", err);
    if (!root)
        return false;
    read_version(root, pod->node_version, ret);
    const struct json *item = bodytext_items(root, "spec.taints", ret);
    for (; item; item = json_next(item)) {
        struct taint taint = {bodytext_at(item, "key", ret), bodytext_at(item, "value", ret),
                              effect_of(item, ret), bodytext_at(item, "timeAdded", ret)};
        if (*taint.key) {
            add_taint(root, pod, &taint, ret);
        } else {
            events_remark(ret, "a taint without a readable key does not count");
            ret->is_partial = true;
        }
    }
    return true;
}
