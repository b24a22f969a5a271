/* SPDX-License-Identifier: Apache-2.0
 * See inbox.h.
 */
#include "notices/inbox.h"

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

bool inbox_is_watched(enum config_notice_kind kind)
{
    return watched[kind] != NULL;
}

static bool inbox_find_program(const struct config_notice *notice, char path[PATH_MAX],
                               struct err *err)
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

static bool add_source(struct inbox *inbox, const struct config_notice *notice, struct err *err)
{
    char program[PATH_MAX];
    struct source_options *source = &inbox->sources[inbox->count];
    if (!inbox_find_program(notice, program, err))
        return err_wrap(err, "the notice source %s", notice->name);
    *source = (struct source_options){.name = notice->name,
                                      .argv = make_argv(notice, program),
                                      .interval_ns = notice->interval_ns,
                                      .timeout_ns = notice->timeout_ns};
    inbox->count += source->argv != NULL;
    return source->argv || err_set(err, ERR_SYSTEM, ENOMEM, "cannot start");
}

static bool inbox_add_sources(struct inbox *inbox, const struct config *config, struct err *err)
{
    inbox->sources = calloc(CONFIG_NOTICES_MAX + 1, sizeof *inbox->sources);
    if (!inbox->sources)
        return err_set(err, ERR_SYSTEM, ENOMEM, "cannot start");
    for (size_t i = 0; i < config->nnotices; i++)
        if (config->notices[i].kind != CONFIG_NOTICE_AUTO &&
            !add_source(inbox, &config->notices[i], err))
            return false;
    return true;
}

/* --- the memory --- */

static bool recall(struct inbox *inbox, const struct config *config, const char *state_dir,
                   struct err *err)
{
    char path[PATH_MAX] = "";
    if (!str_addf(path, sizeof path, "%s/notices.%d.json", state_dir, config->cluster.node_rank))
        return err_set(err, ERR_USAGE, ENAMETOOLONG, "state_dir '%s'", state_dir);
    if (!pastnotices_read(&inbox->pastnotices, path, clock_real_ns(), err))
        log_warn(TOPIC, "starting with an empty list of notices that have ended an attempt: %s",
                 err->text);
    inbox->memory = (struct outfile){
        .topic = TOPIC, .loss = "pchrun forgets that this notice has ended an attempt"};
    return outfile_open(&inbox->memory, path, inbox->reap, inbox->loop->base, err);
}

static void remember(struct inbox *inbox)
{
    struct writer w;
    size_t len = 0;
    writer_init(&w, FILE_MAX, WRITER_PRETTY);
    pastnotices_write(&inbox->pastnotices, &w);
    const char *text = writer_done(&w, &len);
    outfile_write(&inbox->memory, text, len);
    writer_free(&w);
}

/* --- from the sources --- */

static void inbox_refuse(const struct inbox *inbox, const struct notice *notice, int count)
{
    log_warn(TOPIC,
             "%s: the notice \"%s\" has ended %d attempt%s of this job, and this node is still "
             "there, so it ends no other: the job saves before its deadline, and goes on; if it is "
             "to end the job, raise notices_repeat, or remove %s",
             notice->source, notice->id, count, count == 1 ? "" : "s", inbox->memory.file.path);
}

static void inbox_on_notice(void *ctx, const struct notice *notice)
{
    struct inbox *inbox = ctx;
    int count;
    enum pastnotices_result result =
        inbox->memory.is_wanted
            ? pastnotices_take(&inbox->pastnotices, notice, clock_real_ns(), &count)
            : HANDLED_NEW;
    if (result == HANDLED_ENOUGH)
        inbox_refuse(inbox, notice, count);
    struct notice known = *notice;
    known.is_repeated = result != HANDLED_NEW;
    loop_post(inbox->loop, &(struct event){.type = EV_NOTICE, .notice = &known});
}

static void inbox_on_changed(void *ctx)
{
    struct inbox *inbox = ctx;
    inbox->loop->has_changed = true;
}

static void inbox_on_start(void *ctx)
{
    struct inbox *inbox = ctx;
    notices_start(inbox->notices);
}

/* --- start and end --- */

static bool is_there(const struct inbox *inbox, const char *name)
{
    for (size_t i = 0; i < inbox->count; i++)
        if (str_is(inbox->sources[i].name, name))
            return true;
    return false;
}

/* Adds the sources that "auto" stands for. The user did not name them, so they may be missing. */
static void add_auto(struct inbox *inbox, struct config *config)
{
    struct err err;
    if (!presets_settle_notices(config, "", &err))
        log_warn(TOPIC, "%s", err.text);
    for (size_t i = 0; i < config->nnotices; i++)
        if (config->notices[i].kind != CONFIG_NOTICE_AUTO &&
            !is_there(inbox, config->notices[i].name) &&
            !add_source(inbox, &config->notices[i], &err))
            log_warn(TOPIC, "%s; its notices will not be seen (notices: auto)", err.text);
}

/* `level`: of the line that says that nothing is remembered; lower for "auto", which the user did
 * not name. */
static bool recall_if_needed(struct inbox *inbox, const struct config *config,
                             const char *state_dir, enum log_level level, struct err *err)
{
    if (inbox->count == 0 || config->notices_repeat == 0)
        return true;
    if (state_dir)
        return recall(inbox, config, state_dir, err);
    log_line(
        level, TOPIC,
        "without state_dir pchrun forgets which notices have ended an attempt; a notice that is "
        "repeated ends every attempt");
    return true;
}

bool inbox_init(struct inbox *inbox, const struct config *config, const char *state_dir,
                struct err *err)
{
    inbox->pastnotices = (struct pastnotices){.job = config->job, .limit = config->notices_repeat};
    return inbox_add_sources(inbox, config, err) &&
           recall_if_needed(inbox, config, state_dir, LOG_INFO, err);
}

bool inbox_open(struct inbox *inbox, struct config *config, const char *state_dir, struct err *err)
{
    struct event_base *base = inbox->loop->base;
    struct notices_calls calls = {inbox_on_notice, inbox_on_changed, inbox};
    bool has_recalled = inbox->count > 0;
    add_auto(inbox, config);
    if (inbox->count == 0)
        return true;
    /* The commands run already: a minor error must not end them. */
    if (!has_recalled && !recall_if_needed(inbox, config, state_dir, LOG_DEBUG, err))
        log_warn(TOPIC, "%s", err->text);
    inbox->dir = getcwd(NULL, 0);
    struct notices_options options = {inbox->sources, inbox->count, inbox->dir, environ};
    inbox->start = (struct watch){.fn = inbox_on_start, .ctx = inbox};
    if (!watch_clock(&inbox->start, base, err))
        return false;
    inbox->notices = notices_new(base, inbox->reap, &options, &calls, err);
    if (!inbox->notices)
        return false;
    watch_at(&inbox->start, clock_now_ns() + START_AFTER_NS);
    return true;
}

void inbox_end(struct inbox *inbox, const struct notice *by)
{
    if (!inbox->notices)
        return;
    watch_at(&inbox->start, CLOCK_NEVER);
    if (by && !is_there(inbox, by->source)) /* a person gave it */
        by = NULL;
    if (inbox->memory.is_wanted && pastnotices_end(&inbox->pastnotices, by, clock_real_ns()))
        remember(inbox);
    notices_end(inbox->notices);
}

bool inbox_is_busy(const struct inbox *inbox)
{
    return inbox->notices && (outfile_is_busy(&inbox->memory) || notices_is_busy(inbox->notices));
}

void inbox_free(struct inbox *inbox)
{
    watch_end(&inbox->start);
    outfile_free(&inbox->memory);
    notices_free(inbox->notices);
    for (size_t i = 0; i < inbox->count; i++) {
        free(inbox->sources[i].argv[0]);
        free(inbox->sources[i].argv);
    }
    free(inbox->sources);
    free(inbox->dir);
    *inbox = (struct inbox){0};
}

void inbox_state(const struct inbox *inbox, size_t i, struct source_state *ret)
{
    if (inbox->notices)
        notices_state(inbox->notices, i, ret);
    else
        *ret =
            (struct source_state){.name = inbox->sources[i].name, .state = "off", .last_error = ""};
}
