/* SPDX-License-Identifier: Apache-2.0
 *
 * kubernetes: an annotation of the pod, in a file of a downward API volume. This is for clusters
 * that announce the end before the SIGTERM. The value is read like a file's content (file.c). A
 * missing or empty value, or a word that means no, is not a notice.
 */
#include "base/str.h"
#include "watch/answers/body.h"
#include "watch/folder.h"
#include "watch/watch.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define PATH_USUAL       "/etc/podinfo/annotations"
#define ANNOTATION_USUAL "pchrun/notice"

static struct kubernetes {
    struct folder folder;
    const char *annotation;
    struct trouble trouble;
} kubernetes;

/* `wanted`: only this value counts. NULL: any value but "" and words that mean no. */
static bool is_notice(const char *value, const char *wanted)
{
    static const char *const no[] = {"", "false", "no", "none", "null", "0"};
    if (wanted)
        return str_is(value, wanted);
    for (size_t i = 0; i < ARRAY_LEN(no); i++)
        if (strcasecmp(value, no[i]) == 0)
            return false;
    return true;
}

static bool kubernetes_read_value(const char *value, struct events *events, struct err *err)
{
    const struct folder *folder = &kubernetes.folder;
    char what[512];
    if (!is_notice(value, watch.options.value))
        return true;
    if (!body_notice(value, strlen(value), clock_min(folder->changed_ns, clock_real_ns()), events,
                     err))
        return false;
    struct event *event = events->list;
    if (events->count == 0 || event->id[0])
        return true;
    snprintf(what, sizeof what, "%s %.300s", kubernetes.annotation, value);
    event_id(event->id, "annotation", what);
    str_copy(event->key, sizeof event->key, event->id);
    return true;
}

static bool kubernetes_read_file(struct folder *folder, struct events *events, struct err *err)
{
    struct buf value;
    buf_init(&value, FOLDER_FILE_MAX + 1);
    bool ok = body_annotation(folder->data, folder->len, kubernetes.annotation, &value, err);
    if (ok && buf_len(&value) > 0)
        ok = kubernetes_read_value((const char *)buf_bytes(&value), events, err);
    buf_free(&value);
    return ok;
}

/* While the volume is replaced or missing, keep the last state. */
static void kubernetes_changed(struct folder *folder)
{
    struct events events = {0};
    struct err err;
    enum folder_found found = folder_read(folder, &err);
    if (found == FOLDER_NOTHING)
        err_set(&err, ERR_NOT_FOUND, 0, "it is not there");
    if (found != FOLDER_FILE || !kubernetes_read_file(folder, &events, &err)) {
        watch_failed(&kubernetes.trouble, folder->path, &err);
        return;
    }
    watch_works(&kubernetes.trouble, folder->path);
    watch_tell(0, &events);
}

static bool kubernetes_start(struct err *err)
{
    struct folder *folder = &kubernetes.folder;
    const char *annotation = watch.options.annotation;
    folder->path = watch.options.path ? watch.options.path : PATH_USUAL;
    folder->changed = kubernetes_changed;
    folder->is_all = true;
    kubernetes.annotation = annotation ? annotation : ANNOTATION_USUAL;
    if (!folder_watch(folder, err))
        return err_set(err, ERR_NOT_FOUND, 0,
                       "there is no %.200s; give the pod a volume of the downward API with its "
                       "annotations (fieldPath: metadata.annotations), and its path here",
                       folder->path);
    kubernetes_changed(folder);
    return true;
}

const struct source source_kubernetes = {
    .word = {"kubernetes", "an annotation of the pod, in a file of the downward API", "[PATH]",
             " annotation value "},
    .interval_ns = NS_PER_S,
    .lead_ns = 3600 * NS_PER_S,
    .topics = 1,
    .start = kubernetes_start,
};
