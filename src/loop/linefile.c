/* SPDX-License-Identifier: Apache-2.0
 * See linefile.h.
 */
#include "loop/linefile.h"

#include "base/clock.h"

#include <stdio.h>
#include <string.h>

#define PENDING_MAX_BYTES (256 * 1024)
/* Room for the note of dropped lines. */
#define NOTE_MAX_BYTES 256
/* Lines within this time go into one write. */
#define GATHER_NS (100 * NS_PER_MS)

/* A write failed: its lines are dropped, and so is its note of dropped lines. */
static void linefile_count_lost(struct linefile *file)
{
    file->dropped += file->writing;
    file->writing = 0;
}

static void linefile_write(void *ctx)
{
    struct linefile *file = ctx;
    char note[NOTE_MAX_BYTES] = "";
    file->writing = file->gathered;
    file->gathered = 0;
    if (file->dropped > 0) {
        file->note(file->ctx, file->dropped, note, sizeof note);
        if (buf_add(&file->pending, note, strlen(note))) {
            file->writing += file->dropped;
            file->dropped = 0;
        }
    }
    if (!outfile_write(&file->out, buf_bytes(&file->pending), buf_len(&file->pending)))
        linefile_count_lost(file);
    buf_drop(&file->pending, buf_len(&file->pending));
}

static void linefile_on_gathered(void *ctx)
{
    struct linefile *file = ctx;
    outfile_flush(&file->out);
}

static void linefile_on_written(void *ctx, bool is_ok)
{
    if (!is_ok)
        linefile_count_lost(ctx);
}

void linefile_add(struct linefile *file, const char *text, size_t len)
{
    if (!file->out.file.path)
        return;
    bool fits = buf_len(&file->pending) + len + NOTE_MAX_BYTES <= PENDING_MAX_BYTES;
    if (fits && buf_add(&file->pending, text, len))
        file->gathered++;
    else
        file->dropped++;
    outfile_touch(&file->out);
    if (file->gather.at == CLOCK_NEVER)
        watch_at(&file->gather, clock_now_ns() + GATHER_NS);
}

void linefile_flush(struct linefile *file)
{
    outfile_flush(&file->out);
}

bool linefile_is_busy(const struct linefile *file)
{
    return outfile_is_busy(&file->out);
}

bool linefile_open(struct linefile *file, const char *path, struct reap *reap,
                   struct event_base *base, struct err *err)
{
    file->ctx = file->out.ctx;
    file->out.ctx = file;
    file->out.write = linefile_write;
    file->out.on_written = linefile_on_written;
    file->out.file.is_journal = true;
    if (file->out.file.max == 0)
        file->out.file.max = SIZE_MAX;
    buf_init(&file->pending, PENDING_MAX_BYTES);
    if (!outfile_open(&file->out, path, reap, base, err))
        return false;
    if (file->out.file.path)
        watch_init(&file->gather, base, linefile_on_gathered, file);
    return true;
}

void linefile_free(struct linefile *file)
{
    watch_end(&file->gather);
    outfile_free(&file->out);
    buf_free(&file->pending);
}
