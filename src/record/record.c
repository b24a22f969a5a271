/* SPDX-License-Identifier: Apache-2.0
 * See record.h.
 */
#include "record/record.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "record/recordfile.h"
#include "record/recordwriter.h"
#include "record/stepback.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#define DIRECTORY_AWAY(record) \
    ((record)->is_shared ? "the directory away" : "every node's directory away")

static bool ranks_path(const struct record *record, int node, char *path, size_t size)
{
    path[0] = '\0';
    return str_addf(path, size, "%s/ranks.%d.json", record->dir, node);
}

/* --- what was saved where --- */

static void keep_committed(struct record *record, uint64_t step)
{
    record->saves.committed = step;
    saves_trim(&record->saves, record->keep);
}

/* A node may have read commit.json when node 0 of the attempt before had not yet written its last
 * commit. Then the node's own save of that step seemed uncommitted, and was forgotten. */
static void read_again(struct record *record)
{
    struct history history = record->history;
    struct saves saves = {0};
    struct err err;
    history.ncommits = 0;
    if (!history_read_commits(&history, record->commits.file.path, &err) ||
        !history_read_ranks(&history, record->ranks.file.path, &saves, &err)) {
        log_warn("record", "%s", err.text);
        saves_free(&saves);
        return;
    }
    saves_free(&record->saves);
    record->saves = saves;
    record->history = history;
}

void record_begin(struct record *record, int64_t attempt, int64_t generation, uint64_t resume_step)
{
    if (record->dir && record->node_rank > 0 && !record->has_begun &&
        history_last_step(&record->history) != resume_step)
        read_again(record);
    record->history.attempt = attempt;
    record->history.generation = generation;
    if (record->resume_step != resume_step) {
        saves_free(&record->others);
        record->others = (struct saves){0};
        record->has_read_first = record->has_read_all = false;
    }
    record->resume_step = resume_step;
    saves_forget_newer(&record->saves, resume_step);
    keep_committed(record, resume_step);
    record->has_begun = true;
}

void record_saved(struct record *record, int rank, uint64_t step, const char *path)
{
    if (!saves_add(&record->saves, step, record->world, rank, path))
        log_error("record",
                  "out of memory: pchrun forgets where rank %d saved step %" PRIu64
                  " and cannot commit it",
                  rank, step);
}

/* Copies the saves of `resume_step` from this ranks file to `others`. */
static bool look_into(void *ctx, int node, const char *path)
{
    struct record *record = ctx;
    struct saves found = {0};
    struct err err;
    if (!history_read_ranks(&record->history, path, &found, &err))
        log_warn("record", "%s", err.text);
    const struct saves_step *step = saves_find(&found, record->resume_step);
    for (int i = 0; step && i < step->nranks; i++)
        if (!saves_add(&record->others, step->step, step->world, step->ranks[i].rank,
                       step->ranks[i].path))
            log_error("record", "out of memory: where rank %d saved step %" PRIu64 " is not known",
                      step->ranks[i].rank, step->step);
    saves_free(&found);
    return true;
}

/* Most often a rank of node 0 has saved for all. NULL: node 0's file does not have the step. */
static const struct saves_step *look_into_first(struct record *record)
{
    char path[PATH_MAX];
    if (!record->has_read_first && ranks_path(record, 0, path, sizeof path))
        look_into(record, 0, path);
    record->has_read_first = true;
    return saves_find(&record->others, record->resume_step);
}

/* Reads all files: the attempt that saved may have had more nodes, or ranks on other nodes. */
static const struct saves_step *look_into_all(struct record *record)
{
    if (!record->has_read_all)
        history_each_ranks(record->dir, look_into, record);
    record->has_read_all = true;
    return saves_find(&record->others, record->resume_step);
}

/* Looks into other nodes' files. NULL: the other nodes' files name no path that this rank can use.
 */
static const char *path_elsewhere(struct record *record, int rank, bool is_known)
{
    bool is_there;
    const struct saves_step *step = look_into_first(record);
    const char *path = saves_path(step, rank, &is_there);
    if (!path && (!(is_known || is_there) || !saves_any_path(step))) {
        step = look_into_all(record);
        path = saves_path(step, rank, &is_there);
    }
    /* The rank had a part in the save, and the file with its path is lost. Another rank's path
     * holds only that rank's part. */
    if (!path && !is_known && !is_there && step && rank < step->world)
        return NULL;
    if (path || is_known || is_there)
        return path ? path : saves_any_path(step);
    path = saves_common_path(step);
    if (!path && saves_any_path(step))
        log_warn("record",
                 "rank %d had no part in the save of step %" PRIu64
                 ", and each rank saved to its own path; this rank gets no path",
                 rank, record->resume_step);
    return path;
}

/* The path of the one rank whose save is the whole checkpoint. *ret_known: it has saved the step.
 */
static const char *whole_path(struct record *record, uint32_t whole, uint64_t step, bool *ret_known)
{
    int rank = (int)whole - 1;
    const char *path = saves_path(saves_find(&record->saves, step), rank, ret_known);
    bool looks = record->dir && record->is_shared && step == record->resume_step;
    if (!*ret_known && looks)
        path = saves_path(look_into_first(record), rank, ret_known);
    if (!*ret_known && looks)
        path = saves_path(look_into_all(record), rank, ret_known);
    return path;
}

const char *record_path(struct record *record, int rank, uint64_t step)
{
    bool is_known;
    uint32_t whole = history_whole(&record->history, step);
    if (whole)
        return whole_path(record, whole, step, &is_known);
    const struct saves_step *own = saves_find(&record->saves, step);
    const char *path = saves_path(own, rank, &is_known);
    if (path || step == 0 || !record->dir)
        return path;
    if (record->is_shared && step == record->resume_step)
        path = path_elsewhere(record, rank, is_known);
    return path || !is_known ? path : saves_any_path(own);
}

int record_least_world(struct record *record, int *ret_world)
{
    record->resume_step = history_last_step(&record->history);
    const struct saves_step *step = saves_find(&record->saves, record->resume_step);
    if (record->dir && record->is_shared && record->resume_step &&
        !(step && step->nranks == step->world))
        step = look_into_all(record);
    *ret_world = step ? step->world : 0;
    return history_whole(&record->history, record->resume_step) ? 0 : saves_least_world(step);
}

/* --- lost files --- */

static bool lost(const struct record *record, const char *who, struct err *err)
{
    return err_set(err, ERR_SYSTEM, 0,
                   "step %" PRIu64
                   " is committed, but %s/ranks.%d.json does not tell where %s saved "
                   "it%s; put that file back, or, to start from scratch, move %s",
                   record->resume_step, record->dir, record->node_rank, who,
                   record->is_shared ? ", nor does another node's file there"
                                     : " (checkpoint.shared is off, so this node has a disk of its "
                                       "own)",
                   DIRECTORY_AWAY(record));
}

static bool check_node(struct record *record, struct err *err)
{
    char who[64] = "its ranks";
    if (saves_find(&record->saves, record->resume_step))
        return true;
    if (!record->is_shared)
        return lost(record, who, err);
    const struct saves_step *step = look_into_all(record);
    int missing = step ? saves_missing(step) : -1;
    if (step && missing >= 0)
        snprintf(who, sizeof who, "rank %d of %d", missing, step->world);
    return (step && missing < 0) || lost(record, who, err);
}

/* False: the attempt that wrote this node's file is missing in node 0's commit.json. Two attempts
 * would then have the same number. A replacement of this node finds the file of its own attempt. */
static bool check_count(const struct record *record, struct err *err)
{
    bool is_replacement = record->saves.attempt == record->history.attempt &&
                          record->saves.generation < record->history.generation;
    return record->saves.attempt < record->history.attempt || is_replacement ||
           err_set(err, ERR_USAGE, 0,
                   "%s was written by attempt %" PRId64
                   ", but node 0 counts this attempt as %" PRId64
                   ": node 0 has lost its commit.json; put that file back, or, to start from "
                   "scratch, move %s",
                   record->ranks.file.path, record->saves.attempt, record->history.attempt,
                   DIRECTORY_AWAY(record));
}

bool record_check_rank(struct record *record, int rank, struct err *err)
{
    char who[64];
    bool is_known;
    const struct saves_step *own = saves_find(&record->saves, record->resume_step);
    if (record->dir && !check_count(record, err))
        return false;
    if (!record->dir || record->resume_step == 0)
        return true;
    uint32_t whole = history_whole(&record->history, record->resume_step);
    if (whole) {
        whole_path(record, whole, record->resume_step, &is_known);
        snprintf(who, sizeof who, "rank %u", whole - 1);
        return is_known || lost(record, who, err);
    }
    if (!own || rank == RECORD_ANY_RANK)
        return check_node(record, err);
    snprintf(who, sizeof who, "rank %d of %d", rank, own->world);
    saves_path(own, rank, &is_known);
    if (is_known || rank >= own->world)
        return true;
    if (!record->is_shared) /* if no rank named a path, none is needed */
        return !saves_any_path(own) || lost(record, who, err);
    saves_path(look_into_all(record), rank, &is_known);
    return is_known || lost(record, who, err);
}

const char *record_known_path(const struct record *record, uint64_t step)
{
    bool is_known;
    const struct saves_step *own = saves_find(&record->saves, step);
    uint32_t whole = history_whole(&record->history, step);
    const char *path = whole ? saves_path(own, (int)whole - 1, &is_known) : NULL;
    return path ? path : saves_any_path(own);
}

/* --- writing --- */

bool record_is_busy(const struct record *record)
{
    return statefile_is_awaited(&record->commits.file) || statefile_is_awaited(&record->ranks.file);
}

static void record_answer(struct record *record, enum event_type type, const struct err *err)
{
    loop_post(record->loop,
              &(struct event){.type = type, .unwritten = err, .paths = record->paths});
}

static void on_ranks_written(void *ctx, uint64_t tag, const struct err *err)
{
    struct record *record = ctx;
    bool is_timed = record->ranks.deadline.at != CLOCK_NEVER;
    if (!recordfile_take_end(&record->ranks, tag))
        return;
    if (tag)
        record_answer(record, EV_PREPARED, err);
    else if (err && is_timed) /* of recordwriter_look_for_ranks() */
        log_warn("record", "%s", err->text);
}

/* `dir`: a node that has the state directory has this one, too; NULL: that is not known, so node 0
 * must not judge what this node can see. `whole`: as in ACT_PREPARE; then only its path matters. */
static enum peer_paths paths_of(const struct saves_step *saved, const char *dir, uint32_t whole)
{
    bool is_known;
    const char *path = whole ? saves_path(saved, (int)whole - 1, &is_known) : NULL;
    bool is_below = whole ? path && saves_below(dir, path) : saves_names_below(saved, dir);
    if (!whole && dir && !saves_any_path(saved))
        return PATHS_NONE;
    return is_below ? PATHS_SHARED : PATHS_OTHER;
}

void record_prepare(struct record *record, const struct action *action)
{
    uint64_t step = action->step;
    struct writer w;
    struct err err;
    const struct saves_step *saved = saves_find(&record->saves, step);
    if (!record->dir) {
        record_answer(record, EV_PREPARED, NULL);
        return;
    }
    if (!saved || saved->nranks < action->ranks) {
        err_set(&err, ERR_SYSTEM, 0,
                "pchrun no longer knows where the ranks of this node saved step %" PRIu64
                "; it keeps only %d saves that are not committed yet",
                step, SAVES_STEPS);
        record_answer(record, EV_PREPARED, &err);
        return;
    }
    saves_hold(&record->saves, step, action->own);
    record->paths = paths_of(saved, record->common_dir, action->whole);
    record->ranks.step = step;
    history_write_ranks(&record->history, &record->saves, record->node_rank, step, &w);
    if (!recordfile_write(&record->ranks, &w, step, &err))
        on_ranks_written(record, step, &err);
}

/* Tag 0: a write of the attempt counts only; record_open() waits for the first of them. */
static void on_commit_written(void *ctx, uint64_t tag, const struct err *err)
{
    struct record *record = ctx;
    if (tag == 0 && err)
        record->failure = *err;
    if (tag == 0 && err && record->has_start && !record->committed)
        log_warn("record", "this attempt may count as one without a commit: %s", err->text);
    if (!recordfile_take_end(&record->commits, tag) || tag == 0)
        return;
    if (err) { /* the file on disk still ends with the previous commit */
        record->history.ncommits--;
    } else {
        record->committed = tag;
        record->committed_at = clock_now_ns();
        record->loop->has_changed = true; /* after the end the core gets no event */
    }
    record_answer(record, EV_COMMITTED, err);
}

static void write_commits(struct record *record, uint64_t tag, enum history_end end)
{
    struct writer w;
    struct err err;
    history_write_commits(&record->history, end, &w);
    record->history.strikes.has_new = false;
    if (!recordfile_write(&record->commits, &w, tag, &err))
        on_commit_written(record, tag, &err);
}

/* Node 0 adds a commit when it writes it, the other nodes when they hear of it: a restart in place
 * looks for the paths of that commit in other nodes' files. */
static void add_commit(struct record *record, uint64_t step, uint32_t whole)
{
    struct history *history = &record->history;
    if (step <= history_last_step(history))
        return;
    history_make_room(history, record->keep);
    history->commits[history->ncommits++] = (struct history_commit){
        .step = step, .at = clock_real_ns(), .attempt = history->attempt, .whole = whole};
}

void record_commit(struct record *record, const struct action *action)
{
    uint64_t step = action->step;
    uint64_t last = history_last_step(&record->history);
    struct err err;
    if (!record->dir) {
        record_answer(record, EV_COMMITTED, NULL);
        return;
    }
    if (step <= last) {
        err_set(&err, ERR_USAGE, 0,
                "step %" PRIu64 " is not above the last commit, step %" PRIu64
                "; did the training go back to an earlier step?",
                step, last);
        record_answer(record, EV_COMMITTED, &err);
        return;
    }
    add_commit(record, step, action->whole);
    record->history.save_ns = action->save_ns;
    record->history.start_ns = action->start_ns;
    record->history.ran_ns = action->ran_ns;
    record->history.failures = action->failures;
    record->commits.step = step;
    write_commits(record, step, HISTORY_COMMITTED);
}

static void write_fact(struct record *record)
{
    if (record->dir && record->node_rank == 0)
        write_commits(record, 0, record->committed ? HISTORY_COMMITTED : record->without_commit);
}

void record_uncount(struct record *record, bool has_no_step)
{
    record->without_commit = has_no_step ? HISTORY_WITHOUT_STEP : HISTORY_UNCOUNTED;
    if (!record->committed)
        write_fact(record);
}

void record_note_end(struct record *record, int64_t end_ns)
{
    record->history.end_ns = end_ns;
    write_fact(record);
}

/* --- the writers --- */

/* Before record_open() no loop runs, so nothing can be watched. */
static bool record_watch(struct statefile *statefile, int answer, struct err *err)
{
    struct record_file *file = (struct record_file *)statefile;
    struct record *record = statefile->ctx;
    watch_end(&file->answer);
    return answer < 0 || !record->loop || watch_fd(&file->answer, answer, err);
}

static const struct statefile_standby record_standby = {recordwriter_pack, recordwriter_unpack,
                                                        record_watch};

void record_committed(struct record *record, uint64_t step, uint32_t whole)
{
    struct err err;
    add_commit(record, step, whole);
    keep_committed(record, step);
    if (!record->dir || record->node_rank == 0 || statefile_is_busy(&record->ranks.file))
        return;
    if (statefile_look(&record->ranks.file, 0, recordwriter_look_for_ranks, &err))
        recordfile_set_deadline(&record->ranks);
    else
        log_warn("record", "%s", err.text);
}

/* --- begin and end --- */

void record_end(struct record *record, int64_t until)
{
    if (record->history.strikes.has_new && record->commits.step == 0)
        write_fact(record);
    recordfile_hasten(&record->commits, until);
    recordfile_hasten(&record->ranks, until);
}

/* commit.json is written before anything starts. So ranks files alone mean that it was lost. */
static bool check_first(const struct record *record, struct err *err)
{
    char path[PATH_MAX] = "";
    if (record->node_rank == 0 && !record->history.is_there)
        history_any_ranks(record->dir, path);
    return !path[0] ||
           err_set(err, ERR_USAGE, 0,
                   "there is %s, but commit.json is missing, so no commit is known; put it back, "
                   "or, to start from scratch, move %s",
                   path, DIRECTORY_AWAY(record));
}

bool record_init(struct record *record, const struct config *config, const char *dir,
                 struct reap *reap, struct err *err)
{
    char path[PATH_MAX] = "", ranks[PATH_MAX];
    *record = (struct record){.dir = dir,
                              .node_rank = config->cluster.node_rank,
                              .keep = config->checkpoint.keep_records,
                              .is_shared = config->checkpoint.shared,
                              .common_dir = config->state_dir ? NULL : config->checkpoint.dir,
                              .history = {.job = config_job_identity(config),
                                          .dir = config->checkpoint.dir,
                                          .attempt = 1}};
    if (record->keep > HISTORY_COMMITS_MAX)
        record->keep = HISTORY_COMMITS_MAX;
    if (!dir)
        return true;
    if (!str_addf(path, sizeof path, "%s/" HISTORY_FILE, dir) ||
        !ranks_path(record, record->node_rank, ranks, sizeof ranks))
        return err_set(err, ERR_USAGE, ENAMETOOLONG, "state_dir '%s'", dir);
    record->commits.file = (struct statefile){.fn = on_commit_written,
                                              .check = recordwriter_check_commits,
                                              .standby = &record_standby,
                                              .ctx = record};
    record->ranks.file = (struct statefile){.fn = on_ranks_written,
                                            .check = recordwriter_check_ranks,
                                            .standby = &record_standby,
                                            .ctx = record};
    if (!history_read_commits(&record->history, path, err) ||
        !history_read_ranks(&record->history, ranks, &record->saves, err) ||
        !check_first(record, err) || !statefile_init(&record->commits.file, path, reap, err) ||
        !statefile_init(&record->ranks.file, ranks, reap, err))
        return false;
    stepback(&record->history, config, dir, reap);
    if (record->node_rank == 0)
        record->completed_step = history_completed_step(&record->history, dir);
    return true;
}

void record_free(struct record *record)
{
    recordfile_free(&record->commits);
    recordfile_free(&record->ranks);
    saves_free(&record->saves);
    saves_free(&record->others);
}

/* Writes the start of the attempt. May block: nothing has been started yet. */
static bool note_attempt(struct record *record, struct err *err)
{
    write_commits(record, 0, HISTORY_BEGUN);
    statefile_wait(&record->commits.file, RECORDFILE_WAIT_NS);
    record->has_start = record->failure.code == ERR_NONE;
    if (record->has_start)
        return true;
    *err = record->failure;
    return err_wrap(err, "nothing could be recorded, so nothing is started");
}

bool record_open(struct record *record, struct loop *loop, const struct core_params *params,
                 struct err *err)
{
    record->loop = loop;
    if (!record->dir)
        return true;
    str_copy(record->history.owner.host, sizeof record->history.owner.host, params->host);
    record->history.owner.pid = getpid();
    record->history.epoch = params->epoch;
    history_make_id(params->incarnation, record->history.owner.id);
    recordfile_open(&record->commits, loop->base);
    recordfile_open(&record->ranks, loop->base);
    return statefile_begin(&record->ranks.file, err) &&
           (record->node_rank != 0 || note_attempt(record, err));
}
