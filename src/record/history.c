/* SPDX-License-Identifier: Apache-2.0
 * See history.h.
 */
#include "record/history.h"

#include "base/clock.h"
#include "base/policy.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The files of a state directory need each other, so a start from scratch removes all of them. */
#define FROM_SCRATCH "to start from scratch, move the state directory away"
#define CANNOT_READ  "cannot read the record of earlier attempts (" FROM_SCRATCH ")"

uint64_t history_last_step(const struct history *history)
{
    return history->ncommits ? history->commits[history->ncommits - 1].step : 0;
}

uint32_t history_whole(const struct history *history, uint64_t step)
{
    for (int i = 0; i < history->ncommits; i++)
        if (history->commits[i].step == step)
            return history->commits[i].whole;
    return 0;
}

void history_make_room(struct history *history, int keep)
{
    while (history->ncommits >= keep)
        memmove(history->commits, history->commits + 1,
                (size_t)--history->ncommits * sizeof history->commits[0]);
}

/* Another job may still use its record, so the message does not advise to move it away. */
static bool refuse_job(const struct history *history, const char *path, const char *job,
                       struct err *err)
{
    char word[300] = "";
    bool has_unnamed = str_is(job, JOB_UNNAMED) || str_is(history->job, JOB_UNNAMED);
    (void)str_add_word(word, sizeof word, job);
    return err_set(err, ERR_USAGE, 0,
                   "the record of earlier attempts, %s, belongs to job \"%s\"; this start is of "
                   "job \"%s\"%s. If it is the same job, add --job %s. If not, give each job a "
                   "checkpoint.dir or state_dir of its own",
                   path, job, history->job, has_unnamed ? " (" JOB_UNNAMED_NOTE ")" : "", word);
}

static bool check_head(const struct history *history, const char *path, const struct json *root,
                       struct err *err)
{
    const char *job = json_text(json_find(root, "job"));
    int64_t schema = 0;
    if (job && !str_is(job, history->job))
        return refuse_job(history, path, job, err);
    if (!job)
        err_set(err, ERR_USAGE, 0, "%s names no job; it is damaged", path);
    else if (!json_int(json_find(root, "schema"), &schema) || schema != HISTORY_SCHEMA)
        err_set(err, ERR_USAGE, 0,
                "%s is of schema %" PRId64
                ", and this pchrun reads only %d; use the pchrun that wrote it",
                path, schema, HISTORY_SCHEMA);
    else
        return true;
    return err_wrap(err, CANNOT_READ);
}

/* NULL with err->code ERR_NONE: the file is missing. */
static struct json *history_read_file(const struct history *history, const char *path,
                                      struct err *err)
{
    *err = (struct err){0};
    struct json *root = json_read_written(path, HISTORY_MAX, err);
    if (root && check_head(history, path, root, err))
        return root;
    if (!root && err->sys_errno == ENOENT)
        *err = (struct err){0};
    else if (!root)
        err_wrap(err, CANNOT_READ);
    json_free(root);
    return NULL;
}

static bool not_a_record(const char *path, const char *what, struct err *err)
{
    return err_set(err, ERR_USAGE, 0, "%s: %s; it is damaged (" FROM_SCRATCH ")", path, what);
}

/* True if the member is missing, or is a number up to `most`. */
static bool read_optional(const struct json *root, const char *key, int64_t most, int64_t *ret)
{
    const struct json *member = json_find(root, key);
    return !member || (json_int(member, ret) && *ret >= 0 && *ret <= most);
}

/* Steps ascend: the newest commit is the last. */
static bool read_commit(struct history *history, const struct json *item)
{
    struct history_commit commit = {0};
    int64_t step, whole = -1;
    if (!json_int(json_find(item, "step"), &step) || step <= 0 ||
        (uint64_t)step <= history_last_step(history) ||
        !json_int(json_find(item, "attempt"), &commit.attempt) ||
        !json_int(json_find(item, "at_ns"), &commit.at) ||
        !read_optional(item, "whole_rank", INT_MAX - 1, &whole))
        return false;
    commit.step = (uint64_t)step;
    commit.whole = (uint32_t)(whole + 1);
    history_make_room(history, HISTORY_COMMITS_MAX);
    history->commits[history->ncommits++] = commit;
    return true;
}

static bool read_count(const struct json *root, const char *key, int64_t *ret)
{
    return json_int(json_find(root, key), ret) && *ret >= 0 && *ret < INT_MAX;
}

/* A record without an epoch is of the first node 0 of its attempt. */
static bool read_epoch(const struct json *root, int64_t *ret)
{
    *ret = 0;
    return read_optional(root, "epoch", UINT32_MAX, ret);
}

/* Within the attempt, only its writer may replace a file that has no generation. */
static bool read_generation(const struct json *root, int64_t *ret)
{
    *ret = INT64_MAX;
    return read_optional(root, "generation", UINT32_MAX, ret);
}

static bool read_commits(struct history *history, const char *path, const struct json *root,
                         struct err *err)
{
    const struct json *list = json_find(root, "commits");
    int64_t attempt, epoch;
    if (!read_count(root, "attempt", &attempt) ||
        !read_count(root, "attempts_without_commit", &history->attempts_without_commit))
        return not_a_record(path, "it has no valid number of attempts", err);
    if (!read_epoch(root, &epoch))
        return not_a_record(path, "epoch is not a number of node 0", err);
    if (!read_optional(root, "attempts_without_step", INT_MAX - 1, &history->attempts_without_step))
        return not_a_record(path, "attempts_without_step is not a number of attempts", err);
    if (!read_optional(root, "save_ns", INT64_MAX, &history->save_ns))
        return not_a_record(path, "save_ns is not the time of a save", err);
    if (!read_optional(root, "start_ns", INT64_MAX, &history->start_ns))
        return not_a_record(path, "start_ns is not the time of a start", err);
    if (!read_optional(root, "end_ns", INT64_MAX, &history->end_ns))
        return not_a_record(path, "end_ns is not the time of an end", err);
    if (!read_optional(root, "ran_ns", INT64_MAX, &history->ran_ns) ||
        !read_optional(root, "failures", INT_MAX - 1, &history->failures))
        return not_a_record(path, "ran_ns and failures are not a time and a number", err);
    if (!list || json_kind(list) != JSON_IS_LIST)
        return not_a_record(path, "it has no list \"commits\"", err);
    for (const struct json *item = json_first(list); item; item = json_next(item))
        if (!read_commit(history, item))
            return not_a_record(
                path, "an item of \"commits\" is not a commit, or not later than the one before it",
                err);
    strikes_read(&history->strikes, root);
    history->attempt = attempt + 1;
    history->is_there = true;
    return true;
}

bool history_read_commits(struct history *history, const char *path, struct err *err)
{
    JSON_CLEANUP struct json *root = history_read_file(history, path, err);
    return root ? read_commits(history, path, root, err) : err->code == ERR_NONE;
}

uint64_t history_completed_step(const struct history *history, const char *dir)
{
    char path[PATH_MAX] = "";
    struct err err;
    if (!str_addf(path, sizeof path, "%s/report.0.json", dir))
        return 0;
    JSON_CLEANUP struct json *root = json_read_written(path, HISTORY_MAX, &err);
    bool is_last = root && json_int_at(root, "attempt", 0) == history->attempt - 1;
    int64_t step = is_last && json_is_at(root, "outcome", "completed")
                       ? json_int_at(root, "steps.last", 0)
                       : 0;
    return step > 0 ? (uint64_t)step : 0;
}

/* The last commit that this attempt can have known. A node that cannot see commit.json knows no
 * commits, so no limit applies. */
static uint64_t committed_by(const struct history *history, int64_t attempt)
{
    uint64_t step = 0;
    for (int i = 0; i < history->ncommits; i++)
        if (history->commits[i].attempt <= attempt)
            step = history->commits[i].step;
    return history->ncommits ? step : UINT64_MAX;
}

bool history_read_ranks(const struct history *history, const char *path, struct saves *saves,
                        struct err *err)
{
    int64_t attempt = 0, generation = 0;
    JSON_CLEANUP struct json *root = history_read_file(history, path, err);
    if (!root)
        return err->code == ERR_NONE;
    bool ok = read_count(root, "attempt", &attempt) && read_generation(root, &generation)
                  ? saves_read(saves, history->dir, path, root, err)
                  : err_set(err, ERR_USAGE, 0, "%s does not say which attempt wrote it", path);
    if (!ok)
        return err_wrap(err, "damaged record of earlier attempts (" FROM_SCRATCH ")");
    saves->attempt = attempt;
    saves->generation = generation;
    saves_forget_newer(saves, committed_by(history, attempt));
    return true;
}

/* -1: not a ranks file. */
static int node_of_file(const char *name)
{
    int node, end = 0;
    bool is_one = sscanf(name, "ranks.%d.json%n", &node, &end) == 1 && end > 0 && !name[end];
    return is_one && node >= 0 ? node : -1;
}

void history_each_ranks(const char *dir, history_ranks_fn *fn, void *ctx)
{
    char path[PATH_MAX];
    bool goes_on = true;
    DIR *stream = opendir(dir);
    for (struct dirent *entry; stream && goes_on && (entry = readdir(stream));) {
        int node = node_of_file(entry->d_name);
        path[0] = '\0';
        if (node >= 0 && str_addf(path, sizeof path, "%s/%s", dir, entry->d_name))
            goes_on = fn(ctx, node, path);
    }
    if (stream)
        closedir(stream);
}

static bool take_path(void *ctx, int node, const char *path)
{
    str_copy(ctx, PATH_MAX, path);
    return false;
}

void history_any_ranks(const char *dir, char path[PATH_MAX])
{
    path[0] = '\0';
    history_each_ranks(dir, take_path, path);
}

/* --- writing --- */

static void history_begin(const struct history *history, struct writer *w)
{
    writer_init(w, HISTORY_MAX, WRITER_PRETTY);
    writer_object(w, NULL);
    writer_int(w, "schema", HISTORY_SCHEMA);
    writer_text(w, "job", history->job);
}

static void write_attempt(const struct history *history, struct writer *w)
{
    writer_int(w, "attempt", history->attempt);
    writer_int(w, "epoch", history->epoch);
}

static void write_owner(const struct history *history, struct writer *w)
{
    writer_object(w, "owner");
    writer_text(w, "host", history->owner.host);
    writer_int(w, "pid", history->owner.pid);
    writer_text(w, "id", history->owner.id);
    writer_end(w);
}

void history_write_ranks(const struct history *history, const struct saves *saves, int node_rank,
                         uint64_t newest, struct writer *w)
{
    history_begin(history, w);
    writer_int(w, "node_rank", node_rank);
    write_attempt(history, w);
    if (node_rank > 0) /* node 0 cannot be replaced within an attempt */
        writer_int(w, "generation", history->generation);
    write_owner(history, w);
    saves_write(saves, history->dir, w, newest);
    writer_end(w);
}

void history_write_commits(const struct history *history, enum history_end end, struct writer *w)
{
    char at[40];
    int64_t without_commit =
        end == HISTORY_COMMITTED ? 0 : history->attempts_without_commit + (end == HISTORY_BEGUN);
    int64_t without_step = end == HISTORY_WITHOUT_STEP ? history->attempts_without_step + 1 : 0;
    history_begin(history, w);
    write_attempt(history, w);
    writer_int(w, "attempts_without_commit", without_commit);
    writer_int(w, "attempts_without_step", without_step);
    writer_int(w, "save_ns", history->save_ns);
    writer_int(w, "start_ns", history->start_ns);
    writer_int(w, "end_ns", history->end_ns);
    writer_int(w, "ran_ns", history->ran_ns);
    writer_int(w, "failures", history->failures);
    strikes_write(&history->strikes, w);
    write_owner(history, w);
    writer_list(w, "commits");
    for (int i = 0; i < history->ncommits; i++) {
        const struct history_commit *commit = &history->commits[i];
        writer_object(w, NULL);
        writer_int(w, "step", (int64_t)commit->step);
        writer_int(w, "attempt", commit->attempt);
        writer_int(w, "at_ns", commit->at);
        writer_text(w, "at", clock_iso8601(commit->at, at, sizeof at));
        if (commit->whole)
            writer_int(w, "whole_rank", commit->whole - 1);
        writer_end(w);
    }
    writer_end(w);
    writer_end(w);
}

/* --- the owner --- */

static void read_owner(const struct json *root, struct history_owner *ret)
{
    const struct json *owner = root ? json_find(root, "owner") : NULL;
    *ret = (struct history_owner){0};
    if (!owner)
        return;
    str_copy(ret->host, sizeof ret->host, json_text(json_find(owner, "host")));
    str_copy(ret->id, sizeof ret->id, json_text(json_find(owner, "id")));
    if (!json_int(json_find(owner, "pid"), &ret->pid))
        ret->pid = 0;
}

void history_make_id(uint64_t incarnation, char id[HISTORY_ID_SIZE])
{
    snprintf(id, HISTORY_ID_SIZE, "%016" PRIx64, incarnation);
}

bool history_read_id(const char *path, char id[HISTORY_ID_SIZE])
{
    struct history_owner owner;
    struct err err = {0};
    JSON_CLEANUP struct json *root = json_read_written(path, HISTORY_MAX, &err);
    read_owner(root, &owner);
    str_copy(id, HISTORY_ID_SIZE, owner.id);
    return root || err.sys_errno == ENOENT;
}

void history_owner_text(const char *path, const char *job, char *text, size_t size,
                        bool *ret_is_others)
{
    struct history_owner owner;
    struct err err;
    int64_t attempt;
    JSON_CLEANUP struct json *root = json_read_written(path, HISTORY_MAX, &err);
    const char *other = root ? json_text(json_find(root, "job")) : NULL;
    if (other && str_is(other, job))
        other = NULL;
    *ret_is_others = other;
    read_owner(root, &owner);
    if (owner.pid && read_count(root, "attempt", &attempt))
        snprintf(text, size, "attempt %" PRId64 "%s%s%s (process %" PRId64 " on %s)", attempt,
                 other ? " of job \"" : "", other ? other : "", other ? "\"" : "", owner.pid,
                 owner.host);
    else
        str_copy(text, size, "another pchrun");
}

int64_t history_attempt_in(const struct history *history, const char *path)
{
    struct err err;
    int64_t attempt;
    JSON_CLEANUP struct json *root = history_read_file(history, path, &err);
    return root && read_count(root, "attempt", &attempt) ? attempt : 0;
}

/* The writer of a file. */
struct writer_of {
    int64_t attempt, epoch, generation;
    struct history_owner owner;
};

static bool read_writer(const struct json *root, struct writer_of *ret)
{
    read_owner(root, &ret->owner);
    return root && read_count(root, "attempt", &ret->attempt) && read_epoch(root, &ret->epoch) &&
           read_generation(root, &ret->generation);
}

/* A replacement of this node begins in a later generation than the pchrun that it replaces has
 * seen. Without locks, two attempts that begin at the same instant have the same number: compare
 * their ids. */
static bool history_is_ours(const struct history *history, const struct writer_of *by)
{
    if (by->attempt != history->attempt)
        return by->attempt < history->attempt;
    if (by->epoch != history->epoch)
        return by->epoch < history->epoch;
    return by->generation < history->generation || !by->owner.id[0] ||
           str_is(by->owner.id, history->owner.id);
}

/* The writer has replaced this pchrun. */
static bool refuse_writer(const struct history *history, const struct writer_of *by,
                          struct err *err)
{
    char who[128] = "";
    if (by->owner.pid)
        str_addf(who, sizeof who, " (process %" PRId64 " on %s)", by->owner.pid, by->owner.host);
    if (by->attempt == history->attempt && by->epoch != history->epoch)
        return err_set(err, ERR_REPLACED, 0,
                       "another node 0%s, of epoch %" PRId64 ", has taken over the job; this one, "
                       "of epoch %" PRId64 ", records nothing more and ends",
                       who, by->epoch, history->epoch);
    if (by->attempt == history->attempt && by->generation != INT64_MAX)
        return err_set(err, ERR_REPLACED, 0,
                       "another pchrun%s has taken this node's place in generation %" PRId64
                       "; this one records nothing more and ends",
                       who, by->generation);
    return err_set(err, ERR_REPLACED, 0,
                   "attempt %" PRId64 "%s has taken over the job; this one, attempt %" PRId64
                   ", records nothing more and ends",
                   by->attempt, who, history->attempt);
}

bool history_check(const struct history *history, const char *path, struct err *err)
{
    struct writer_of by = {0};
    JSON_CLEANUP struct json *root = history_read_file(history, path, err);
    /* A missing file has no other owner. If its directory is bad, the write that follows reports
     * that. */
    if (!root && (err->code == ERR_NONE || err->sys_errno == ENOTDIR)) {
        *err = (struct err){0};
        return true;
    }
    if (!read_writer(root, &by))
        return err_set(err, ERR_SYSTEM, err->sys_errno,
                       "cannot tell whether another attempt has taken over, from '%s'", path);
    return history_is_ours(history, &by) || refuse_writer(history, &by, err);
}
