/* SPDX-License-Identifier: Apache-2.0
 * See ctl.h. The report has the last attempt, the journal beside it the ends of all attempts, and
 * node 0's commit.json the step at which the next attempt begins.
 */
#include "ctl/ctl.h"

#include "base/clock.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SCHEMA "pchrun.report"

enum { FILE_BYTES_MAX = 16 * 1024 * 1024 };

struct ended {
    const struct ctl_options *options;
    char dir[PATH_MAX];  /* where the report is */
    char path[PATH_MAX]; /* the report; "": none was found */
    struct json *report; /* NULL: none was found */
};

/* --- the report --- */

/* Keeps the report of the latest attempt; of these, that of the lowest node. A disk of one node may
 * have older reports, from when the node had another number. */
static void ended_keep(struct ended *ended, const char *dir, const char *path, struct json *report)
{
    int64_t attempt = json_int_at(report, "attempt", 0);
    int64_t best = json_int_at(ended->report, "attempt", -1);
    bool is_lower =
        json_int_at(report, "node_rank", 0) < json_int_at(ended->report, "node_rank", INT64_MAX);
    if (attempt < best || (attempt == best && !is_lower)) {
        json_free(report);
        return;
    }
    json_free(ended->report);
    ended->report = report;
    str_copy(ended->dir, sizeof ended->dir, dir);
    str_copy(ended->path, sizeof ended->path, path);
}

static bool ended_read(struct ended *ended, const char *dir, const char *path, struct err *err)
{
    struct json *report = json_read_file(path, FILE_BYTES_MAX, err);
    if (!report)
        return false;
    if (!json_is_at(report, "schema", SCHEMA)) {
        json_free(report);
        return err_set(err, ERR_USAGE, 0, "%s is not a report of pchrun", path);
    }
    ended_keep(ended, dir, path, report);
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

/* False: a report is there, and cannot be read. */
static bool ended_look_in(struct ended *ended, const char *dir, struct err *err)
{
    char path[PATH_MAX];
    bool ok = true;
    struct dirent *entry;
    DIR *stream = opendir(dir);
    if (!stream && errno == EACCES)
        return err_set(err, ERR_SYSTEM, errno, "cannot look for a report in %s", dir);
    while (ok && stream && (entry = readdir(stream))) {
        int64_t node = node_of(entry->d_name);
        bool is_wanted = node >= 0 && (ended->options->node < 0 || node == ended->options->node);
        if (is_wanted && snprintf(path, sizeof path, "%s/%s", dir, entry->d_name) < PATH_MAX)
            ok = ended_read(ended, dir, path, err);
    }
    if (stream)
        closedir(stream);
    return ok;
}

/* `place`: a report, a state directory, or the checkpoint directory with a state directory. */
static bool ended_find(struct ended *ended, const char *place, struct err *err)
{
    char dir[PATH_MAX];
    struct stat st;
    if (stat(place, &st) == 0 && S_ISREG(st.st_mode)) {
        const char *slash = strrchr(place, '/');
        snprintf(dir, sizeof dir, "%.*s", slash ? (int)(slash - place) : 1, slash ? place : ".");
        return ended_read(ended, dir, place, err);
    }
    return snprintf(dir, sizeof dir, "%s/.pchrun", place) >= PATH_MAX ||
           (ended_look_in(ended, dir, err) && (ended->report || ended_look_in(ended, place, err)));
}

const char *ended_place(const struct ctl_options *options)
{
    const char *state = getenv("PCHRUN_STATE_DIR"), *checkpoint = getenv("PCHRUN_CHECKPOINT_DIR");
    if (options->path)
        return options->path;
    return state && *state ? state : checkpoint && *checkpoint ? checkpoint : ".";
}

static bool ended_is_meant(const struct ended *ended, const char *place, struct err *err)
{
    const char *job = ended->options->job;
    char node[32] = "";
    if (ended->options->node >= 0)
        str_addf(node, sizeof node, " of node %d", ended->options->node);
    if (!ended->report)
        return err_set(err, ERR_USAGE, 0,
                       "no report%s is in %s; give the job's checkpoint.dir or state_dir, or the "
                       "file of --report: pchctl report DIR",
                       node, place);
    return !job || json_is_at(ended->report, "job", job) ||
           err_set(err, ERR_USAGE, 0, "%s is the report of job %s, not of job %s", ended->path,
                   json_text_at(ended->report, "job"), job);
}

/* --- the attempts --- */

struct attempts {
    int64_t open; /* this attempt has started, and has no end yet; 0: none */
    int64_t last; /* the journal has it; 0: none */
};

/* Most lines are of other events, and are not read. */
static void ended_take_line(void *ctx, char *line, size_t len)
{
    struct attempts *attempts = ctx;
    struct answer event;
    struct err err;
    if (!strstr(line, "\"exit\"") && !strstr(line, "\"started\""))
        return;
    bool is_event = answer_read(&event, line, len, &err);
    int64_t attempt = is_event ? json_int_at(event.root, "attempt", 0) : 0;
    attempts->last = attempt > attempts->last ? attempt : attempts->last;
    if (attempts->open && attempt && attempt != attempts->open) {
        show_attempt(NULL, attempts->open);
        attempts->open = 0;
    }
    if (is_event && json_is_at(event.root, "event", "exit")) {
        show_attempt(event.root, 0);
        attempts->open = 0;
    } else if (is_event && json_is_at(event.root, "event", "started")) {
        attempts->open = attempt;
    }
    answer_free(&event);
}

/* If pchrun was killed, the journal may lack the attempt of the report. */
static void show_attempts(const struct ended *ended)
{
    struct attempts attempts = {0};
    show_attempt(NULL, 0);
    events_each(ended->dir, json_int_at(ended->report, "node_rank", 0), ended_take_line, &attempts);
    if (attempts.open)
        show_attempt(NULL, attempts.open);
    if (json_int_at(ended->report, "attempt", 0) > attempts.last &&
        !json_is_at(ended->report, "state", "done"))
        show_attempt(NULL, json_int_at(ended->report, "attempt", 0));
}

/* --- the text --- */

/* The last commit, at which the next attempt resumes; 0: none, or unknown. */
static int64_t resume_step(const struct ended *ended)
{
    char path[PATH_MAX];
    struct err err;
    int64_t step = 0;
    if (snprintf(path, sizeof path, "%s/commit.json", ended->dir) >= PATH_MAX)
        return 0;
    JSON_CLEANUP struct json *root = json_read_file(path, FILE_BYTES_MAX, &err);
    for (const struct json *commit = json_items_at(root, "commits"); commit;
         commit = json_next(commit))
        step = json_int_at(commit, "step", 0);
    return step;
}

/* The contents of the report; the caller frees them. NULL: *err. */
static char *read_text(const struct ended *ended, struct err *err)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = fopen(ended->path, "re");
    if (!file || getdelim(&text, &size, '\0', file) < 0) {
        err_set(err, ERR_SYSTEM, errno, "cannot read %s", ended->path);
        free(text);
        text = NULL;
    }
    if (file)
        fclose(file);
    return text;
}

/* The report in the form of an answer of pchrun. */
static bool ended_show_text(const struct ended *ended, const char *text, struct err *err)
{
    struct answer answer = {0};
    char now[32], *line = NULL;
    int len = asprintf(&line, "{\"now\":\"%s\",\"resume_step\":%" PRId64 ",\"report\":%s}",
                       clock_iso8601(clock_real_ns(), now, sizeof now), resume_step(ended), text);
    bool ok = len >= 0 ? answer_read(&answer, line, (size_t)len, err)
                       : err_set(err, ERR_SYSTEM, ENOMEM, "cannot show %s", ended->path);
    /* In an answer, '?' stands for the ends of these lines. */
    char *said = strdup(json_text_at(ended->report, "first_cause.stderr"));
    if (ok) {
        show_ended(answer.root, said);
        show_attempts(ended);
    }
    free(said);
    answer_free(&answer);
    free(len >= 0 ? line : NULL);
    return ok;
}

bool ended_show(const struct ctl_options *options, struct err *err)
{
    struct ended ended = {.options = options};
    const char *place = ended_place(options);
    char *text = NULL;
    bool ok = ended_find(&ended, place, err) && ended_is_meant(&ended, place, err) &&
              (text = read_text(&ended, err));
    if (ok && options->is_json)
        fputs(text, stdout);
    else if (ok)
        ok = ended_show_text(&ended, text, err);
    free(text);
    json_free(ended.report);
    return ok;
}
