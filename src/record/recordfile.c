/* SPDX-License-Identifier: Apache-2.0
 * See recordfile.h.
 */
#include "record/recordfile.h"

#include "base/clock.h"
#include "record/recordwriter.h"

void recordfile_set_deadline(struct record_file *file)
{
    watch_within(&file->deadline, RECORDFILE_WAIT_NS);
    if (file->until)
        watch_by(&file->deadline, file->until);
}

bool recordfile_write(struct record_file *file, struct writer *w, uint64_t tag, struct err *err)
{
    size_t len;
    const char *text = recordwriter_text(&file->file, w, &len, err);
    bool ok = text && statefile_write(&file->file, tag, text, len, err);
    if (ok)
        recordfile_set_deadline(file);
    writer_free(w);
    return ok;
}

bool recordfile_take_end(struct record_file *file, uint64_t tag)
{
    if (file->step != tag)
        return false;
    if (file->file.next) /* it begins now */
        recordfile_set_deadline(file);
    else
        watch_at(&file->deadline, CLOCK_NEVER);
    file->step = 0;
    return true;
}

static void recordfile_on_answer(void *ctx)
{
    struct record_file *file = ctx;
    if (!statefile_take(&file->file))
        watch_end(&file->answer);
}

/* Report the failure first: the write may be stuck behind an older one. */
static void recordfile_on_deadline(void *ctx)
{
    struct record_file *file = ctx;
    struct err err;
    err_set(&err, ERR_SYSTEM, 0, "%s could not be written in time; is its file system reachable?",
            file->file.path);
    if (file->step)
        file->file.fn(file->file.ctx, file->step, &err);
    statefile_give_up(&file->file);
}

void recordfile_hasten(struct record_file *file, int64_t until)
{
    file->until = until;
    watch_by(&file->deadline, until);
}

void recordfile_open(struct record_file *file, struct event_base *base)
{
    watch_init(&file->deadline, base, recordfile_on_deadline, file);
    watch_init(&file->answer, base, recordfile_on_answer, file);
}

void recordfile_free(struct record_file *file)
{
    watch_end(&file->deadline);
    statefile_free(&file->file); /* ends `answer`, too */
}
