/* SPDX-License-Identifier: Apache-2.0
 * See record.h.
 */
#include "run/record.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"

#include <errno.h>
#include <glob.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define RECORD_MAX    (4 * 1024 * 1024)
#define WRITE_WAIT_NS (10 * NS_PER_S)

/* --- reading --- */

/* NULL with err->code ERR_NONE: there is no such file. */
static struct json *read_file(const struct record *record, const char *path, struct err *err)
{
    *err = (struct err){0};
    struct json *root = json_read_file(path, RECORD_MAX, err);
    if (!root && err->sys_errno == ENOENT) {
        *err = (struct err){0};
        return NULL;
    }
    const char *job = root ? json_text(json_find(root, "job")) : NULL;
    if (root && (!job || !str_is(job, record->job))) {
        err_set(err, ERR_USAGE, 0,
                "%s belongs to job \"%s\"; this is \"%s\" (give each job a checkpoint.dir or "
                "state_dir of its own)",
                path, job ? job : "?", record->job);
        json_free(root);
        root = NULL;
    }
    if (!root)
        err_wrap(err, "cannot read the record of earlier attempts (to start from scratch, move it "
                      "away)");
    return root;
}

static bool read_commits(struct record *record, const char *path, const struct json *root,
                         struct err *err)
{
    const struct json *list = json_find(root, "commits");
    int64_t attempt;
    bool ok =
        list && json_int(json_find(root, "attempt"), &attempt) &&
        json_int(json_find(root, "attempts_without_commit"), &record->attempts_without_commit);
    for (const struct json *item = ok ? json_first(list) : NULL; item; item = json_next(item)) {
        struct record_commit commit = {0};
        int64_t step;
        ok = ok && json_int(json_find(item, "step"), &step) && step > 0 &&
             json_int(json_find(item, "attempt"), &commit.attempt) &&
             json_int(json_find(item, "at_ns"), &commit.at);
        if (!ok)
            break;
        commit.step = (uint64_t)step;
        if (record->ncommits == RECORD_COMMITS_MAX)
            memmove(record->commits, record->commits + 1,
                    (size_t)--record->ncommits * sizeof commit);
        record->commits[record->ncommits++] = commit;
    }
    if (!ok)
        return err_set(err, ERR_USAGE, 0,
                       "%s is not a record of commits (to start from scratch, move it away)", path);
    record->attempt = attempt + 1;
    return true;
}

/* Of another node, or our own from before. */
static bool read_ranks(struct record *record, const char *path, struct err *err)
{
    struct json *root = read_file(record, path, err);
    if (!root)
        return err->code == ERR_NONE;
    bool ok = saves_read(&record->saves, path, root, err);
    json_free(root);
    return ok;
}

static bool ranks_path(const struct record *record, int node, char *path, size_t size)
{
    path[0] = '\0';
    return str_addf(path, size, "%s/ranks.%d.json", record->dir, node);
}

static void on_commit_written(void *ctx, uint64_t tag, const struct err *err);
static void on_ranks_written(void *ctx, uint64_t tag, const struct err *err);
static void on_commit_deadline(void *ctx);
static void on_ranks_deadline(void *ctx);

bool record_init(struct record *record, const struct config *config, const char *dir,
                 struct reap *reap, struct err *err)
{
    char path[PATH_MAX] = "", ranks[PATH_MAX];
    *record = (struct record){.dir = dir,
                              .job = config->job,
                              .node_rank = config->cluster.node_rank,
                              .nnodes = config->cluster.nnodes,
                              .keep = config->checkpoint.keep_records,
                              .is_shared = config->checkpoint.shared,
                              .attempt = 1,
                              .commit_deadline = {.fn = on_commit_deadline, .ctx = record},
                              .ranks_deadline = {.fn = on_ranks_deadline, .ctx = record}};
    if (record->keep > RECORD_COMMITS_MAX)
        record->keep = RECORD_COMMITS_MAX;
    if (!dir)
        return true;
    if (config->checkpoint.dir) /* the program may be about to make it; then we need it first */
        mkdir(config->checkpoint.dir, 0777);
    if (!str_addf(path, sizeof path, "%s/commit.json", dir) ||
        !ranks_path(record, record->node_rank, ranks, sizeof ranks))
        return err_set(err, ERR_USAGE, ENAMETOOLONG, "state_dir '%s'", dir);
    struct json *root = read_file(record, path, err);
    bool ok = root ? read_commits(record, path, root, err) : err->code == ERR_NONE;
    json_free(root);
    if (!ok || !read_ranks(record, ranks, err) ||
        !statefile_init(&record->commit_file, path, reap, err) ||
        !statefile_init(&record->ranks_file, ranks, reap, err))
        return false;
    statefile_on_written(&record->commit_file, on_commit_written, record);
    statefile_on_written(&record->ranks_file, on_ranks_written, record);
    return true;
}

void record_free(struct record *record)
{
    watch_end(&record->commit_deadline);
    watch_end(&record->ranks_deadline);
    if (record->dir && record->commit_file.path)
        statefile_free(&record->commit_file);
    if (record->dir && record->ranks_file.path)
        statefile_free(&record->ranks_file);
    saves_free(&record->saves);
}

uint64_t record_resume_step(const struct record *record)
{
    return record->ncommits ? record->commits[record->ncommits - 1].step : 0;
}

/* --- what was saved where --- */

void record_saved(struct record *record, int rank, uint64_t step, const char *path)
{
    if (!saves_add(&record->saves, step, rank, path))
        log_error("record", "out of memory: where rank %d saved step %" PRIu64 " is forgotten",
                  rank, step);
}

/* Every node's file: the ranks may have lain elsewhere in the attempt that saved. */
static void read_all_ranks(struct record *record)
{
    char pattern[PATH_MAX] = "";
    glob_t found;
    struct err err;
    if (!record->dir || !record->is_shared ||
        !str_addf(pattern, sizeof pattern, "%s/ranks.*.json", record->dir) ||
        glob(pattern, 0, NULL, &found) != 0)
        return;
    for (size_t i = 0; i < found.gl_pathc; i++)
        if (!read_ranks(record, found.gl_pathv[i], &err))
            log_warn("record", "%s", err.text);
    globfree(&found);
}

const char *record_path(struct record *record, int rank, uint64_t step)
{
    bool is_known;
    char first[PATH_MAX];
    struct err err;
    if (step == 0)
        return NULL;
    const char *path = saves_path(saves_find(&record->saves, step), rank, &is_known);
    if (path || !record->dir || !record->is_shared)
        return path;
    /* It named none: the rank that saved for all is most often one of node 0's. */
    if (ranks_path(record, 0, first, sizeof first) && !read_ranks(record, first, &err))
        log_warn("record", "%s", err.text);
    path = saves_path(saves_find(&record->saves, step), rank, &is_known);
    if (!path && (!is_known || !saves_any_path(saves_find(&record->saves, step)))) {
        read_all_ranks(record);
        path = saves_path(saves_find(&record->saves, step), rank, &is_known);
    }
    return path ? path : saves_any_path(saves_find(&record->saves, step));
}

/* --- writing --- */

bool record_is_busy(const struct record *record)
{
    return record->dir && record->loop &&
           ((statefile_is_busy(&record->commit_file) && !record->is_commit_stuck) ||
            (statefile_is_busy(&record->ranks_file) && !record->is_ranks_stuck));
}

void record_on_idle(struct record *record, void (*on_idle)(void *ctx), void *ctx)
{
    record->on_idle = on_idle;
    record->ctx = ctx;
}

static void say_if_idle(struct record *record)
{
    if (!record_is_busy(record) && record->on_idle)
        record->on_idle(record->ctx);
}

static void answer(struct record *record, enum event_type type, uint64_t step,
                   const struct err *err)
{
    loop_post(record->loop, &(struct event){.type = type, .written = {.step = step, .err = err}});
}

static void begin(struct writer *w, const struct record *record)
{
    writer_init(w, RECORD_MAX, WRITER_PRETTY);
    writer_object(w, NULL);
    writer_int(w, "schema", 1);
    writer_text(w, "job", record->job);
}

/* Starts to write what was composed. False: it failed at once. */
static bool write_out(struct statefile *file, struct watch *deadline, struct writer *w,
                      uint64_t tag, struct err *err)
{
    size_t len;
    writer_end(w);
    const char *text = writer_done(w, &len);
    bool ok = text && !w->has_replaced;
    if (!ok)
        err_set(err, ERR_SYSTEM, text ? EILSEQ : ENOMEM, "cannot compose %s", file->path);
    ok = ok && statefile_write(file, tag, text, len, err);
    if (ok)
        watch_at(deadline, clock_now_ns() + WRITE_WAIT_NS);
    writer_free(w);
    return ok;
}

void record_prepare(struct record *record, uint64_t step)
{
    struct writer w;
    struct err err;
    if (!record->dir) {
        answer(record, EV_PREPARED, step, NULL);
        return;
    }
    record->preparing = step;
    saves_trim(&record->saves, SAVES_STEPS > record->keep ? record->keep + 1 : SAVES_STEPS);
    begin(&w, record);
    writer_int(&w, "node_rank", record->node_rank);
    saves_write(&record->saves, &w, step);
    if (!write_out(&record->ranks_file, &record->ranks_deadline, &w, step, &err))
        on_ranks_written(record, step, &err);
}

static void on_ranks_written(void *ctx, uint64_t tag, const struct err *err)
{
    struct record *record = ctx;
    bool is_awaited = record->preparing == tag; /* else it was given up before */
    if (is_awaited) {
        watch_at(&record->ranks_deadline, CLOCK_NEVER);
        record->preparing = 0;
        answer(record, EV_PREPARED, tag, err);
    }
    say_if_idle(record);
}

static void write_commits(struct record *record, uint64_t tag, int64_t without)
{
    struct writer w;
    struct err err;
    char at[40];
    begin(&w, record);
    writer_int(&w, "attempt", record->attempt);
    writer_int(&w, "attempts_without_commit", without);
    writer_list(&w, "commits");
    for (int i = 0; i < record->ncommits; i++) {
        const struct record_commit *commit = &record->commits[i];
        writer_object(&w, NULL);
        writer_int(&w, "step", (int64_t)commit->step);
        writer_int(&w, "attempt", commit->attempt);
        writer_int(&w, "at_ns", commit->at);
        writer_text(&w, "at", clock_iso8601(commit->at, at, sizeof at));
        writer_end(&w);
    }
    writer_end(&w);
    if (!write_out(&record->commit_file, &record->commit_deadline, &w, tag, &err))
        on_commit_written(record, tag, &err);
}

void record_commit(struct record *record, uint64_t step)
{
    if (!record->dir) {
        answer(record, EV_COMMITTED, step, NULL);
        return;
    }
    if (record->ncommits == record->keep)
        memmove(record->commits, record->commits + 1,
                (size_t)--record->ncommits * sizeof record->commits[0]);
    record->commits[record->ncommits++] =
        (struct record_commit){.step = step, .at = clock_real_ns(), .attempt = record->attempt};
    record->committing = step;
    write_commits(record, step, 0);
}

/* Tag 0 is the note that the attempt has begun: the job can do without, and says so. */
static void on_commit_written(void *ctx, uint64_t tag, const struct err *err)
{
    struct record *record = ctx;
    if (tag == 0 && err)
        log_warn("record", "%s: no save can be committed as long as that is so", err->text);
    if (record->committing == tag)
        watch_at(&record->commit_deadline, CLOCK_NEVER);
    if (tag != 0 && record->committing == tag) {
        record->committing = 0;
        if (err) /* what is on disk still ends with the commit before it */
            record->ncommits--;
        answer(record, EV_COMMITTED, tag, err);
    }
    say_if_idle(record);
}

/* --- deadlines --- */

/* Told before the writer is: it may be stuck behind another one that nobody waits for. */
static void give_up(struct statefile *file, uint64_t step, statefile_fn *fn, void *ctx)
{
    struct err err;
    err_set(&err, ERR_SYSTEM, 0,
            "%s could not be written within %d s; is its file system reachable?", file->path,
            (int)(WRITE_WAIT_NS / NS_PER_S));
    fn(ctx, step, &err);
    statefile_give_up(file);
}

static void on_commit_deadline(void *ctx)
{
    struct record *record = ctx;
    record->is_commit_stuck = true;
    give_up(&record->commit_file, record->committing, on_commit_written, record);
}

static void on_ranks_deadline(void *ctx)
{
    struct record *record = ctx;
    record->is_ranks_stuck = true;
    give_up(&record->ranks_file, record->preparing, on_ranks_written, record);
}

bool record_open(struct record *record, struct loop *loop, struct err *err)
{
    record->loop = loop;
    if (!record->dir)
        return true;
    if (!watch_clock(&record->commit_deadline, loop->base, err) ||
        !watch_clock(&record->ranks_deadline, loop->base, err))
        return false;
    if (record->node_rank == 0)
        write_commits(record, 0, record->attempts_without_commit + 1);
    return true;
}
