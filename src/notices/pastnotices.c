/* SPDX-License-Identifier: Apache-2.0
 * See pastnotices.h.
 */
#include "notices/pastnotices.h"

#include "base/str.h"
#include "json/json.h"

#include <errno.h>
#include <limits.h>

#define SCHEMA   1
#define FILE_MAX (256 * 1024)

static struct pastnotices_notice *pastnotices_find(struct pastnotices *pastnotices,
                                                   const char *source, const char *id)
{
    for (int i = 0; i < pastnotices->n; i++)
        if (str_is(pastnotices->list[i].source, source) && str_is(pastnotices->list[i].id, id))
            return &pastnotices->list[i];
    return NULL;
}

/* A live notice is dropped last: it may be the notice that ends this attempt. */
static void forget_oldest(struct pastnotices *pastnotices)
{
    int oldest = 0;
    for (int i = 1; i < pastnotices->n; i++) {
        const struct pastnotices_notice *a = &pastnotices->list[i], *b = &pastnotices->list[oldest];
        if (a->is_live != b->is_live ? b->is_live : a->at_ns < b->at_ns)
            oldest = i;
    }
    pastnotices->list[oldest] = pastnotices->list[--pastnotices->n];
}

static struct pastnotices_notice *pastnotices_add(struct pastnotices *pastnotices,
                                                  const char *source, const char *id)
{
    if (pastnotices->n == HANDLED_MAX)
        forget_oldest(pastnotices);
    struct pastnotices_notice *notice = &pastnotices->list[pastnotices->n++];
    *notice = (struct pastnotices_notice){0};
    str_copy(notice->source, sizeof notice->source, source);
    str_copy(notice->id, sizeof notice->id, id);
    return notice;
}

/* --- the file --- */

static bool read_one(struct pastnotices *pastnotices, const struct json *item, int64_t real_now_ns)
{
    const char *source = json_text(json_find(item, "source"));
    const char *id = json_text(json_find(item, "id"));
    int64_t count, at_ns;
    if (!source || !id || !*id || !json_int(json_find(item, "attempts"), &count) || count < 1 ||
        !json_int(json_find(item, "at_ns"), &at_ns) || pastnotices_find(pastnotices, source, id))
        return false;
    /* A time in the future means that the clock was set back: count it as now. */
    if (at_ns > real_now_ns)
        at_ns = real_now_ns;
    if (at_ns < real_now_ns - HANDLED_OLD_NS)
        return true;
    struct pastnotices_notice *notice = pastnotices_add(pastnotices, source, id);
    notice->count = count < INT_MAX ? (int)count : INT_MAX;
    notice->at_ns = at_ns;
    return true;
}

static bool pastnotices_read_root(struct pastnotices *pastnotices, const char *path,
                                  const struct json *root, int64_t real_now_ns, struct err *err)
{
    const char *job = json_text(json_find(root, "job"));
    const struct json *list = json_find(root, "notices");
    int64_t schema;
    if (!job || !list || json_kind(list) != JSON_IS_LIST ||
        !json_int(json_find(root, "schema"), &schema) || schema != SCHEMA)
        return err_set(err, ERR_USAGE, 0, "%s does not have the form that pchrun writes", path);
    if (!str_is(job, pastnotices->job))
        return err_set(err, ERR_USAGE, 0, "%s belongs to job \"%s\"", path, job);
    size_t n = 1;
    for (const struct json *item = json_first(list); item; item = json_next(item), n++)
        if (json_kind(item) != JSON_IS_OBJECT || !read_one(pastnotices, item, real_now_ns))
            return err_set(err, ERR_USAGE, 0, "%s: notices: item %zu is not a notice", path, n);
    return true;
}

bool pastnotices_read(struct pastnotices *pastnotices, const char *path, int64_t real_now_ns,
                      struct err *err)
{
    *err = (struct err){0};
    JSON_CLEANUP struct json *root = json_read_written(path, FILE_MAX, err);
    if (!root)
        return err->sys_errno == ENOENT;
    if (pastnotices_read_root(pastnotices, path, root, real_now_ns, err))
        return true;
    pastnotices->n = 0;
    return false;
}

void pastnotices_write(const struct pastnotices *pastnotices, struct writer *w)
{
    writer_object(w, NULL);
    writer_int(w, "schema", SCHEMA);
    writer_text(w, "job", pastnotices->job);
    writer_list(w, "notices");
    for (int i = 0; i < pastnotices->n; i++) {
        const struct pastnotices_notice *notice = &pastnotices->list[i];
        if (notice->count == 0)
            continue;
        writer_object(w, NULL);
        writer_text(w, "source", notice->source);
        writer_text(w, "id", notice->id);
        writer_int(w, "attempts", notice->count);
        writer_int(w, "at_ns", notice->at_ns);
        writer_end(w);
    }
    writer_end(w);
    writer_end(w);
}

/* --- the notices --- */

/* A cancel without an id withdraws all notices of its source. */
static void pastnotices_cancel(struct pastnotices *pastnotices, const struct notice *notice)
{
    for (int i = 0; i < pastnotices->n; i++) {
        struct pastnotices_notice *known = &pastnotices->list[i];
        if (str_is(known->source, notice->source) &&
            (!notice->id[0] || str_is(known->id, notice->id))) {
            known->is_cancelled = known->is_live;
            known->is_live = false;
        }
    }
}

enum pastnotices_result pastnotices_take(struct pastnotices *pastnotices,
                                         const struct notice *notice, int64_t real_now_ns,
                                         int *ret_count)
{
    if (notice->type == NOTICE_CANCEL)
        pastnotices_cancel(pastnotices, notice);
    if (notice->type != NOTICE_TERMINATE || !notice->id[0] || pastnotices->limit == 0)
        return HANDLED_NEW;
    struct pastnotices_notice *known = pastnotices_find(pastnotices, notice->source, notice->id);
    if (!known)
        known = pastnotices_add(pastnotices, notice->source, notice->id);
    known->at_ns = real_now_ns;
    *ret_count = known->count;
    if (known->count < pastnotices->limit) {
        known->is_live = true;
        known->is_cancelled = false;
        return HANDLED_NEW;
    }
    bool was_refused = known->is_refused;
    known->is_refused = true;
    return was_refused ? HANDLED_SAID_THAT : HANDLED_ENOUGH;
}

/* Every node counts the attempt: in the next attempt any node may get the notice. */
static bool count_attempt(struct pastnotices *pastnotices, const struct notice *by,
                          int64_t real_now_ns)
{
    if (!by || !by->id[0] || pastnotices->limit == 0)
        return false;
    struct pastnotices_notice *known = pastnotices_find(pastnotices, by->source, by->id);
    if (known && known->is_cancelled)
        return false;
    if (!known)
        known = pastnotices_add(pastnotices, by->source, by->id);
    known->count++;
    known->at_ns = real_now_ns;
    return true;
}

bool pastnotices_end(struct pastnotices *pastnotices, const struct notice *by, int64_t real_now_ns)
{
    bool has_changed = count_attempt(pastnotices, by, real_now_ns);
    for (int i = 0; i < pastnotices->n; i++)
        has_changed |= pastnotices->list[i].is_refused; /* at_ns has changed */
    return has_changed;
}
