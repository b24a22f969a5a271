/* SPDX-License-Identifier: Apache-2.0
 * See outfile.h.
 */
#include "loop/outfile.h"

#include "base/clock.h"
#include "base/log.h"

#include <errno.h>
#include <stdlib.h>

/* A file system that needs longer than this for a small file counts as dead. */
#define WRITE_WAIT_NS (5 * NS_PER_S)

static bool outfile_check(void *ctx, struct err *err)
{
    struct outfile *out = ctx;
    return !out->is_ours || out->is_ours(out->owner, err);
}

static void outfile_complain(struct outfile *out, const struct err *err)
{
    if (!out->has_complained && err->code == ERR_REPLACED)
        log_notice(out->topic, "%s; this one leaves %s to it", err->text, out->file.path);
    else if (!out->has_complained)
        log_warn(out->topic, "%s; %s", err->text,
                 out->loss ? out->loss : "the job does not depend on it");
    out->has_complained = true;
}

static void outfile_on_written(void *ctx, uint64_t tag, const struct err *err)
{
    struct outfile *out = ctx;
    watch_at(&out->deadline, CLOCK_NEVER);
    if (err)
        outfile_complain(out, err);
    if (out->on_written)
        out->on_written(out->ctx, !err);
    outfile_flush(out);
}

static void outfile_on_deadline(void *ctx)
{
    struct outfile *out = ctx;
    statefile_give_up(&out->file);
}

bool outfile_open(struct outfile *out, const char *path, struct reap *reap, struct event_base *base,
                  struct err *err)
{
    char *target = NULL;
    if (!path)
        return true;
    if (out->what && !statefile_resolve(path, &target, err))
        return err_wrap(err, "no %s can be kept at '%s' (%s)", out->what, path, out->option);
    bool ok = statefile_init(&out->file, target ? target : path, reap, err);
    free(target);
    if (!ok)
        return false;
    out->file.fn = outfile_on_written;
    out->file.check = outfile_check;
    out->file.ctx = out;
    watch_init(&out->deadline, base, outfile_on_deadline, out);
    return true;
}

void outfile_free(struct outfile *out)
{
    watch_end(&out->deadline);
    statefile_free(&out->file);
}

bool outfile_write(struct outfile *out, const void *text, size_t len)
{
    struct err err;
    bool ok = text || err_set(&err, ERR_SYSTEM, ENOMEM, "cannot compose %s", out->file.path);
    ok = ok && statefile_write(&out->file, 0, text, len, &err);
    if (ok)
        watch_within(&out->deadline, WRITE_WAIT_NS);
    else
        outfile_complain(out, &err);
    return ok;
}

void outfile_touch(struct outfile *out)
{
    out->is_dirty = true;
}

void outfile_flush(struct outfile *out)
{
    if (!out->is_dirty || !out->file.path || statefile_is_busy(&out->file))
        return;
    out->is_dirty = false;
    out->write(out->ctx);
}

bool outfile_is_busy(const struct outfile *out)
{
    return statefile_is_awaited(&out->file);
}
