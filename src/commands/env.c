/* SPDX-License-Identifier: Apache-2.0
 * See env.h.
 */
#include "commands/env.h"

#include "base/clock.h"
#include "base/str.h"
#include "os/spawn.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NUMBER_SIZE = 64, NUMBERS_MAX = 20, OURS_MAX = NUMBERS_MAX + 8 };

/* The state of env_build(): the numbers as texts, and a table of the names in use. */
struct build {
    struct env *env;
    char (*numbers)[NUMBER_SIZE];
    size_t nnumbers, n;
    const char **names; /* open addressing, `mask` + 1 places */
    size_t mask;
};

static size_t name_len(const char *entry)
{
    return strcspn(entry, "=");
}

static bool is_same_name(const char *a, const char *b)
{
    size_t len = name_len(a);
    return len == name_len(b) && strncmp(a, b, len) == 0;
}

/* True if the name is new. */
static bool take_name(struct build *build, const char *entry)
{
    uint32_t hash = 2166136261U;
    for (size_t i = 0, len = name_len(entry); i < len; i++)
        hash = (hash ^ (unsigned char)entry[i]) * 16777619U;
    size_t at = hash & build->mask;
    while (build->names[at]) {
        if (is_same_name(build->names[at], entry))
            return false;
        at = (at + 1) & build->mask;
    }
    build->names[at] = entry;
    return true;
}

static void env_add(struct build *build, char *entry)
{
    if (take_name(build, entry))
        build->env->list[build->n++] = entry;
}

static char *env_number(struct build *build, const char *name, uint64_t value)
{
    char *text = build->numbers[build->nnumbers++];
    snprintf(text, NUMBER_SIZE, "%s=%" PRIu64, name, value);
    return text;
}

static void add_number(struct build *build, const char *name, int64_t value)
{
    env_add(build, env_number(build, name, (uint64_t)value));
}

static void add_text(struct build *build, const char *name, const char *value, char **texts)
{
    if (!value)
        return;
    int n = sprintf(*texts, "%s=%s", name, value);
    env_add(build, *texts);
    *texts += n + 1;
}

static void add_ours(struct build *build, const struct env_facts *facts, char *texts)
{
    add_text(build, "PCH_SOCKET", facts->socket, &texts);
    add_number(build, "PCH_RANK", facts->rank);
    add_number(build, "PCH_LOCAL_RANK", facts->local_rank);
    add_number(build, "PCH_WORLD_SIZE", facts->world_size);
    add_number(build, "PCH_NODE_RANK", facts->node_rank);
    add_number(build, "PCH_NNODES", facts->nnodes);
    add_number(build, "PCH_ATTEMPT", facts->attempt);
    add_number(build, "PCH_GENERATION", facts->generation);
    env_add(build, env_number(build, "PCH_RESUME_STEP", facts->resume_step));
    add_text(build, "PCH_RESUME_PATH", facts->resume_path, &texts);
    add_text(build, "TORCHELASTIC_ERROR_FILE", facts->error_file, &texts);
    add_text(build, "PYTHONPATH", facts->python_path, &texts);
    add_text(build, "PCH_INSTRUMENT", facts->python_path ? "1" : NULL, &texts);
    add_text(build, "PCH_CHECKPOINT_DIR", facts->checkpoint_dir, &texts);
    if (facts->shutdown_s > 0)
        add_number(build, ENV_SHUTDOWN, facts->shutdown_s);
    if (!facts->with_ranks)
        return;
    add_number(build, "RANK", facts->rank);
    add_number(build, "LOCAL_RANK", facts->local_rank);
    add_number(build, "WORLD_SIZE", facts->world_size);
    add_number(build, "LOCAL_WORLD_SIZE", facts->local_world_size);
    add_number(build, "GROUP_RANK", facts->node_rank);
    add_number(build, "GROUP_WORLD_SIZE", facts->nnodes);
    add_text(build, "MASTER_ADDR", facts->master_addr, &texts);
    if (facts->master_port > 0)
        add_number(build, "MASTER_PORT", facts->master_port);
}

/* Meant for pchrun, or stale: an outer pchrun's variables that this one does not set. */
static bool is_dropped(const char *entry)
{
    static const char *const names[] = {
        "NOTIFY_SOCKET=",   "PCH_SOCKET=",     "PCH_RESUME_PATH=",
        "PCH_COMMIT_PATH=", "PCH_INSTRUMENT=", "PCH_CHECKPOINT_DIR="};
    if (str_starts(entry, "PCHRUN_"))
        return true;
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (str_starts(entry, names[i]))
            return true;
    return false;
}

/* systemd's sockets are for the process that LISTEN_PID names: pchrun, and so the command.
 * LISTEN_PIDFDID must go: it holds the inode of pchrun's pidfd, so the command's check would fail.
 */
static bool is_listening(char **inherited)
{
    bool is_us = false;
    for (char **entry = inherited; *entry; entry++)
        if (str_starts(*entry, "LISTEN_PID="))
            is_us = atoi(strchr(*entry, '=') + 1) == (int)getpid();
    return is_us;
}

static void add_inherited(struct build *build, char **inherited, size_t n)
{
    bool is_listen = is_listening(inherited);
    for (size_t i = n; i-- > 0;) {
        char *entry = inherited[i];
        if (is_dropped(entry) || (is_listen && str_starts(entry, "LISTEN_PIDFDID=")))
            continue;
        if (is_listen && str_starts(entry, "LISTEN_PID=") && !build->env->own_pid) {
            entry = env_number(build, "LISTEN_PID", (uint64_t)getpid());
            build->env->own_pid = strchr(entry, '=') + 1;
        }
        env_add(build, entry);
    }
}

static void reverse(char **list, size_t n)
{
    for (size_t i = 0; i < n / 2; i++) {
        char *entry = list[i];
        list[i] = list[n - 1 - i];
        list[n - 1 - i] = entry;
    }
}

/* Makes room for all inherited entries and for `texts` bytes of our own texts. */
static bool env_begin(struct build *build, struct env *env, char **inherited, size_t texts,
                      struct err *err)
{
    size_t n = 0, places = 64;
    while (inherited[n])
        n++;
    while (places < 2 * (n + OURS_MAX))
        places *= 2;
    *env = (struct env){.list = calloc(n + OURS_MAX + 1, sizeof *env->list),
                        .texts = malloc(NUMBERS_MAX * NUMBER_SIZE + texts)};
    *build = (struct build){.env = env,
                            .numbers = env->texts,
                            .names = calloc(places, sizeof *build->names),
                            .mask = places - 1};
    if (env->list && env->texts && build->names)
        return true;
    free(build->names);
    env_free(env);
    err_set(err, ERR_SYSTEM, ENOMEM, "cannot build the environment of a command");
    return false;
}

static char *texts_of(const struct build *build)
{
    return (char *)build->env->texts + NUMBERS_MAX * NUMBER_SIZE;
}

/* Our variables are in the list, so they win over inherited ones. The inherited ones follow from
 * the last to the first, so that the last of a name wins. Reversing the list puts ours behind the
 * others. */
static void end(struct build *build, char **inherited)
{
    size_t n = 0;
    while (inherited[n])
        n++;
    reverse(build->env->list, build->n);
    add_inherited(build, inherited, n);
    reverse(build->env->list, build->n);
    free(build->names);
}

/* 32 bytes hold "NAME=" of our longest name, and the NUL. */
static size_t env_text_size(const char *value)
{
    return value ? 32 + strlen(value) : 0;
}

bool env_build(struct env *env, char **inherited, const struct env_facts *facts, struct err *err)
{
    struct build build;
    size_t texts = env_text_size(facts->socket) + env_text_size(facts->resume_path) +
                   env_text_size(facts->error_file) + env_text_size(facts->master_addr) +
                   env_text_size(facts->python_path) + env_text_size(facts->checkpoint_dir);
    if (!env_begin(&build, env, inherited, texts, err))
        return false;
    add_ours(&build, facts, texts_of(&build));
    end(&build, inherited);
    return true;
}

bool env_build_end(struct env *env, char **inherited, const struct env_end *facts, struct err *err)
{
    struct build build;
    size_t size = env_text_size(facts->job) + env_text_size(facts->outcome) +
                  env_text_size(facts->commit_path) + env_text_size(facts->notice_source) +
                  env_text_size(facts->notice_id);
    if (!env_begin(&build, env, inherited, size, err))
        return false;
    char *texts = texts_of(&build);
    add_text(&build, "PCH_JOB", facts->job, &texts);
    add_number(&build, "PCH_NODE_RANK", facts->node_rank);
    add_number(&build, "PCH_NNODES", facts->nnodes);
    add_number(&build, "PCH_ATTEMPT", facts->attempt);
    add_text(&build, "PCH_OUTCOME", facts->outcome, &texts);
    add_number(&build, "PCH_EXIT_CODE", facts->exit_code);
    env_add(&build, env_number(&build, "PCH_COMMIT_STEP", facts->commit_step));
    add_text(&build, "PCH_COMMIT_PATH", facts->commit_path, &texts);
    add_text(&build, "PCH_NOTICE_SOURCE", facts->notice_source, &texts);
    add_text(&build, "PCH_NOTICE_ID", facts->notice_id, &texts);
    end(&build, inherited);
    return true;
}

void env_free(struct env *env)
{
    free(env->list);
    free(env->texts);
    *env = (struct env){0};
}

int env_shutdown_s(const struct config *config)
{
    const char *users = getenv(ENV_SHUTDOWN);
    int64_t wait = config->grace_ns;
    if (users && *users)
        return 0;
    for (size_t i = 0; i < config->nsignals; i++)
        if (config->signals[i].grace_ns > wait)
            wait = config->signals[i].grace_ns;
    wait = (wait + config->stop.exit_wait_ns) / NS_PER_S + 1;
    return wait > ENV_SHUTDOWN_S ? (int)wait : ENV_SHUTDOWN_S;
}
