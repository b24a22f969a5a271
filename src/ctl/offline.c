/* SPDX-License-Identifier: Apache-2.0
 * See ctl.h. Makes an answer of the files of a job, in the form of a supervisor's answer: the
 * reports of the nodes have the state as of their last change, the ledger has a line a minute, and
 * node 0's commit.json the step at which the next attempt begins. So the same words and tables
 * follow from it. A rank's speed and the time of its last step are missing.
 */
#include "ctl/ctl.h"

#include "base/clock.h"
#include "base/str.h"
#include "goodput/mark.h"
#include "json/writer.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { FILE_BYTES_MAX = 16 * 1024 * 1024, TAIL_BYTES = 64 * 1024 };

struct offline_report {
    struct json *root; /* NULL: it cannot be read */
    char name[32], why[320];
    int64_t node, attempt;
    int64_t written_ns; /* CLOCK_REALTIME; 0: unknown */
};

struct offline {
    const struct ctl_options *options;
    char dir[PATH_MAX];             /* where the reports are */
    char path[PATH_MAX];            /* the only one, if its file is named, else "" */
    struct offline_report *reports; /* of one attempt, by node; then those that cannot be read */
    size_t n, room;
    const struct offline_report *job; /* stands for the job */
    struct {
        int64_t at_ms; /* 0: the attempt has no line */
        enum mark_kind kind;
        int64_t generation; /* in which this kind began */
        uint64_t step;      /* the highest known; 0: unknown */
    } ledger;
};

/* --- the reports --- */

/* NULL: *err. */
static struct json *offline_read(const char *path, struct err *err)
{
    struct json *root = json_read_written(path, FILE_BYTES_MAX, err);
    const struct json *found = json_at(root, "version");
    int64_t version = REPORT_VERSION;
    if (!root)
        str_addf(err->text, sizeof err->text, "%s",
                 strstr(err->text, JSON_DAMAGED)
                     ? "; a running pchrun replaces it at the next change of state"
                     : "");
    else if (!json_is_at(root, "schema", REPORT_SCHEMA) || (found && !json_int(found, &version)))
        err_set(err, ERR_USAGE, 0, "%s is not a report of pchrun", path);
    else if (version != REPORT_VERSION)
        err_set(err, ERR_USAGE, 0,
                "%s is a report of version %" PRId64 ", and this pchctl reads only version %d; use "
                "the pchctl of that pchrun",
                path, version, REPORT_VERSION);
    else
        return root;
    json_free(root);
    return NULL;
}

/* Keeps also why a report cannot be read. False: no memory. */
static bool offline_keep(struct offline *offline, const char *name, const char *path, int64_t node,
                         struct err *err)
{
    if (offline->n == offline->room) {
        size_t room = offline->room ? 2 * offline->room : 16;
        void *more = reallocarray(offline->reports, room, sizeof *offline->reports);
        if (!more)
            return err_set(err, ERR_SYSTEM, ENOMEM, "cannot read %s", path);
        offline->reports = more;
        offline->room = room;
    }
    struct offline_report *report = &offline->reports[offline->n++];
    *report = (struct offline_report){.root = offline_read(path, err), .node = node};
    str_copy(report->name, sizeof report->name, name);
    if (!report->root) {
        str_fit(report->why, sizeof report->why, err->text);
        return true;
    }
    report->node = json_int_at(report->root, "node_rank", 0);
    report->attempt = json_int_at(report->root, "attempt", 0);
    if (!date_parse(json_text_at(report->root, "written"), &report->written_ns))
        report->written_ns = 0;
    return true;
}

/* "report.7.json": 7. -1: another file. */
static int64_t node_of(const char *name)
{
    char number[16] = "";
    int64_t node;
    int len = 0;
    if (sscanf(name, "report.%15[0-9].json%n", number, &len) != 1 || len == 0 || name[len])
        return -1;
    return str_to_i64(number, 0, INT32_MAX, &node) ? node : -1;
}

/* False: the directory cannot be read. */
static bool offline_look_in(struct offline *offline, const char *dir, struct err *err)
{
    char path[PATH_MAX];
    bool ok = true;
    struct dirent *entry;
    DIR *stream = opendir(dir);
    if (!stream && errno == EACCES)
        return openfile_denied("report", dir, err);
    while (ok && stream && (entry = readdir(stream))) {
        int64_t node = node_of(entry->d_name);
        if (node >= 0 && snprintf(path, sizeof path, "%s/%s", dir, entry->d_name) < PATH_MAX)
            ok = offline_keep(offline, entry->d_name, path, node, err);
    }
    if (stream)
        closedir(stream);
    str_copy(offline->dir, sizeof offline->dir, dir);
    return ok;
}

/* `place`: a report, a state directory, or the checkpoint directory with a state directory. */
static bool offline_find(struct offline *offline, const char *place, struct err *err)
{
    char dir[PATH_MAX];
    struct stat st = {0};
    if (stat(place, &st) != 0 && errno == EACCES)
        return openfile_denied("report", place, err);
    if (S_ISREG(st.st_mode)) {
        const char *slash = strrchr(place, '/');
        snprintf(offline->dir, sizeof offline->dir, "%.*s", slash ? (int)(slash - place) : 1,
                 slash ? place : ".");
        str_copy(offline->path, sizeof offline->path, place);
        return offline_keep(offline, "", place, 0, err);
    }
    return snprintf(dir, sizeof dir, "%s/.pchrun", place) >= PATH_MAX ||
           (offline_look_in(offline, dir, err) &&
            (offline->n > 0 || offline_look_in(offline, place, err)));
}

static int compare_reports(const void *a, const void *b)
{
    const struct offline_report *x = a, *y = b;
    if (!x->root != !y->root)
        return x->root ? -1 : 1;
    if (x->attempt != y->attempt)
        return x->attempt > y->attempt ? -1 : 1;
    return (x->node > y->node) - (x->node < y->node);
}

static bool offline_is_over(const struct offline_report *report)
{
    return json_is_at(report->root, "state", "done");
}

/* NULL: none of this node can be read. The node -1: of the lowest one. */
static struct offline_report *offline_find_node(const struct offline *offline, int node)
{
    for (size_t i = 0; i < offline->n; i++)
        if (offline->reports[i].root && (node < 0 || offline->reports[i].node == node))
            return &offline->reports[i];
    return NULL;
}

/* A disk of one node may have older reports, from when the node had another number. */
static void keep_one_attempt(struct offline *offline, int64_t attempt)
{
    size_t n = 0;
    for (size_t i = 0; i < offline->n; i++)
        if (!offline->reports[i].root || offline->reports[i].attempt == attempt)
            offline->reports[n++] = offline->reports[i];
        else
            json_free(offline->reports[i].root);
    offline->n = n;
}

static bool offline_has_none(const struct offline *offline, const char *place, struct err *err)
{
    char node[32] = "";
    struct stat st;
    for (size_t i = 0; i < offline->n; i++)
        if (!offline->reports[i].root &&
            (offline->options->node < 0 || offline->options->node == offline->reports[i].node))
            return err_set(err, ERR_USAGE, 0, "%s", offline->reports[i].why);
    if (offline->options->node >= 0)
        str_addf(node, sizeof node, " of node %d", offline->options->node);
    if (offline->options->is_quiet)
        return err_set(err, ERR_USAGE, 0, "no report%s is in %s yet", node, place);
    return err_set(err, ERR_USAGE, 0,
                   "no report%s is in %s; give the job's checkpoint.dir or state_dir, or the file "
                   "of --report: pchctl status DIR%s",
                   node, place,
                   stat(place, &st) == 0 ? "" : "; or choose a running job by --job NAME");
}

/* False: no report stands for the job. */
static bool offline_choose(struct offline *offline, const char *place, struct err *err)
{
    if (offline->n)
        qsort(offline->reports, offline->n, sizeof *offline->reports, compare_reports);
    const struct offline_report *found = offline_find_node(offline, offline->options->node);
    if (!found)
        return offline_has_none(offline, place, err);
    int64_t node = found->node;
    keep_one_attempt(offline, found->attempt);
    offline->job = offline_find_node(offline, (int)node);
    return true;
}

/* Node 0 waits for the replacement of this node. */
static bool offline_is_lost(const struct offline *offline, const struct offline_report *of)
{
    const struct json *node = json_items_at(offline->job->root, "waits_for.nodes");
    for (; node; node = json_next(node))
        if (json_int_at(node, "node_rank", -1) == of->node)
            return true;
    return false;
}

/* A node that tells no end was killed, or its machine was. */
static bool offline_is_gone(const struct offline *offline, const struct offline_report *of)
{
    return of->root && !offline_is_over(of) &&
           (offline_is_over(offline->job) || offline_is_lost(offline, of));
}

/* The job goes on without a node that has left, or was given up and came back. */
static bool offline_ends_job(const struct offline *offline, const struct offline_report *of)
{
    return offline_is_over(of) && !offline_is_lost(offline, of) &&
           json_int_at(of->root, "generation", 0) >=
               json_int_at(offline->job->root, "generation", 0);
}

/* If node 0 was killed, its report tells no end, but that of another node may. */
static void offline_take_end(struct offline *offline)
{
    int64_t since = offline->ledger.at_ms * NS_PER_MS;
    since = offline->job->written_ns > since ? offline->job->written_ns : since;
    for (size_t i = 0; i < offline->n && !offline_is_over(offline->job); i++)
        if (offline_ends_job(offline, &offline->reports[i]) &&
            offline->reports[i].written_ns > since)
            offline->job = &offline->reports[i];
}

/* The file of the report that stands for the job. */
static void offline_name_file(struct offline *offline)
{
    if (offline->path[0])
        return;
    if (!str_addf(offline->path, sizeof offline->path, "%s/%s", offline->dir, offline->job->name))
        offline->path[0] = '\0';
}

static bool offline_is_meant(const struct offline *offline, struct err *err)
{
    const char *job = offline->options->job;
    return !job || json_is_at(offline->job->root, "job", job) ||
           err_set(err, ERR_USAGE, 0, "%s is the report of job %s, not of job %s", offline->path,
                   json_text_at(offline->job->root, "job"), job);
}

/* --- the ledger --- */

static void offline_take_mark(struct offline *offline, const struct mark *mark)
{
    const struct json *report = offline->job->root;
    bool begins = mark->kind != MARK_TICK && mark->kind != MARK_COMMIT && mark->kind != MARK_NONE;
    if (mark->attempt != offline->job->attempt)
        return;
    offline->ledger.at_ms = mark->at_ms;
    if (begins) {
        offline->ledger.kind = mark->kind;
        offline->ledger.generation = mark->generation;
    }
    if (mark->generation == json_int_at(report, "generation", 0) &&
        mark->step > offline->ledger.step)
        offline->ledger.step = mark->step;
}

/* Only the newest lines tell what the job does. */
static void read_ledger_tail(struct offline *offline)
{
    char path[PATH_MAX], *line = NULL;
    size_t room = 0;
    ssize_t len;
    struct mark mark;
    bool is_damaged;
    FILE *file = snprintf(path, sizeof path, "%s/" MARK_FILE, offline->dir) < PATH_MAX
                     ? openfile_text(path)
                     : NULL;
    if (!file)
        return;
    /* A file that is shorter is read from its begin. The first line may be cut, and its checksum
     * then is wrong. */
    if (fseek(file, -TAIL_BYTES, SEEK_END) != 0)
        rewind(file);
    while ((len = getline(&line, &room, file)) > 1) {
        bool is_whole = line[len - 1] == '\n';
        line[len - is_whole] = '\0';
        if (is_whole && mark_parse(line, (size_t)len - 1, &mark, &is_damaged))
            offline_take_mark(offline, &mark);
    }
    free(line);
    fclose(file);
}

/* --- the answer --- */

static int64_t offline_as_of(const struct offline *offline)
{
    int64_t at = offline->ledger.at_ms * NS_PER_MS;
    for (size_t i = 0; i < offline->n; i++)
        at = offline->reports[i].written_ns > at ? offline->reports[i].written_ns : at;
    return at;
}

/* The last commit, at which the next attempt resumes; 0: none, or unknown. Sets *err if the record
 * is damaged. */
static int64_t resume_step(const struct offline *offline, struct err *err)
{
    char path[PATH_MAX];
    int64_t step = 0;
    if (snprintf(path, sizeof path, "%s/commit.json", offline->dir) >= PATH_MAX)
        return 0;
    JSON_CLEANUP struct json *root = json_read_written(path, FILE_BYTES_MAX, err);
    const struct json *commits = json_find(root, "commits");
    if (!root && (err->sys_errno == ENOENT || err->sys_errno == EACCES))
        *err = (struct err){0};
    bool is_list = commits && json_kind(commits) == JSON_IS_LIST;
    for (const struct json *commit = json_first(commits); commit; commit = json_next(commit)) {
        step = json_int_at(commit, "step", 0);
        is_list = is_list && step > 0;
    }
    if (root && !is_list)
        err_set(err, ERR_USAGE, 0, "%s has no list of commits; " JSON_DAMAGED, path);
    return is_list ? step : 0;
}

/* In the generation of the report. */
static bool ledger_trains(const struct offline *offline)
{
    return offline->ledger.kind == MARK_TRAINING &&
           offline->ledger.generation == json_int_at(offline->job->root, "generation", 0);
}

/* The report has the ranks as they were last read, which may be before their first step. */
static bool offline_precedes_steps(const struct offline *offline)
{
    int starting = 0;
    const struct json *rank = json_items_at(offline->job->root, "ranks");
    for (; rank; rank = json_next(rank)) {
        if (json_bool_at(rank, "attached") && !json_is_at(rank, "phase", "start"))
            return false;
        starting += json_bool_at(rank, "attached");
    }
    return starting > 0 && ledger_trains(offline);
}

static bool ledger_is_newer(const struct offline *offline)
{
    return offline->ledger.at_ms * NS_PER_MS > offline->job->written_ns ||
           offline_precedes_steps(offline);
}

static bool is_state(const struct json *member)
{
    return str_is(json_key(member), "state") || str_is(json_key(member), "attached");
}

/* The ledger knows a step of every node, so these ranks have begun. */
static bool is_old_phase(const struct json *member)
{
    return str_is(json_key(member), "phase") && str_is(json_text(member), "start");
}

/* Objects and lists are left out: a damaged report may nest them without an end. */
static void offline_add_rank(struct writer *w, const struct json *rank, bool is_gone,
                             bool has_begun)
{
    writer_object(w, NULL);
    for (const struct json *member = json_first(rank); member; member = json_next(member)) {
        if (json_kind(member) == JSON_IS_OBJECT || json_kind(member) == JSON_IS_LIST ||
            (is_gone && is_state(member)))
            continue;
        if (has_begun && is_old_phase(member))
            writer_text(w, "phase", NULL);
        else
            writer_json(w, json_key(member), member);
    }
    if (is_gone) {
        writer_text(w, "state", "gone");
        writer_bool(w, "attached", false);
    }
    writer_end(w);
}

static void offline_add_ranks(struct writer *w, const struct offline *offline)
{
    bool has_begun = ledger_is_newer(offline) && ledger_trains(offline);
    writer_list(w, "ranks");
    for (size_t i = 0; i < offline->n; i++) {
        const struct json *rank = json_items_at(offline->reports[i].root, "ranks");
        bool is_gone = offline_is_gone(offline, &offline->reports[i]);
        for (; rank; rank = json_next(rank))
            if (json_kind(rank) == JSON_IS_OBJECT)
                offline_add_rank(w, rank, is_gone, has_begun);
    }
    writer_end(w);
}

static void offline_add_node(struct writer *w, const struct offline *offline,
                             const struct offline_report *of)
{
    const struct json *report = of->root;
    const char *state = json_text_at(report, "state");
    bool is_gone = offline_is_gone(offline, of);
    int64_t attached = 0, low = INT64_MAX, high = 0;
    const struct json *rank = json_items_at(report, "ranks");
    for (; rank; rank = json_next(rank)) {
        int64_t step = json_int_at(rank, "step", 0);
        attached += json_bool_at(rank, "attached") && !is_gone;
        low = step < low ? step : low;
        high = step > high ? step : high;
    }
    bool runs = str_is(state, "running") || str_is(state, "saving");
    writer_object(w, NULL);
    writer_int(w, "node_rank", of->node);
    writer_text(w, "host", json_text_at(report, "host"));
    writer_text(w, "state",
                is_gone                    ? "gone"
                : runs                     ? "running"
                : str_is(state, "waiting") ? state
                                           : NULL);
    writer_int(w, "ranks_attached", attached);
    int64_t expected = json_int_at(report, "ranks_expected", -1);
    writer_int_if(w, "ranks_expected", expected, expected >= 0);
    writer_int(w, "lowest_step", low < INT64_MAX ? low : 0);
    writer_int(w, "highest_step", high);
    writer_bool(w, "ranks_known", report);
    writer_text(w, "ranks_unknown_why", report ? NULL : of->why);
    writer_end(w);
}

/* The ledger says what the job does if it is newer than the reports, or knows a first step. */
static void offline_add_ledger(struct writer *w, const struct offline *offline)
{
    if (!writer_object_if(w, "ledger", offline->ledger.at_ms))
        return;
    writer_text(w, "phase", ledger_is_newer(offline) ? mark_name(offline->ledger.kind) : NULL);
    writer_int(w, "step", (int64_t)offline->ledger.step);
    writer_end(w);
}

static void offline_add_all(struct writer *w, const struct offline *offline)
{
    char text[32];
    int64_t now = clock_real_ns(), as_of = offline_as_of(offline);
    bool is_silent = offline->ledger.at_ms && now - as_of > MARK_SILENT_MS * NS_PER_MS;
    writer_object(w, NULL);
    writer_int(w, "version", CONTROL_VERSION);
    writer_bool(w, "ok", true);
    writer_text(w, "host", json_text_at(offline->job->root, "host"));
    writer_text(w, "now", clock_iso8601(now, text, sizeof text));
    writer_text(w, "as_of", as_of > 0 ? clock_iso8601(as_of, text, sizeof text) : NULL);
    writer_text(w, "dir", offline->dir);
    writer_bool(w, "gone", is_silent && !offline_is_over(offline->job));
    struct err err = {0};
    int64_t step = resume_step(offline, &err);
    writer_int_if(w, "resume_step", step, step > 0 && (is_silent || offline_is_over(offline->job)));
    writer_text(w, "resume_unknown_why", err.code == ERR_NONE ? NULL : err.text);
    offline_add_ledger(w, offline);
    writer_text(w, "ranks_of", "files");
    offline_add_ranks(w, offline);
    writer_list(w, "nodes");
    int64_t nnodes = json_int_at(offline->job->root, "nnodes", INT64_MAX);
    for (size_t i = 0; i < offline->n; i++)
        if (offline->reports[i].root || offline->reports[i].node < nnodes)
            offline_add_node(w, offline, &offline->reports[i]);
    writer_end(w);
    writer_end(w);
}

/* The contents of the report; the caller frees them. NULL: *err. */
static char *read_text(const char *path, struct err *err)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = openfile_text(path);
    if (!file || getdelim(&text, &size, '\0', file) < 0) {
        err_set(err, ERR_SYSTEM, errno, "cannot read %s", path);
        free(text);
        text = NULL;
    }
    if (file)
        fclose(file);
    return text ? str_one_line(text) : NULL;
}

/* The report is copied as it is. */
static bool offline_compose(const struct offline *offline, struct answer *ret, struct err *err)
{
    struct writer w;
    size_t len = 0;
    char *line = NULL, *report = read_text(offline->path, err);
    if (!report)
        return false;
    writer_init(&w, CONTROL_ANSWER_MAX, WRITER_LINE);
    offline_add_all(&w, offline);
    const char *text = writer_done(&w, &len);
    int n = text ? asprintf(&line, "%.*s, \"report\": %s}", (int)len - 2, text, report) : -1;
    bool ok = n >= 0 ? answer_read(ret, line, (size_t)n, err)
                     : err_set(err, ERR_SYSTEM, ENOMEM, "cannot show %s", offline->path);
    writer_free(&w);
    free(n >= 0 ? line : NULL);
    free(report);
    return ok;
}

static bool offline_print(const struct offline *offline, struct err *err)
{
    struct answer answer = {0};
    const struct json *report = offline->job->root;
    bool ok = offline_compose(offline, &answer, err);
    /* In an answer, '?' stands for the ends of these lines. */
    char *said = strdup(json_text_at(report, "first_cause.stderr"));
    if (ok && offline->options->is_json) {
        printf("%s\n", answer.text);
    } else if (ok) {
        show_status(answer.root, said);
        ended_show(offline->dir, report);
    }
    free(said);
    answer_free(&answer);
    return ok;
}

static bool offline_load(struct offline *offline, struct err *err)
{
    const char *place = ended_place(offline->options);
    if (!offline_find(offline, place, err) || !offline_choose(offline, place, err))
        return false;
    read_ledger_tail(offline);
    if (offline->options->node < 0)
        offline_take_end(offline);
    offline_name_file(offline);
    return offline_is_meant(offline, err);
}

static void offline_free(struct offline *offline)
{
    for (size_t i = 0; i < offline->n; i++)
        json_free(offline->reports[i].root);
    free(offline->reports);
}

bool offline_show(const struct ctl_options *options, bool *ret_is_over, struct err *err)
{
    struct offline offline = {.options = options};
    bool ok = offline_load(&offline, err) && offline_print(&offline, err);
    if (ok)
        *ret_is_over = offline_is_over(offline.job);
    offline_free(&offline);
    return ok;
}

bool offline_answer(const struct ctl_options *options, struct answer *ret, struct err *err)
{
    struct offline offline = {.options = options};
    *ret = (struct answer){0};
    bool ok = offline_load(&offline, err) && offline_compose(&offline, ret, err);
    offline_free(&offline);
    return ok;
}
