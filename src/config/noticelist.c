/* SPDX-License-Identifier: Apache-2.0
 * See noticelist.h.
 */
#include "config/noticelist.h"

#include "base/clock.h"
#include "base/str.h"
#include "base/value.h"
#include "config/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INTERVAL_NS NS_PER_S
#define TIMEOUT_NS  (10 * NS_PER_S)
#define TIME_MIN_NS (100 * NS_PER_MS) /* the shortest time between two runs of a program */
#define TIME_MAX_NS (3600 * NS_PER_S)

const char *const notice_kind_names[] = {
    [CONFIG_NOTICE_AUTO] = "auto",       [CONFIG_NOTICE_GCE] = "gce",
    [CONFIG_NOTICE_AWS] = "aws",         [CONFIG_NOTICE_AZURE] = "azure",
    [CONFIG_NOTICE_ALIBABA] = "alibaba", [CONFIG_NOTICE_TENCENT] = "tencent",
    [CONFIG_NOTICE_POD] = "pod",         [CONFIG_NOTICE_SLURM] = "slurm",
    [CONFIG_NOTICE_FILE] = "file",       [CONFIG_NOTICE_KUBERNETES] = "kubernetes",
    [CONFIG_NOTICE_COMMAND] = "command", [CONFIG_NOTICE_POLL] = "poll",
    [CONFIG_NOTICE__COUNT] = "none",     NULL,
};

static bool is_word(enum config_notice_kind kind)
{
    return kind < CONFIG_NOTICE_FILE;
}

bool noticelist_is_program(enum config_notice_kind kind)
{
    return kind == CONFIG_NOTICE_COMMAND || kind == CONFIG_NOTICE_POLL;
}

static void free_notice(struct config_notice *notice)
{
    command_clear(&notice->args);
    free(notice->name);
    *notice = (struct config_notice){0};
}

/* Returns CONFIG_NOTICE__COUNT for an unknown name. */
static enum config_notice_kind find_kind(const char *name)
{
    int kind = 0;
    while (kind < CONFIG_NOTICE__COUNT && !str_is(notice_kind_names[kind], name))
        kind++;
    return (enum config_notice_kind)kind;
}

static bool unknown_source(const char *name, struct err *err)
{
    struct nearest nearest = nearest_to(name);
    for (int i = 0; i < CONFIG_NOTICE__COUNT; i++)
        nearest_consider(&nearest, "", notice_kind_names[i]);
    if (nearest.name[0])
        return err_set(err, ERR_USAGE, 0,
                       "there is no notice source \"%.40s\"; the nearest is \"%s\"", name,
                       nearest.name);
    return err_set(err, ERR_USAGE, 0,
                   "there is no notice source \"%.40s\"; there are auto, gce, aws, azure, alibaba, "
                   "tencent, pod, slurm, file, kubernetes, command and poll",
                   name);
}

/* A key of an object, such as {"poll": […]}. */
static bool unknown_member(const char *key, struct err *err)
{
    static const char *const others[] = {"name", "interval", "timeout"};
    struct nearest nearest = nearest_to(key);
    for (int i = CONFIG_NOTICE_FILE; i < CONFIG_NOTICE__COUNT; i++)
        nearest_consider(&nearest, "", notice_kind_names[i]);
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        nearest_consider(&nearest, "", others[i]);
    if (nearest.name[0])
        return err_set(err, ERR_USAGE, 0, "unknown key \"%.40s\"; the nearest is \"%s\"", key,
                       nearest.name);
    return err_set(err, ERR_USAGE, 0,
                   "unknown key \"%.40s\"; there are file, kubernetes, command, poll, name, "
                   "interval and timeout",
                   key);
}

static bool noticelist_is_taken(const struct config *config, const char *name)
{
    for (size_t i = 0; i < config->nnotices; i++)
        if (str_is(config->notices[i].name, name))
            return true;
    return false;
}

/* The name for people: a program's file name, else the kind. */
static const char *usual_name(const struct config_notice *notice)
{
    const char *base = noticelist_is_program(notice->kind) ? basename(notice->args[0]) : "";
    return *base && str_is_utf8(base) ? base : notice_kind_names[notice->kind];
}

/* The usual name; equal names get a number from the second on. */
static bool give_name(const struct config *config, struct config_notice *notice, struct err *err)
{
    const char *usual = usual_name(notice);
    char name[CONFIG_NOTICE_NAME_MAX + 1];
    int room = (int)str_fitting(usual, CONFIG_NOTICE_NAME_MAX - 3); /* 3 bytes for "-16" */
    snprintf(name, sizeof name, "%.*s", room, usual);
    for (int n = 2; noticelist_is_taken(config, name); n++)
        snprintf(name, sizeof name, "%.*s-%d", room, usual, n);
    return text_keep(&notice->name, strdup(name), err);
}

/* Checks the times after all members are read: they may come before the kind. */
static bool settle_times(struct config_notice *notice, struct err *err)
{
    bool is_poll = notice->kind == CONFIG_NOTICE_POLL;
    if (!is_poll && (notice->interval_ns || notice->timeout_ns))
        return err_set(err, ERR_USAGE, 0, "only poll takes %s",
                       notice->interval_ns ? "interval" : "timeout");
    if (is_poll && !notice->interval_ns)
        notice->interval_ns = INTERVAL_NS;
    if (is_poll && !notice->timeout_ns)
        notice->timeout_ns = TIMEOUT_NS;
    return true;
}

/* Checks whether the list may have this source beside its other sources. */
static bool check_new(const struct config *config, const struct config_notice *notice,
                      struct err *err)
{
    if (config->nnotices >= CONFIG_NOTICES_MAX)
        return err_set(err, ERR_USAGE, 0, "more than %d sources", CONFIG_NOTICES_MAX);
    if (is_word(notice->kind) && noticelist_has(config, notice->kind))
        return err_set(err, ERR_USAGE, 0, "%s is given twice", notice_kind_names[notice->kind]);
    if (notice->name && noticelist_is_taken(config, notice->name))
        return err_set(err, ERR_USAGE, 0,
                       "two sources are called \"%s\"; give one of them another name",
                       notice->name);
    return true;
}

/* Takes the memory of *notice, even on failure. is_read: *notice was read without an error. */
static bool noticelist_add(struct config *config, struct config_notice *notice, bool is_read,
                           struct err *err)
{
    bool ok = is_read && settle_times(notice, err) && check_new(config, notice, err) &&
              (notice->name || give_name(config, notice, err));
    if (ok)
        config->notices[config->nnotices++] = *notice;
    else
        free_notice(notice);
    return ok;
}

static bool add_path(struct config_notice *notice, const char *path, const char *folder,
                     struct err *err)
{
    bool ok = noticelist_is_program(notice->kind)
                  ? command_from_text(path, folder, &notice->args, err)
                  : text_check_path(path, err) &&
                        command_add(&notice->args, text_absolute(folder, path), err);
    return ok || err_wrap(err, "%s", notice_kind_names[notice->kind]);
}

bool noticelist_add_text(const char *text, const char *folder, struct config *config,
                         struct err *err)
{
    if (str_is(text, "none"))
        return err_set(err, ERR_USAGE, 0, "none stands alone");
    char name[CONFIG_NOTICE_NAME_MAX + 1];
    const char *colon = strchr(text, ':');
    snprintf(name, sizeof name, "%.*s", (int)strcspn(text, ":"), text);
    struct config_notice notice = {.kind = find_kind(name)};
    if (notice.kind == CONFIG_NOTICE__COUNT)
        return unknown_source(name, err);
    if (is_word(notice.kind) && colon)
        return err_set(err, ERR_USAGE, 0, "%s takes no path", name);
    if (!is_word(notice.kind) && !colon)
        return err_set(err, ERR_USAGE, 0, "%s needs a path; write %s:PATH", name, name);
    bool is_read = !colon || add_path(&notice, colon + 1, folder, err);
    return noticelist_add(config, &notice, is_read, err);
}

static bool time_from_json(const struct json *json, int64_t *ret, struct err *err)
{
    const char *text = json_need_text(json, err);
    return (text && value_duration(text, TIME_MIN_NS, TIME_MAX_NS, ret, err)) ||
           err_wrap(err, "%s", json_key(json));
}

static bool name_from_json(struct config_notice *notice, const struct json *json, struct err *err)
{
    const char *text = json_need_text(json, err);
    if (!text || !text_check(text, CONFIG_NOTICE_NAME_MAX, err))
        return err_wrap(err, "name");
    return text_keep(&notice->name, strdup(text), err);
}

/* Reads the member that names the kind, such as {"poll": […]}. */
static bool kind_from_json(struct config_notice *notice, const struct json *json,
                           const char *folder, struct err *err)
{
    enum config_notice_kind kind = find_kind(json_key(json));
    if (kind == CONFIG_NOTICE__COUNT)
        return unknown_member(json_key(json), err);
    if (notice->kind != CONFIG_NOTICE__COUNT)
        return err_set(err, ERR_USAGE, 0, "%s and %s are two sources; write two objects",
                       notice_kind_names[notice->kind], json_key(json));
    notice->kind = kind;
    if (is_word(notice->kind))
        return err_set(err, ERR_USAGE, 0, "%s is not an object; write \"%s\"", json_key(json),
                       json_key(json));
    bool is_program = noticelist_is_program(notice->kind);
    const char *path = is_program ? NULL : json_text(json);
    if (path)
        return add_path(notice, path, folder, err);
    return (is_program ? command_from_json(json, folder, &notice->args, err)
                       : json_unwanted(json, "a path as a string is wanted", err)) ||
           err_wrap(err, "%s", json_key(json));
}

static bool member_from_json(struct config_notice *notice, const struct json *member,
                             const char *folder, struct err *err)
{
    const char *key = json_key(member);
    if (str_is(key, "name"))
        return name_from_json(notice, member, err);
    if (str_is(key, "interval"))
        return time_from_json(member, &notice->interval_ns, err);
    if (str_is(key, "timeout"))
        return time_from_json(member, &notice->timeout_ns, err);
    return kind_from_json(notice, member, folder, err);
}

static bool add_from_object(const struct json *json, const char *folder, struct config *config,
                            struct err *err)
{
    struct config_notice notice = {.kind = CONFIG_NOTICE__COUNT};
    bool ok = true;
    for (const struct json *member = json_first(json); ok && member; member = json_next(member))
        ok = member_from_json(&notice, member, folder, err);
    if (ok && notice.kind == CONFIG_NOTICE__COUNT)
        ok = err_set(err, ERR_USAGE, 0,
                     "a key must say what it is: file, kubernetes, command or poll");
    return noticelist_add(config, &notice, ok, err);
}

bool noticelist_from_json(const struct json *json, const char *folder, struct config *config,
                          struct err *err)
{
    const struct json *item = json_first(json);
    const char *text = item && !json_next(item) ? json_text(item) : NULL;
    if (text && str_is(text, "none"))
        return true;
    for (size_t n = 1; item; item = json_next(item), n++) {
        text = json_text(item);
        if (!(text ? noticelist_add_text(text, folder, config, err)
              : json_kind(item) == JSON_IS_OBJECT
                  ? add_from_object(item, folder, config, err)
                  : json_unwanted(item, "a string or an object is wanted", err)))
            return err_wrap(err, "item %zu", n);
    }
    return true;
}

bool noticelist_has(const struct config *config, enum config_notice_kind kind)
{
    for (size_t i = 0; i < config->nnotices; i++)
        if (config->notices[i].kind == kind)
            return true;
    return false;
}

bool noticelist_settle(struct config *config, const enum config_notice_kind *kinds, struct err *err)
{
    struct config_notice *list = config->notices;
    size_t at = 0;
    while (list[at].kind != CONFIG_NOTICE_AUTO)
        at++;
    free_notice(&list[at]);
    config->nnotices--;
    memmove(list + at, list + at + 1, (config->nnotices - at) * sizeof *list);
    for (; *kinds != CONFIG_NOTICE_AUTO; kinds++) {
        struct config_notice notice = {.kind = *kinds, .is_chosen = true};
        if (noticelist_has(config, *kinds))
            continue;
        if (!noticelist_add(config, &notice, true, err))
            return err_wrap(err, "notices, for auto");
        memmove(list + at + 1, list + at, (config->nnotices - 1 - at) * sizeof *list);
        list[at++] = notice;
    }
    return true;
}

void noticelist_clear(struct config *config)
{
    for (size_t i = 0; i < config->nnotices; i++)
        free_notice(&config->notices[i]);
    config->nnotices = 0;
}

static void write_notice(const struct config_notice *notice, struct writer *writer)
{
    const char *kind = notice_kind_names[notice->kind];
    char time[32];
    if (is_word(notice->kind)) {
        writer_text(writer, NULL, kind);
        return;
    }
    writer_object(writer, NULL);
    if (noticelist_is_program(notice->kind))
        command_write(notice->args, writer, kind);
    else
        writer_text(writer, kind, notice->args[0]);
    if (notice->kind == CONFIG_NOTICE_POLL) {
        writer_text(writer, "interval", str_duration(notice->interval_ns, time, sizeof time));
        writer_text(writer, "timeout", str_duration(notice->timeout_ns, time, sizeof time));
    }
    writer_text(writer, "name", notice->name);
    writer_end(writer);
}

void noticelist_write(const struct config *config, struct writer *writer, const char *key)
{
    writer_list(writer, key);
    for (size_t i = 0; i < config->nnotices; i++)
        write_notice(&config->notices[i], writer);
    writer_end(writer);
}
