/* SPDX-License-Identifier: Apache-2.0
 * See recordwriter.h.
 */
#include "record/recordwriter.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* --- from the supervisor to a writer --- */

/* The state of the record that the checks need. The saves follow it as JSON. */
struct packed {
    struct history history; /* its texts are the configuration's, which both processes have */
    uint64_t commits_step, committed, saves_committed;
};

size_t recordwriter_pack(void *ctx, void *room, size_t size)
{
    const struct record *record = ctx;
    struct packed packed = {.history = record->history,
                            .commits_step = record->commits.step,
                            .committed = record->committed,
                            .saves_committed = record->saves.committed};
    struct writer w;
    size_t len;
    writer_init(&w, HISTORY_MAX, WRITER_PRETTY);
    writer_object(&w, NULL);
    saves_write(&record->saves, NULL, &w, UINT64_MAX);
    writer_end(&w);
    const char *text = writer_done(&w, &len);
    memcpy(room, &packed, sizeof packed);
    if (!text || len > size - sizeof packed) /* then no lost ranks file is restored */
        len = 0;
    if (len)
        memcpy((char *)room + sizeof packed, text, len);
    writer_free(&w);
    return sizeof packed + len;
}

void recordwriter_unpack(void *ctx, const void *data, size_t len)
{
    struct record *record = ctx;
    struct packed packed;
    struct err err;
    memcpy(&packed, data, sizeof packed);
    record->history = packed.history;
    record->commits.step = packed.commits_step;
    record->committed = packed.committed;
    saves_free(&record->saves);
    record->saves = (struct saves){.committed = packed.saves_committed};
    JSON_CLEANUP struct json *root =
        json_read("the saves", (const char *)data + sizeof packed, len - sizeof packed, &err);
    if (!root || !saves_read(&record->saves, NULL, "the saves", root, &err))
        saves_free(&record->saves);
}

const char *recordwriter_text(const struct statefile *file, struct writer *w, size_t *ret_len,
                              struct err *err)
{
    const char *text = writer_done(w, ret_len);
    if (text && !w->has_replaced)
        return text;
    err_set(err, ERR_SYSTEM, text ? EILSEQ : ENOBUFS,
            "cannot compose %s: its texts must be UTF-8, its size within %d MiB "
            "(checkpoint.keep_records)",
            file->path, HISTORY_MAX >> 20);
    return NULL;
}

/* --- files that were removed during the run --- */

/* A person may remove the state directory while the job runs. A start needs both files, so a write
 * of one file also restores the other. The child that writes does all this. */

static bool put_back(const struct statefile *file, struct writer *w, struct err *err)
{
    size_t len;
    const char *text = recordwriter_text(file, w, &len, err);
    bool ok = text && statefile_put_back(file, text, len, err);
    writer_free(w);
    return ok;
}

static bool put_back_ranks(const struct record *record, uint64_t step, struct err *err)
{
    struct writer w;
    if (!saves_find(&record->saves, step) || !statefile_is_missing(&record->ranks.file))
        return true;
    history_write_ranks(&record->history, &record->saves, record->node_rank, step, &w);
    return put_back(&record->ranks.file, &w, err);
}

bool recordwriter_check_commits(void *ctx, struct err *err)
{
    const struct record *record = ctx;
    return history_check(&record->history, record->commits.file.path, err) &&
           (!record->commits.step || put_back_ranks(record, record->commits.step, err));
}

/* Restores commit.json, unless a commit is about to write it. If both files are missing, it lists
 * no commits: for a moment there is no ranks file with their paths. */
bool recordwriter_check_ranks(void *ctx, struct err *err)
{
    const struct record *record = ctx;
    struct history history = record->history;
    struct writer w;
    if (!history_check(&record->history, record->ranks.file.path, err))
        return false;
    if (record->node_rank > 0 || record->commits.step ||
        !statefile_is_missing(&record->commits.file))
        return true;
    bool is_emptied = statefile_is_missing(&record->ranks.file);
    if (is_emptied)
        history.ncommits = 0;
    history_write_commits(&history, record->committed ? HISTORY_COMMITTED : HISTORY_BEGUN, &w);
    bool ok = put_back(&record->commits.file, &w, err);
    if (ok && is_emptied)
        err_set(err, ERR_NONE, 0,
                "%s was emptied while the job ran, and is written again; a start before the next "
                "commit begins from scratch",
                record->dir);
    return ok;
}

/* On all nodes but node 0, after a commit: restores a missing ranks file. Does nothing if
 * commit.json is missing, too, or if a start from scratch has written a new commit.json. A node
 * with its own disk cannot see commit.json, so it always restores the file. */
bool recordwriter_look_for_ranks(void *ctx, struct err *err)
{
    const struct record *record = ctx;
    const struct history *history = &record->history;
    bool is_missed = !record->is_shared ||
                     history_attempt_in(history, record->commits.file.path) == history->attempt;
    return !is_missed || put_back_ranks(record, record->saves.committed, err);
}
