/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as what earlier attempts have left: commit.json, ranks.0.json and ranks.1.json, with a
 * NUL between two; a file that would be empty is not there. Commits that are taken ascend, and the
 * last is the one to resume from. A refused record has an error of one line. The files are in a
 * directory below TMPDIR.
 */
#include "fuzz.h"

#include "base/log.h"
#include "record/record.h"

#include <string.h>
#include <unistd.h>

static char dir[200];

static void remove_all(void)
{
    static const char *const names[] = {"commit.json", "ranks.0.json", "ranks.1.json"};
    char path[256];
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        unlink(path);
    }
    rmdir(dir);
}

static void begin(void)
{
    const char *tmp = getenv("TMPDIR");
    if (dir[0])
        return;
    log_init(&(struct log_options){.level = LOG_ERROR});
    snprintf(dir, sizeof dir, "%s/fuzz_record.XXXXXX", tmp ? tmp : "/tmp");
    FUZZ_MUST(mkdtemp(dir));
    atexit(remove_all);
}

/* Writes the bytes up to a NUL; returns how many bytes that were, with the NUL. */
static size_t put(const char *name, const uint8_t *data, size_t size)
{
    char path[256];
    size_t len = size ? strnlen((const char *)data, size) : 0;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    unlink(path);
    if (len > 0) {
        FILE *file = fopen(path, "we");
        FUZZ_MUST(file && fwrite(data, 1, len, file) == len && fclose(file) == 0);
    }
    return len < size ? len + 1 : len;
}

static void look(struct record *record)
{
    uint64_t last = 0;
    const struct history *history = &record->history;
    struct err err;
    for (int i = 0; i < history->ncommits; i++) {
        FUZZ_MUST(history->commits[i].step > last);
        last = history->commits[i].step;
    }
    FUZZ_MUST(history_last_step(history) == last);
    FUZZ_MUST(history->attempt >= 1 && history->attempts_without_commit >= 0);
    record_begin(record, history->attempt, 0, last);
    for (int rank = 0; rank < 3; rank++) {
        const char *path = record_path(record, rank, last);
        FUZZ_MUST(!path || path[0]);
        FUZZ_MUST(record_check_rank(record, rank, &err) || err.text[0]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct record record;
    static struct reap reap;
    char job[] = "job";
    struct config config = {.job = job};
    struct err err;
    begin();
    config.cluster.nnodes = 2;
    config.checkpoint.keep_records = 8;
    config.checkpoint.shared = true;
    size_t at = put("commit.json", data, size);
    at += put("ranks.0.json", data + at, size - at);
    put("ranks.1.json", data + at, size - at);
    if (record_init(&record, &config, dir, &reap, &err))
        look(&record);
    else
        FUZZ_MUST(err.text[0] && !strchr(err.text, '\n'));
    record_free(&record);
    return 0;
}
