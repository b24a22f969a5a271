/* SPDX-License-Identifier: Apache-2.0
 * See body_pod.h.
 */
#include "watch/body_pod.h"

#include "base/clock.h"
#include "base/date.h"
#include "base/str.h"
#include "watch/bodytext.h"

#include <ctype.h>
#include <stdio.h>

#define TOLERATED_MAX_S (INT64_C(366) * 24 * 3600)

/* A member of an object; NULL: there is none, or it is no object. */
static const struct json *object_of(const struct json *parent, const char *name)
{
    const struct json *found = parent ? json_find(parent, name) : NULL;
    return found && json_kind(found) == JSON_IS_OBJECT ? found : NULL;
}

/* The first item of a list in an object, either of which may not be there. */
static const struct json *first_of(const struct json *object, const char *name)
{
    const struct json *list = object ? json_find(object, name) : NULL;
    return list && json_kind(list) == JSON_IS_LIST ? json_first(list) : NULL;
}

static const char *text_of(const struct json *object, const char *name)
{
    const char *text = object ? json_text(json_find(object, name)) : NULL;
    return text ? text : "";
}

/* An object of that kind, which goes with json_free(); NULL with *err. */
static struct json *read_kind(const char *data, size_t len, const char *kind, struct err *err)
{
    struct json *root = bodytext_json(data, len, JSON_IS_OBJECT, err);
    if (!root || str_is(text_of(root, "kind"), kind))
        return root;
    err_set(err, ERR_PROTOCOL, 0, "the answer is no %s", kind);
    json_free(root);
    return NULL;
}

/* ---- the pod ---- */

static void read_tolerations(const struct json *spec, struct pod *pod)
{
    const struct json *item = first_of(spec, "tolerations");
    for (; item && pod->count < POD_TOLERATIONS_MAX; item = json_next(item)) {
        struct pod_toleration *to = &pod->tolerations[pod->count];
        *to = (struct pod_toleration){.is_any_value = str_is(text_of(item, "operator"), "Exists")};
        bool fits = str_copy(to->key, sizeof to->key, text_of(item, "key")) &&
                    str_copy(to->effect, sizeof to->effect, text_of(item, "effect")) &&
                    str_copy(to->value, sizeof to->value, text_of(item, "value"));
        to->has_end = json_int(json_find(item, "tolerationSeconds"), &to->seconds);
        pod->count += fits;
    }
}

/* Its reason and message; NULL: nothing has announced the end. */
static const struct json *find_disruption(const struct json *root)
{
    const struct json *item = first_of(object_of(root, "status"), "conditions");
    for (; item; item = json_next(item))
        if (str_is(text_of(item, "type"), "DisruptionTarget") &&
            str_is(text_of(item, "status"), "True"))
            return item;
    return NULL;
}

/* Both are one event: an end is announced first, and then has its time. */
static void add_end(const struct json *root, struct events *ret)
{
    const struct json *meta = object_of(root, "metadata"), *why = find_disruption(root);
    const char *at = text_of(meta, "deletionTimestamp");
    if (!why && !*at)
        return;
    struct event *event = events_add(ret, NOTICE_TERMINATE, "pod");
    event_id(event->id, "pod", text_of(meta, "uid"));
    if (why)
        snprintf(event->text, sizeof event->text, "%.40s: %.50s", text_of(why, "reason"),
                 text_of(why, "message"));
    else
        str_copy(event->text, sizeof event->text, "the pod is being deleted");
    events_set_time(ret, event, "deletionTimestamp", at);
}

bool body_pod(const char *data, size_t len, struct pod *pod, struct events *ret, struct err *err)
{
    *ret = (struct events){0};
    struct json *root = read_kind(data, len, "Pod", err);
    if (!root)
        return false;
    const struct json *spec = object_of(root, "spec");
    *pod = (struct pod){.count = 0};
    if (!str_copy(pod->node, sizeof pod->node, text_of(spec, "nodeName")))
        pod->node[0] = '\0';
    read_tolerations(spec, pod);
    add_end(root, ret);
    json_free(root);
    return true;
}

/* ---- the node ---- */

/* Taints by which what manages the nodes says that this one goes, whatever their effect; and those
 * by which it may. */
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

/* NOTICE_CANCEL: it says nothing. */
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

static bool tolerates(const struct pod_toleration *to, const struct taint *taint)
{
    return (!to->effect[0] || str_is(to->effect, taint->effect)) &&
           (!to->key[0] || str_is(to->key, taint->key)) &&
           (to->is_any_value || str_is(to->value, taint->value));
}

/* For how long the pod stays on a node with this taint: the least that its tolerations say. False:
 * for ever. None of them fits: not at all. */
static bool is_ending(const struct pod *pod, const struct taint *taint, int64_t *ret_s)
{
    bool is_tolerated = false, has_end = false;
    *ret_s = 0;
    for (unsigned i = 0; i < pod->count; i++) {
        const struct pod_toleration *to = &pod->tolerations[i];
        if (!tolerates(to, taint))
            continue;
        is_tolerated = true;
        if (!to->has_end)
            continue;
        int64_t seconds = to->seconds > 0 ? to->seconds : 0;
        *ret_s = has_end ? clock_min(*ret_s, seconds) : seconds;
        has_end = true;
    }
    return has_end || !is_tolerated;
}

/* Every pod tolerates these for minutes by default, and a kubelet that restarts evicts none. A pod
 * that is evicted in the end has a deletionTimestamp. */
static bool is_of_health(const char *key)
{
    return str_is(key, "node.kubernetes.io/not-ready") ||
           str_is(key, "node.kubernetes.io/unreachable");
}

static void add_taint(const struct json *root, const struct pod *pod, const struct taint *taint,
                      struct events *ret)
{
    char key[EVENT_ID_MAX], name[320];
    enum notice_type type = meaning_of(taint->key);
    int64_t seconds = 0, since_ns;
    bool is_own = str_is(taint->effect, "NoExecute") && is_ending(pod, taint, &seconds);
    bool is_passing = is_own && seconds > 0 && is_of_health(taint->key);
    if (is_passing || (!is_own && type == NOTICE_CANCEL))
        return;
    struct event *event =
        events_add(ret, is_own ? NOTICE_TERMINATE : type, event_id(key, "taint", taint->key));
    if (!event)
        return;
    str_copy(name, sizeof name, taint->key);
    for (char *c = name; *c; c++) /* '/' is none of what an id is made of */
        if (*c == '/')
            *c = '.';
    const char *uid = text_of(object_of(root, "metadata"), "uid");
    event_id(event->id, name, *taint->since ? taint->since : uid);
    event->is_mild = event->type != NOTICE_TERMINATE;
    snprintf(event->text, sizeof event->text, "the node has the taint %.50s", taint->key);
    bool has_end = is_own && seconds > 0 && seconds <= TOLERATED_MAX_S;
    if (has_end && date_parse(taint->since, &since_ns))
        event->at_ns =
            since_ns > INT64_MAX - seconds * NS_PER_S ? INT64_MAX : since_ns + seconds * NS_PER_S;
}

bool body_node(const char *data, size_t len, const struct pod *pod, struct events *ret,
               struct err *err)
{
    *ret = (struct events){0};
    struct json *root = read_kind(data, len, "Node", err);
    if (!root)
        return false;
    const struct json *item = first_of(object_of(root, "spec"), "taints");
    for (; item; item = json_next(item)) {
        struct taint taint = {text_of(item, "key"), text_of(item, "value"), text_of(item, "effect"),
                              text_of(item, "timeAdded")};
        if (*taint.key)
            add_taint(root, pod, &taint, ret);
        else
            ret->is_partial = true;
    }
    json_free(root);
    return true;
}
