/* SPDX-License-Identifier: Apache-2.0
 *
 * pod: polls the API server of Kubernetes for this pod and its node, with the pod's service
 * account. Without permission to read the node, only the pod is polled; the log says so once, and
 * the node is tried again from time to time. Each request reads the account's token anew, because
 * the kubelet replaces it.
 */
#include "base/fd.h"
#include "base/str.h"
#include "watch/answers/body.h"
#include "watch/watchrun.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ACCOUNT_USUAL "/var/run/secrets/kubernetes.io/serviceaccount"
#define TOKEN_MAX     8192
#define BODY_MAX      (4 * 1024 * 1024) /* a node's answer lists all its images */
#define SLOWLY        12                /* retry a forbidden node in every 12th poll */

enum { TOPIC_POD, TOPIC_NODE, TOPICS };

static struct pod_source {
    struct watch_timer timer;
    const char *account;
    char ca_file[512];
    char namespace[POD_NAME_MAX], name[POD_NAME_MAX];
    struct pod pod;
    int64_t began_ns;
    unsigned polls;
    bool is_node_closed; /* no permission to read the node */
    struct trouble troubles[TOPICS];
} self;

/* True for a Kubernetes name that is safe in a URL. */
static bool pod_is_name(const char *text)
{
    return str_is_of(text, STR_LOWER STR_DIGITS "-.");
}

/* Reads a small file of the account, without surrounding space. */
static bool pod_read_file(const char *file, char *text, size_t size, struct err *err)
{
    char path[512];
    snprintf(path, sizeof path, "%.400s/%s", self.account, file);
    if (fd_read_text(path, text, size) < 0)
        return err_set(err, ERR_SYSTEM, errno, "cannot read %s", path);
    text[strcspn(text, " \r\n")] = '\0';
    return text[0] || err_set(err, ERR_PROTOCOL, 0, "%s is empty", path);
}

/* With a resourceVersion, any API server may answer from its cache, but not with an older version.
 * At first and after a failure there is no resourceVersion; then the answer is the newest state. A
 * server whose cache lags behind refuses a version (504). */
static void pod_ask(const char *path, char version[POD_VERSION_MAX], http_fn *fn)
{
    static char token[TOKEN_MAX], header[TOKEN_MAX + 32];
    char url[1024];
    struct err err;
    if (!pod_read_file("token", token, sizeof token, &err)) {
        watch_failed(&self.troubles[TOPIC_POD], "the service account", &err);
        watch_after(&self.timer, watch.options.interval_ns);
        return;
    }
    snprintf(header, sizeof header, "Authorization: Bearer %s", token);
    snprintf(url, sizeof url, "%s/api/v1/%s%s%s", watch.server, path,
             *version ? "?resourceVersion=" : "", version);
    version[0] = '\0';
    http_start(&(struct http_request){.url = url,
                                      .headers = {header, "Accept: application/json"},
                                      .ca_file = self.ca_file,
                                      .body_max = BODY_MAX,
                                      .timeout_ns = watch.options.timeout_ns,
                                      .fn = fn});
}

static void pod_end_poll(void)
{
    self.polls++;
    watch_poll_again(&self.timer, self.began_ns);
}

static bool pod_is_ok(const struct http_answer *answer, struct err *err)
{
    if (answer->status != 403)
        return http_is_ok(answer, err);
    return err_set(err, ERR_PROTOCOL, 0,
                   "HTTP 403: the pod's service account has no permission to read it (RBAC); see "
                   "contrib/kubernetes/README.md");
}

static void on_node(void *ctx, const struct http_answer *answer)
{
    struct trouble *trouble = &self.troubles[TOPIC_NODE];
    struct events events = {0};
    struct err err;
    bool is_closed = answer->status == 403, was_closed = self.is_node_closed;
    self.is_node_closed = is_closed;
    bool ok =
        pod_is_ok(answer, &err) && body_node(answer->body, answer->len, &self.pod, &events, &err);
    if (ok) {
        watch_tell(TOPIC_NODE, &events);
        watch_works(trouble, "the node");
    } else if (!was_closed || !is_closed) {
        watch_failed(trouble, "the node", &err);
    }
    if (is_closed)
        watch_answered(TOPIC_NODE);
    pod_end_poll();
}

static void ask_node(void)
{
    char path[POD_NAME_MAX + 8];
    bool is_due = !self.is_node_closed || self.polls % SLOWLY == 0;
    if (!is_due || !pod_is_name(self.pod.node)) {
        pod_end_poll();
        return;
    }
    snprintf(path, sizeof path, "nodes/%s", self.pod.node);
    pod_ask(path, self.pod.node_version, on_node);
}

static void on_pod(void *ctx, const struct http_answer *answer)
{
    struct trouble *trouble = &self.troubles[TOPIC_POD];
    struct events events = {0};
    struct err err;
    bool ok =
        pod_is_ok(answer, &err) && body_pod(answer->body, answer->len, &self.pod, &events, &err);
    if (answer->status == 404)
        err_set(&err, ERR_PROTOCOL, 0,
                "HTTP 404: there is no pod %.80s in the namespace %.60s; set POD_NAME from "
                "metadata.name (downward API)",
                self.name, self.namespace);
    if (!ok) {
        watch_failed(trouble, "the pod", &err);
        pod_end_poll();
        return;
    }
    watch_works(trouble, "the pod");
    watch_tell(TOPIC_POD, &events);
    ask_node();
}

static void pod_poll_once(void *ctx)
{
    char path[2 * POD_NAME_MAX + 32];
    self.began_ns = clock_now_ns();
    snprintf(path, sizeof path, "namespaces/%s/pods/%s", self.namespace, self.name);
    pod_ask(path, self.pod.version, on_pod);
}

/* ---- the start ---- */

static bool find_server(struct err *err)
{
    const char *host = getenv("KUBERNETES_SERVICE_HOST");
    const char *port = getenv("KUBERNETES_SERVICE_PORT");
    int64_t number;
    if (!host || !*host)
        return err_set(err, ERR_NOT_FOUND, 0,
                       "this is not a pod: KUBERNETES_SERVICE_HOST is not set");
    bool is_v6 = strchr(host, ':') != NULL;
    if (strpbrk(host, "/?#@\\ \t\r\n[]") || strlen(host) > 255 ||
        !str_to_i64(port && *port ? port : "443", 1, 65535, &number))
        return err_set(err, ERR_USAGE, 0,
                       "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not an address: "
                       "%.80s and %.20s",
                       host, port ? port : "none");
    snprintf(watch.server, sizeof watch.server, "https://%s%s%s:%d", is_v6 ? "[" : "", host,
             is_v6 ? "]" : "", (int)number);
    return true;
}

/* The host name is the pod's name by default, but not in pods of an indexed Job. */
static bool find_name(struct err *err)
{
    const char *variable = getenv("POD_NAME"), *given = watch.options.name;
    if (given || (variable && *variable))
        str_copy(self.name, sizeof self.name, given ? given : variable);
    else if (gethostname(self.name, sizeof self.name - 1) != 0)
        self.name[0] = '\0';
    return pod_is_name(self.name) ||
           err_set(err, ERR_USAGE, 0,
                   "the name of this pod is not known: set POD_NAME from metadata.name (downward "
                   "API), or give --name");
}

static bool pod_start(struct err *err)
{
    const char *account = watch.options.path ? watch.options.path : ACCOUNT_USUAL;
    self = (struct pod_source){.timer = {.fn = pod_poll_once}, .account = account};
    snprintf(self.ca_file, sizeof self.ca_file, "%.400s/ca.crt", account);
    if (!find_server(err) || !find_name(err))
        return false;
    if (!pod_read_file("namespace", self.namespace, sizeof self.namespace, err))
        return err_wrap(err, "the pod has no service account (automountServiceAccountToken)");
    if (!pod_is_name(self.namespace))
        return err_set(err, ERR_USAGE, 0,
                       "the namespace of the service account is not a valid name");
    if (!http_open(err))
        return false;
    pod_poll_once(NULL);
    return true;
}

const struct source source_pod = {
    .word = {"pod", "Kubernetes: the end of the pod and taints of its node, by the API server",
             "[PATH]", " name timeout "},
    .interval_ns = 5 * NS_PER_S,
    .topics = TOPICS,
    .start = pod_start,
};
