/* SPDX-License-Identifier: Apache-2.0
 * See inbox.h.
 */
#include "notices/inbox.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "config/noticelist.h"
#include "config/presets.h"
#include "os/program.h"
#include "json/writer.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#define TOPIC "source"

/* After this time the commands run their main(), so the sources do not delay them. */
#define START_AFTER_NS (100 * NS_PER_MS)
#define FILE_MAX       (256 * 1024)

_Static_assert(CONFIG_NOTICE_NAME_MAX < sizeof((struct notice *)NULL)->source, "names fit");

/* --- the programs --- */

static bool add_source(struct inbox *inbox, const struct config_notice *notice, struct err *err)
{
    char **argv = noticelist_is_program(notice->kind)
                      ? program_args(notice->args, getenv("PATH"), err)
                      : source_watcher_args(notice_kind_names[notice->kind],
                                            notice->args ? notice->args[0] : NULL, err);
    if (!argv)
        return err_wrap(err, "the notice source %s", notice->name);
    inbox->sources[inbox->count++] = (struct source){.name = notice->name,
                                                     .argv = argv,
                                                     .interval_ns = notice->interval_ns,
                                                     .timeout_ns = notice->timeout_ns};
    return true;
}

static bool is_there(const struct inbox *inbox, const char *name)
{
    for (size_t i = 0; i < inbox->count; i++)
        if (str_is(inbox->sources[i].name, name))
            return true;
    return false;
}

/* Adds those that are new. A source that the user did not name may be missing. */
static bool inbox_add_sources(struct inbox *inbox, const struct config *config, struct err *err)
{
    for (size_t i = 0; i < config->nnotices; i++) {
        const struct config_notice *notice = &config->notices[i];
        if (notice->kind == CONFIG_NOTICE_AUTO || is_there(inbox, notice->name) ||
            add_source(inbox, notice, err))
            continue;
        if (!notice->is_chosen)
            return false;
        log_warn(TOPIC, "%s; its notices will not be seen (notices: auto)", err->text);
    }
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
    inbox->memory = (struct outfile){.topic = TOPIC,
                                     .loss = "pchrun will not know that this notice has ended an "
                                             "attempt; it may end the next one, too"};
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
             "%s: the notice \"%s\" has ended %d attempt%s of this job, but this node still runs. "
             "So the job saves before the deadline and goes on. To let the notice end the job "
             "again, raise notices_repeat or remove %s",
             notice->source, notice->id, count, count == 1 ? "" : "s", inbox->memory.file.path);
}

static void inbox_on_notice(void *ctx, const struct notice *notice)
{
    struct inbox *inbox = ctx;
    int count;
    enum pastnotices_result result =
        inbox->memory.file.path
            ? pastnotices_take(&inbox->pastnotices, notice, clock_real_ns(), &count)
            : HANDLED_NEW;
    if (result == HANDLED_ENOUGH)
        inbox_refuse(inbox, notice, count);
    struct notice known = *notice;
    known.is_repeated = result != HANDLED_NEW;
    loop_post(inbox->loop, &(struct event){.type = EV_NOTICE, .notice = &known});
}

static void inbox_on_start(void *ctx)
{
    struct inbox *inbox = ctx;
    for (size_t i = 0; i < inbox->count; i++)
        source_start(&inbox->sources[i]);
}

/* --- start and end --- */

/* Adds the sources that "auto" stands for. A spare that has been called has settled them before. */
static void add_auto(struct inbox *inbox, struct config *config)
{
    struct err err;
    if (!noticelist_has(config, CONFIG_NOTICE_AUTO))
        return;
    if (!presets_settle_notices(config, "", &err) || !inbox_add_sources(inbox, config, &err))
        log_warn(TOPIC, "%s", err.text);
}

/* `level`: of the log line which says that past notices are not remembered. It is lower for "auto",
 * because the user did not name these sources. */
static bool recall_if_needed(struct inbox *inbox, const struct config *config,
                             const char *state_dir, enum log_level level, struct err *err)
{
    if (inbox->count == 0 || inbox->forgets || config->notices_repeat == 0)
        return true;
    if (state_dir)
        return recall(inbox, config, state_dir, err);
    log_line(level, TOPIC,
             "without state_dir pchrun forgets which notices have ended an attempt; a repeated "
             "notice ends every attempt");
    return true;
}

bool inbox_init(struct inbox *inbox, const struct config *config, const char *state_dir,
                struct err *err)
{
    inbox->pastnotices =
        (struct pastnotices){.job = config_job_identity(config), .limit = config->notices_repeat};
    inbox->sources = calloc(CONFIG_NOTICES_MAX + 1, sizeof *inbox->sources);
    if (!inbox->sources)
        return err_set(err, ERR_SYSTEM, ENOMEM, "cannot start the notice sources");
    return inbox_add_sources(inbox, config, err) &&
           recall_if_needed(inbox, config, state_dir, LOG_INFO, err);
}

bool inbox_open(struct inbox *inbox, struct config *config, const char *state_dir, struct err *err)
{
    bool has_recalled = inbox->count > 0;
    add_auto(inbox, config);
    if (inbox->count == 0)
        return true;
    /* The commands run already: a minor error must not end them. */
    if (!has_recalled && !recall_if_needed(inbox, config, state_dir, LOG_DEBUG, err))
        log_warn(TOPIC, "%s", err->text);
    inbox->world = (struct source_world){
        .loop = inbox->loop, .reap = inbox->reap, .notice = inbox_on_notice, .ctx = inbox};
    if (!source_world_init(&inbox->world, err))
        return false;
    for (size_t i = 0; i < inbox->count; i++)
        source_open(&inbox->sources[i], &inbox->world);
    watch_init(&inbox->start, inbox->loop->base, inbox_on_start, inbox);
    watch_at(&inbox->start, clock_now_ns() + START_AFTER_NS);
    return true;
}

void inbox_end(struct inbox *inbox, const struct notice *by)
{
    if (!inbox->start.is_open)
        return;
    watch_at(&inbox->start, CLOCK_NEVER);
    if (by && !is_there(inbox, by->source)) /* a person gave the notice, not a source */
        by = NULL;
    if (inbox->memory.file.path && pastnotices_end(&inbox->pastnotices, by, clock_real_ns()))
        remember(inbox);
    for (size_t i = 0; i < inbox->count; i++)
        source_end(&inbox->sources[i]);
}

bool inbox_is_busy(const struct inbox *inbox)
{
    for (size_t i = 0; i < inbox->count; i++)
        if (inbox->sources[i].phase == SOURCE_ENDING)
            return true;
    return outfile_is_busy(&inbox->memory);
}

void inbox_free(struct inbox *inbox)
{
    watch_end(&inbox->start);
    outfile_free(&inbox->memory);
    for (size_t i = 0; i < inbox->count; i++)
        source_free(&inbox->sources[i]);
    free(inbox->sources);
    source_world_free(&inbox->world);
    *inbox = (struct inbox){0};
}
