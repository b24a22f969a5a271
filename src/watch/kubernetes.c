/* SPDX-License-Identifier: Apache-2.0
 *
 * kubernetes: an annotation of the pod, as the downward API writes it into a file of a volume; for
 * where somebody gives notice before the SIGTERM. What the annotation says is read as what a file
 * says (file.c); it says nothing where it is not there, empty, or a word that means no.
 */
#include "base/str.h"
#include "watch/body.h"
#include "watch/folder.h"
#include "watch/sources.h"
#include "watch/trouble.h"

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

/* The value that was asked for; if none was, any but an empty one and those that mean no. */
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

static bool read_value(const char *value, struct events *events, struct err *err)
{
    const struct folder *folder = &kubernetes.folder;
    char what[512];
    if (!is_notice(value, folder->watch->options.value))
        return true;
    if (!body_notice(value, strlen(value), clock_min(folder->changed_ns, clock_real_ns()), events,
                     err))
        return false;
    for (unsigned i = 0; i < events->count; i++) {
        struct event *event = &events->list[i];
        snprintf(what, sizeof what, "%s %.300s", kubernetes.annotation, value);
        if (!event->id[0]) {
            event_id(event->id, "annotation", what);
            str_copy(event->key, sizeof event->key, event->id);
        }
    }
    return true;
}

static bool read_file(struct folder *folder, struct events *events, struct err *err)
{
    struct buf value;
    buf_init(&value, FOLDER_FILE_MAX + 1);
    bool ok = body_annotation(folder->data, folder->len, kubernetes.annotation, &value, err);
    if (ok && buf_len(&value) > 0)
        ok = read_value((const char *)buf_bytes(&value), events, err);
    buf_free(&value);
    return ok;
}

/* While the volume is being replaced, or is not there, nothing has changed. */
static void changed(struct folder *folder)
{
    struct events events = {0};
    struct err err;
    enum folder_found found = folder_read(folder, &err);
    if (found == FOLDER_NOTHING)
        err_set(&err, ERR_NOT_FOUND, 0, "it is not there");
    if (found != FOLDER_FILE || !read_file(folder, &events, &err)) {
        trouble_say(&kubernetes.trouble, "kubernetes", folder->path, &err);
        return;
    }
    trouble_over(&kubernetes.trouble, "kubernetes", folder->path);
    watch_tell(folder->watch, 0, &events);
}

static bool start(struct watch *watch, struct err *err)
{
    struct folder *folder = &kubernetes.folder;
    const char *annotation = watch->options.annotation;
    folder->path = watch->options.path ? watch->options.path : PATH_USUAL;
    folder->changed = changed;
    folder->is_all = true;
    kubernetes.annotation = annotation ? annotation : ANNOTATION_USUAL;
    if (!folder_watch(folder, watch, err))
        return err_set(err, ERR_NOT_FOUND, 0,
                       "there is no %.200s; give the pod a volume of the downward API with its "
                       "annotations (fieldPath: metadata.annotations), and its path here",
                       folder->path);
    changed(folder);
    return true;
}

const struct source source_kubernetes = {
    .name = "kubernetes",
    .help = "an annotation of the pod, in a file of the downward API",
    .arguments = "[PATH]",
    .options = " annotation value ",
    .interval_ns = NS_PER_S,
    .lead_ns = 3600 * NS_PER_S,
    .topics = 1,
    .start = start,
};
