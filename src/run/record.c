/* SPDX-License-Identifier: Apache-2.0
 * See record.h.
 */
#include "run/record.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define RECORD_SCHEMA 1
#define RECORD_MAX    STATEFILE_MAX
#define WRITE_WAIT_NS (10 * NS_PER_S)

uint64_t record_resume_step(const struct record *record)
{
    return record->ncommits ? record->commits[record->ncommits - 1].step : 0;
}

/* For one more commit; at most `keep` are to be there with it. */
static void make_room(struct record *record, int keep)
{
    while (record->ncommits >= keep)
        memmove(record->commits, record->commits + 1,
                (size_t)--record->ncommits * sizeof record->commits[0]);
}

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
    int64_t schema = 0;
    if (root && (!json_int(json_find(root, "schema"), &schema) || schema != RECORD_SCHEMA)) {
        err_set(err, ERR_USAGE, 0, "%s is of schema %" PRId64 "; this pchrun writes and reads %d",
                path, schema, RECORD_SCHEMA);
        json_free(root);
        root = NULL;
    }
    if (!root)
        err_wrap(err, "cannot read the record of earlier attempts (to start from scratch, move it "
                      "away)");
    return root;
}

static bool not_a_record(const char *path, const struct json *at, const char *what, struct err *err)
{
    return err_set(err, ERR_USAGE, 0,
                   "%s:%u:%u: %s; it is damaged (to start from scratch, move it away)", path,
                   json_line(at), json_column(at), what);
}

/* Steps ascend: the newest commit is the last. */
static bool read_commit(struct record *record, const struct json *item)
{
    struct record_commit commit;
    int64_t step;
    if (!json_int(json_find(item, "step"), &step) || step <= 0 ||
        (uint64_t)step <= record_resume_step(record) ||
        !json_int(json_find(item, "attempt"), &commit.attempt) ||
        !json_int(json_find(item, "at_ns"), &commit.at))
        return false;
    commit.step = (uint64_t)step;
    make_room(record, RECORD_COMMITS_MAX);
    record->commits[record->ncommits++] = commit;
    return true;
}

static bool read_count(const struct json *root, const char *key, int64_t *ret)
{
    return json_int(json_find(root, key), ret) && *ret >= 0 && *ret < INT_MAX;
}

static bool read_commits(struct record *record, const char *path, const struct json *root,
                         struct err *err)
{
    const struct json *list = json_find(root, "commits");
    int64_t attempt;
    if (!read_count(root, "attempt", &attempt) ||
        !read_count(root, "attempts_without_commit", &record->attempts_without_commit))
        return not_a_record(path, root, "it does not count its attempts", err);
    if (!list || json_kind(list) != JSON_IS_LIST)
        return not_a_record(path, root, "it has no list \"commits\"", err);
    for (const struct json *item = json_first(list); item; item = json_next(item))
        if (!read_commit(record, item))
            return not_a_record(path, item, "not a commit, or not a later one", err);
    record->attempt = attempt + 1;
    return true;
}

/* The last commit that this attempt could know of. Where there is no record of commits, on a node
 * that shares none, nothing can be told. */
static uint64_t committed_by(const struct record *record, int64_t attempt)
{
    uint64_t step = 0;
    for (int i = 0; i < record->ncommits; i++)
        if (record->commits[i].attempt <= attempt)
            step = record->commits[i].step;
    return record->ncommits ? step : UINT64_MAX;
}

/* Of another node, or our own from before. A file that is missing is empty. */
static bool read_ranks(const struct record *record, const char *path, struct saves *saves,
                       struct err *err)
{
    int64_t attempt;
    struct json *root = read_file(record, path, err);
    if (!root)
        return err->code == ERR_NONE;
    bool ok = read_count(root, "attempt", &attempt)
                  ? saves_read(saves, path, root, err)
                  : err_set(err, ERR_USAGE, 0, "%s does not say which attempt wrote it", path);
    json_free(root);
    if (ok)
        saves_forget_newer(saves, committed_by(record, attempt));
    else
        err_wrap(err, "damaged record of earlier attempts (to start from scratch, move it away)");
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
    if (!ok || !read_ranks(record, ranks, &record->saves, err) ||
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
    saves_free(&record->others);
}

/* --- what was saved where --- */

void record_begin(struct record *record, int64_t attempt, uint64_t resume_step)
{
    record->attempt = attempt;
    record->resume_step = resume_step;
    saves_forget_newer(&record->saves, resume_step);
    record_committed(record, resume_step);
}

void record_committed(struct record *record, uint64_t step)
{
    record->saves.committed = step;
    saves_trim(&record->saves, record->keep);
}

void record_saved(struct record *record, int rank, uint64_t step, const char *path)
{
    if (!saves_add(&record->saves, step, rank, path))
        log_error("record", "out of memory: where rank %d saved step %" PRIu64 " is forgotten",
                  rank, step);
}

/* What this file has of the step to resume from. */
static void look_into(struct record *record, const char *path)
{
    struct saves found = {0};
    struct err err;
    if (!read_ranks(record, path, &found, &err))
        log_warn("record", "%s", err.text);
    const struct saves_step *step = saves_find(&found, record->resume_step);
    for (int i = 0; step && i < step->nranks; i++)
        if (!saves_add(&record->others, step->step, step->ranks[i].rank, step->ranks[i].path))
            log_error("record", "out of memory: where rank %d saved step %" PRIu64 " is not known",
                      step->ranks[i].rank, step->step);
    saves_free(&found);
}

/* Most often one of node 0's ranks has saved for all. */
static void look_into_first(struct record *record)
{
    char path[PATH_MAX];
    if (!record->has_read_first && ranks_path(record, 0, path, sizeof path))
        look_into(record, path);
    record->has_read_first = true;
}

/* The ranks may have lain elsewhere in the attempt that saved, and the nodes been more. */
static void look_into_all(struct record *record)
{
    char path[PATH_MAX];
    DIR *stream = record->has_read_all ? NULL : opendir(record->dir);
    struct dirent *entry;
    record->has_read_all = true;
    while (stream && (entry = readdir(stream))) {
        int node, end = 0;
        if (sscanf(entry->d_name, "ranks.%d.json%n", &node, &end) == 1 && end > 0 &&
            !entry->d_name[end] && ranks_path(record, node, path, sizeof path))
            look_into(record, path);
    }
    if (stream)
        closedir(stream);
}

/* NULL: it named no path, and neither did anybody else. */
static const char *path_elsewhere(struct record *record, int rank, bool is_known)
{
    bool is_there;
    look_into_first(record);
    const struct saves_step *step = saves_find(&record->others, record->resume_step);
    const char *path = saves_path(step, rank, &is_there);
    if (!path && (!(is_known || is_there) || !saves_any_path(step))) {
        look_into_all(record);
        step = saves_find(&record->others, record->resume_step);
        path = saves_path(step, rank, &is_there);
    }
    return path ? path : saves_any_path(step);
}

const char *record_path(struct record *record, int rank, uint64_t step)
{
    bool is_known;
    const struct saves_step *own = saves_find(&record->saves, step);
    const char *path = saves_path(own, rank, &is_known);
    if (path || step == 0 || !record->dir)
        return path;
    if (record->is_shared && step == record->resume_step)
        path = path_elsewhere(record, rank, is_known);
    return path || !is_known ? path : saves_any_path(own);
}

const char *record_known_path(const struct record *record, uint64_t step)
{
    return saves_any_path(saves_find(&record->saves, step));
}

/* --- writing --- */

bool record_is_busy(const struct record *record)
{
    return record->dir && record->loop &&
           ((statefile_is_busy(&record->commit_file) &&
             !statefile_is_stuck(&record->commit_file)) ||
            (statefile_is_busy(&record->ranks_file) && !statefile_is_stuck(&record->ranks_file)));
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
    writer_int(w, "schema", RECORD_SCHEMA);
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
        err_set(err, ERR_SYSTEM, text ? EILSEQ : ENOBUFS,
                "cannot compose %s: its texts must be UTF-8, its size within %d MiB "
                "(checkpoint.keep_records)",
                file->path, RECORD_MAX >> 20);
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
    if (!saves_find(&record->saves, step)) {
        err_set(&err, ERR_SYSTEM, 0, "where its ranks saved step %" PRIu64 " is forgotten", step);
        answer(record, EV_PREPARED, step, &err);
        return;
    }
    record->preparing = step;
    begin(&w, record);
    writer_int(&w, "node_rank", record->node_rank);
    writer_int(&w, "attempt", record->attempt);
    saves_write(&record->saves, &w, step);
    if (!write_out(&record->ranks_file, &record->ranks_deadline, &w, step, &err))
        on_ranks_written(record, step, &err);
}

/* In full: the core's own words have to fit into a message to the other nodes. */
static void complain(const struct err *err)
{
    if (err)
        log_warn("record", "%s", err->text);
}

static void on_ranks_written(void *ctx, uint64_t tag, const struct err *err)
{
    struct record *record = ctx;
    bool is_awaited = record->preparing == tag; /* else it was given up before */
    if (is_awaited) {
        complain(err);
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
    uint64_t last = record_resume_step(record);
    struct err err;
    if (!record->dir) {
        answer(record, EV_COMMITTED, step, NULL);
        return;
    }
    if (step <= last) {
        err_set(&err, ERR_USAGE, 0,
                "step %" PRIu64 " does not lie above the last commit, step %" PRIu64
                "; has the training gone back?",
                step, last);
        answer(record, EV_COMMITTED, step, &err);
        return;
    }
    make_room(record, record->keep);
    record->commits[record->ncommits++] =
        (struct record_commit){.step = step, .at = clock_real_ns(), .attempt = record->attempt};
    record->committing = step;
    write_commits(record, step, 0);
}

/* Tag 0 is the note that the attempt has begun: the job can do without, and says so. */
static void on_commit_written(void *ctx, uint64_t tag, const struct err *err)
{
    struct record *record = ctx;
    if (tag == 0 && err && !statefile_is_stuck(&record->commit_file))
        log_warn("record", "%s: no save can be committed as long as that is so", err->text);
    if (record->committing == tag)
        watch_at(&record->commit_deadline, CLOCK_NEVER);
    if (tag != 0 && record->committing == tag) {
        complain(err);
        record->committing = 0;
        if (err) /* what is on disk still ends with the commit before it */
            record->ncommits--;
        answer(record, EV_COMMITTED, tag, err);
    }
    say_if_idle(record);
}

/* --- deadlines --- */

/* Told before the writer is: it may be stuck behind another one that nobody waits for. */
static void give_up(struct statefile *file, uint64_t step, statefile_fn *fn, struct record *record)
{
    struct err err;
    err_set(&err, ERR_SYSTEM, 0,
            "%s could not be written within %d s; is its file system reachable?", file->path,
            (int)(WRITE_WAIT_NS / NS_PER_S));
    fn(record, step, &err);
    statefile_give_up(file);
}

static void on_commit_deadline(void *ctx)
{
    struct record *record = ctx;
    give_up(&record->commit_file, record->committing, on_commit_written, record);
}

static void on_ranks_deadline(void *ctx)
{
    struct record *record = ctx;
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
