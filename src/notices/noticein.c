/* SPDX-License-Identifier: Apache-2.0
 * See noticein.h.
 */
#include "notices/noticein.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "config/presets.h"
#include "os/program.h"
#include "json/writer.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TOPIC   "source"
#define WATCHER "pchrun-watch"

/* By then the commands run their main(). */
#define START_AFTER_NS (100 * NS_PER_MS)
#define FILE_MAX       (256 * 1024)

_Static_assert(CONFIG_NOTICE_NAME_MAX < sizeof((struct notice *)NULL)->source, "names fit");

/* --- the programs --- */

/* The names of the sources in pchrun-watch. */
static const char *const watched[CONFIG_NOTICE__COUNT] = {
    [CONFIG_NOTICE_GCE] = "gce",
    [CONFIG_NOTICE_AWS] = "aws",
    [CONFIG_NOTICE_AZURE] = "azure",
    [CONFIG_NOTICE_ALIBABA] = "alibaba",
    [CONFIG_NOTICE_POD] = "pod",
    [CONFIG_NOTICE_TENCENT] = "tencent",
    [CONFIG_NOTICE_SLURM] = "slurm",
    [CONFIG_NOTICE_FILE] = "file",
    [CONFIG_NOTICE_KUBERNETES] = "kubernetes",
};

bool noticein_is_watched(enum config_notice_kind kind)
{
    return watched[kind] != NULL;
}

static bool find_program(const struct config_notice *notice, char path[PATH_MAX], struct err *err)
{
    if (!watched[notice->kind])
        return program_find(notice->args[0], getenv("PATH"), path, PATH_MAX, err);
    return program_beside(WATCHER, path, PATH_MAX) ||
           program_find(WATCHER, getenv("PATH"), path, PATH_MAX, err);
}

static size_t count_args(char *const *args)
{
    size_t n = 0;
    while (args && args[n])
        n++;
    return n;
}

/* The program, then pchrun-watch's name of the source, then the arguments. Only the first text is
 * allocated; the others belong to the configuration. */
static char **make_argv(const struct config_notice *notice, const char *program)
{
    size_t n = 0, skipped = watched[notice->kind] ? 0 : 1;
    char **argv = calloc(count_args(notice->args) + 3, sizeof *argv);
    if (!argv || !(argv[n++] = strdup(program))) {
        free(argv);
        return NULL;
    }
    if (watched[notice->kind])
        argv[n++] = (char *)watched[notice->kind];
    for (size_t i = skipped; i < count_args(notice->args); i++)
        argv[n++] = notice->args[i];
    return argv;
}

static bool add_source(struct noticein *noticein, const struct config_notice *notice,
                       struct err *err)
{
    char program[PATH_MAX];
    struct source_options *source = &noticein->sources[noticein->count];
    if (!find_program(notice, program, err))
        return err_wrap(err, "the notice source %s", notice->name);
    *source = (struct source_options){.name = notice->name,
                                      .argv = make_argv(notice, program),
                                      .interval_ns = notice->interval_ns,
                                      .timeout_ns = notice->timeout_ns};
    noticein->count += source->argv != NULL;
    return source->argv || err_set(err, ERR_SYSTEM, ENOMEM, "cannot start");
}

static bool add_sources(struct noticein *noticein, const struct config *config, struct err *err)
{
    noticein->sources = calloc(CONFIG_NOTICES_MAX + 1, sizeof *noticein->sources);
    if (!noticein->sources)
        return err_set(err, ERR_SYSTEM, ENOMEM, "cannot start");
    for (size_t i = 0; i < config->nnotices; i++)
        if (config->notices[i].kind != CONFIG_NOTICE_AUTO &&
            !add_source(noticein, &config->notices[i], err))
            return false;
    return true;
}

/* --- the memory --- */

static bool recall(struct noticein *noticein, const struct config *config, const char *state_dir,
                   struct err *err)
{
    char path[PATH_MAX] = "";
    if (!str_addf(path, sizeof path, "%s/notices.%d.json", state_dir, config->cluster.node_rank))
        return err_set(err, ERR_USAGE, ENAMETOOLONG, "state_dir '%s'", state_dir);
    if (!handled_read(&noticein->handled, path, clock_real_ns(), err))
        log_warn(TOPIC, "starting with an empty list of notices that have ended an attempt: %s",
                 err->text);
    noticein->memory = (struct outfile){
        .topic = TOPIC, .loss = "pchrun forgets that this notice has ended an attempt"};
    return outfile_open(&noticein->memory, path, noticein->reap, noticein->loop->base, err);
}

static void remember(struct noticein *noticein)
{
    struct writer w;
    size_t len = 0;
    writer_init(&w, FILE_MAX, WRITER_PRETTY);
    handled_write(&noticein->handled, &w);
    const char *text = writer_done(&w, &len);
    outfile_write(&noticein->memory, text, len);
    writer_free(&w);
}

/* --- from the sources --- */

static void refuse(const struct noticein *noticein, const struct notice *notice, int count)
{
    log_warn(TOPIC,
             "%s: the notice \"%s\" has ended %d attempt%s of this job, and this node is still "
             "there, so it ends no other: the job saves before its deadline, and goes on; if it is "
             "to end the job, raise notices_repeat, or remove %s",
             notice->source, notice->id, count, count == 1 ? "" : "s", noticein->memory.file.path);
}

static void on_notice(void *ctx, const struct notice *notice)
{
    struct noticein *noticein = ctx;
    int count;
    enum handled_result result =
        noticein->memory.is_wanted
            ? handled_take(&noticein->handled, notice, clock_real_ns(), &count)
            : HANDLED_NEW;
    if (result == HANDLED_ENOUGH)
        refuse(noticein, notice, count);
    struct notice known = *notice;
    known.is_repeated = result != HANDLED_NEW;
    loop_post(noticein->loop, &(struct event){.type = EV_NOTICE, .notice = &known});
}

static void on_changed(void *ctx)
{
    struct noticein *noticein = ctx;
    loop_changed(noticein->loop);
}

static void on_start(void *ctx)
{
    struct noticein *noticein = ctx;
    notices_start(noticein->notices);
}

/* --- start and end --- */

static bool is_there(const struct noticein *noticein, const char *name)
{
    for (size_t i = 0; i < noticein->count; i++)
        if (str_is(noticein->sources[i].name, name))
            return true;
    return false;
}

/* Adds the sources that "auto" stands for. The user did not name them, so they may be missing. */
static void add_auto(struct noticein *noticein, struct config *config)
{
    struct err err;
    if (!presets_settle_notices(config, "", &err))
        log_warn(TOPIC, "%s", err.text);
    for (size_t i = 0; i < config->nnotices; i++)
        if (config->notices[i].kind != CONFIG_NOTICE_AUTO &&
            !is_there(noticein, config->notices[i].name) &&
            !add_source(noticein, &config->notices[i], &err))
            log_warn(TOPIC, "%s; its notices will not be seen (notices: auto)", err.text);
}

/* `level`: of the line that says that nothing is remembered; lower for "auto", which the user did
 * not name. */
static bool recall_if_needed(struct noticein *noticein, const struct config *config,
                             const char *state_dir, enum log_level level, struct err *err)
{
    if (noticein->count == 0 || config->notices_repeat == 0)
        return true;
    if (state_dir)
        return recall(noticein, config, state_dir, err);
    log_line(
        level, TOPIC,
        "without state_dir pchrun forgets which notices have ended an attempt; a notice that is "
        "repeated ends every attempt");
    return true;
}

bool noticein_init(struct noticein *noticein, const struct config *config, const char *state_dir,
                   struct err *err)
{
    noticein->handled = (struct handled){.job = config->job, .limit = config->notices_repeat};
    return add_sources(noticein, config, err) &&
           recall_if_needed(noticein, config, state_dir, LOG_INFO, err);
}

bool noticein_open(struct noticein *noticein, struct config *config, const char *state_dir,
                   struct err *err)
{
    struct event_base *base = noticein->loop->base;
    struct notices_calls calls = {on_notice, on_changed, noticein};
    bool has_recalled = noticein->count > 0;
    add_auto(noticein, config);
    if (noticein->count == 0)
        return true;
    /* The commands run already: a minor error must not end them. */
    if (!has_recalled && !recall_if_needed(noticein, config, state_dir, LOG_DEBUG, err))
        log_warn(TOPIC, "%s", err->text);
    noticein->dir = getcwd(NULL, 0);
    struct notices_options options = {noticein->sources, noticein->count, noticein->dir, environ};
    noticein->start = (struct watch){.fn = on_start, .ctx = noticein};
    if (!watch_clock(&noticein->start, base, err))
        return false;
    noticein->notices = notices_new(base, noticein->reap, &options, &calls, err);
    if (!noticein->notices)
        return false;
    watch_at(&noticein->start, clock_now_ns() + START_AFTER_NS);
    return true;
}

void noticein_end(struct noticein *noticein, const struct notice *by)
{
    if (!noticein->notices)
        return;
    watch_at(&noticein->start, CLOCK_NEVER);
    if (by && !is_there(noticein, by->source)) /* a person gave it */
        by = NULL;
    if (noticein->memory.is_wanted && handled_end(&noticein->handled, by, clock_real_ns()))
        remember(noticein);
    notices_end(noticein->notices);
}

bool noticein_is_busy(const struct noticein *noticein)
{
    return noticein->notices &&
           (outfile_is_busy(&noticein->memory) || notices_is_busy(noticein->notices));
}

void noticein_free(struct noticein *noticein)
{
    watch_end(&noticein->start);
    outfile_free(&noticein->memory);
    notices_free(noticein->notices);
    for (size_t i = 0; i < noticein->count; i++) {
        free(noticein->sources[i].argv[0]);
        free(noticein->sources[i].argv);
    }
    free(noticein->sources);
    free(noticein->dir);
    *noticein = (struct noticein){0};
}

void noticein_state(const struct noticein *noticein, size_t i, struct source_state *ret)
{
    if (noticein->notices)
        notices_state(noticein->notices, i, ret);
    else
        *ret = (struct source_state){
            .name = noticein->sources[i].name, .state = "off", .last_error = ""};
}
