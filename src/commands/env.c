/* SPDX-License-Identifier: Apache-2.0
 * See env.h.
 */
#include "commands/env.h"

#include "base/clock.h"
#include "base/str.h"
#include "os/program.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- our own variables: each text ends with a NUL --- */

static void add_text(FILE *texts, const char *name, const char *value)
{
    if (value)
        fprintf(texts, "%s=%s%c", name, value, '\0');
}

static void add_number(FILE *texts, const char *name, int64_t value)
{
    fprintf(texts, "%s=%" PRId64 "%c", name, value, '\0');
}

static void add_step(FILE *texts, const char *name, uint64_t value)
{
    fprintf(texts, "%s=%" PRIu64 "%c", name, value, '\0');
}

int env_rank(const struct core_params *params, int index)
{
    return params->node_rank * params->children + index;
}

/* For PyTorch's flight recorder, by its names and by those before 2.9. The user's own values stay.
 */
static void add_traces(FILE *texts, const char *traces)
{
    const struct {
        const char *name, *old, *value;
    } list[] = {{"TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE", traces},
                {"TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE", "2000"},
                {"TORCH_NCCL_DUMP_ON_TIMEOUT", NULL, "1"}};
    for (size_t i = 0; traces && i < ARRAY_LEN(list); i++) {
        if (getenv(list[i].name) || (list[i].old && getenv(list[i].old)))
            continue;
        add_text(texts, list[i].name, list[i].value);
        if (list[i].old)
            add_text(texts, list[i].old, list[i].value);
    }
}

static void env_add_ours(FILE *texts, const void *arg)
{
    const struct env_facts *facts = arg;
    const struct core_params *params = facts->params;
    int rank = env_rank(params, facts->index), world_size = params->nnodes * params->children;
    add_text(texts, "PCH_SOCKET", facts->socket);
    add_number(texts, "PCH_RANK", rank);
    add_number(texts, "PCH_LOCAL_RANK", facts->index);
    add_number(texts, "PCH_WORLD_SIZE", world_size);
    add_number(texts, "PCH_NODE_RANK", params->node_rank);
    add_number(texts, "PCH_NNODES", params->nnodes);
    add_number(texts, "PCH_ATTEMPT", facts->start->start.attempt);
    add_number(texts, "PCH_GENERATION", facts->start->start.generation);
    add_step(texts, "PCH_RESUME_STEP", facts->start->start.resume_step);
    add_text(texts, "PCH_RESUME_PATH", facts->resume_path);
    add_text(texts, "PCH_CHECKPOINT_DIR", facts->checkpoint_dir);
    add_text(texts, "TORCHELASTIC_ERROR_FILE", facts->error_file);
    add_text(texts, "PYTHONPATH", facts->python_path);
    add_text(texts, "PCH_INSTRUMENT", facts->python_path ? "1" : NULL);
    if (facts->shutdown_s > 0)
        add_number(texts, ENV_SHUTDOWN, facts->shutdown_s);
    add_traces(texts, facts->traces);
    if (!facts->with_ranks)
        return;
    add_number(texts, "RANK", rank);
    add_number(texts, "LOCAL_RANK", facts->index);
    add_number(texts, "WORLD_SIZE", world_size);
    add_number(texts, "LOCAL_WORLD_SIZE", params->children);
    add_number(texts, "GROUP_RANK", params->node_rank);
    add_number(texts, "GROUP_WORLD_SIZE", params->nnodes);
    add_text(texts, "MASTER_ADDR", facts->master_addr);
    if (facts->master_port > 0)
        add_number(texts, "MASTER_PORT", facts->master_port);
}

static void env_add_end(FILE *texts, const void *arg)
{
    const struct env_end *facts = arg;
    add_text(texts, "PCH_JOB", facts->job);
    add_number(texts, "PCH_NODE_RANK", facts->node_rank);
    add_number(texts, "PCH_NNODES", facts->nnodes);
    add_number(texts, "PCH_ATTEMPT", facts->attempt);
    add_text(texts, "PCH_OUTCOME", facts->outcome);
    add_number(texts, "PCH_EXIT_CODE", facts->exit_code);
    add_step(texts, "PCH_COMMIT_STEP", facts->commit_step);
    add_text(texts, "PCH_COMMIT_PATH", facts->commit_path);
    if (facts->cause_node >= 0)
        add_number(texts, "PCH_CAUSE_NODE", facts->cause_node);
    add_text(texts, "PCH_UNHEALTHY_HOSTS", facts->unhealthy_hosts);
    add_text(texts, "PCH_NOTICE_SOURCE", facts->notice_source);
    add_text(texts, "PCH_NOTICE_ID", facts->notice_id);
}

/* --- the inherited ones --- */

/* True if pchrun alone needs the variable, or if an outer pchrun set it and this one does not. */
static bool is_dropped(const char *entry)
{
    static const char *const beginnings[] = {
        "PCHRUN_",          "NOTIFY_SOCKET=",  "PCH_SOCKET=",     "PCH_RESUME_PATH=",
        "PCH_COMMIT_PATH=", "PCH_CAUSE_NODE=", "PCH_INSTRUMENT=", "PCH_CHECKPOINT_DIR="};
    for (size_t i = 0; i < ARRAY_LEN(beginnings); i++)
        if (str_starts(entry, beginnings[i]))
            return true;
    return false;
}

/* True if LISTEN_PID names pchrun: then systemd's sockets are for pchrun, and so for the command.
 * LISTEN_PIDFDID must be left out: it holds the inode of pchrun's pidfd, so the command's check
 * would fail. */
static bool is_listening(char **inherited)
{
    bool is_us = false;
    for (char **entry = inherited; *entry; entry++)
        if (str_starts(*entry, "LISTEN_PID="))
            is_us = atoi(strchr(*entry, '=') + 1) == (int)getpid();
    return is_us;
}

static int compare_names(const void *a, const void *b)
{
    size_t len = strcspn(a, "="), other = strcspn(b, "=");
    int order = strncmp(a, b, len < other ? len : other);
    return order ? order : (len > other) - (len < other);
}

/* False: an entry has that name already, or memory is short: *has_memory. */
static bool take_name(void **names, char *entry, bool *has_memory)
{
    char **node = tsearch(entry, names, compare_names);
    *has_memory = *has_memory && node;
    return node && *node == entry;
}

static void keep_entry(void *entry)
{
}

/* Returns the entry for the command; NULL: the command does not get the entry. */
static char *env_pass_on(struct env *env, char *entry, bool is_listen)
{
    if (is_dropped(entry) || (is_listen && str_starts(entry, "LISTEN_PIDFDID=")))
        return NULL;
    if (!is_listen || !str_starts(entry, "LISTEN_PID=") || env->own_pid)
        return entry;
    snprintf(env->listen_pid, sizeof env->listen_pid, "LISTEN_PID=%d", (int)getpid());
    env->own_pid = strchr(env->listen_pid, '=') + 1;
    return env->listen_pid;
}

/* The job's variables override inherited ones, and come after them. Inherited variables are read
 * from the last to the first, so that the last one of a name wins. False: no memory. */
static bool env_merge(struct env *env, char **inherited, size_t size)
{
    void *names = NULL;
    size_t n = str_count(inherited), nours = 0;
    bool has_memory = true, is_listen = is_listening(inherited);
    for (size_t i = 0; i < size; i++)
        nours += env->texts[i] == '\0';
    env->room = calloc(n + nours + 1, sizeof *env->room);
    if (!env->room)
        return false;
    char **ours = env->list = env->room + n;
    for (char *text = env->texts; text < env->texts + size; text += strlen(text) + 1)
        if (take_name(&names, text, &has_memory))
            *ours++ = text;
    while (n-- > 0) {
        char *entry = env_pass_on(env, inherited[n], is_listen);
        if (entry && take_name(&names, entry, &has_memory))
            *--env->list = entry;
    }
    tdestroy(names, keep_entry);
    return has_memory;
}

static bool env_make(struct env *env, char **inherited, void (*add)(FILE *texts, const void *facts),
                     const void *facts, struct err *err)
{
    size_t size;
    *env = (struct env){0};
    FILE *texts = open_memstream(&env->texts, &size);
    if (texts)
        add(texts, facts);
    /* Without memory, glibc's fclose() may report success and leave no text. */
    if (texts && fclose(texts) == 0 && env->texts && env_merge(env, inherited, size))
        return true;
    env_free(env);
    return err_set(err, ERR_SYSTEM, ENOMEM, "cannot build the environment of a command");
}

bool env_build(struct env *env, char **inherited, const struct env_facts *facts, struct err *err)
{
    return env_make(env, inherited, env_add_ours, facts, err);
}

bool env_build_end(struct env *env, char **inherited, const struct env_end *facts, struct err *err)
{
    return env_make(env, inherited, env_add_end, facts, err);
}

void env_free(struct env *env)
{
    free(env->room);
    free(env->texts);
    *env = (struct env){0};
}

/* --- values that are not facts of one command --- */

int env_shutdown_s(const struct config *config)
{
    const char *users = getenv(ENV_SHUTDOWN);
    int64_t wait = config->grace_ns;
    if (users && *users)
        return 0;
    for (int number = 0; number < CONFIG_SIGNALS; number++)
        if (config_grace(config, number) > wait)
            wait = config_grace(config, number);
    wait = (wait + config->stop.exit_wait_ns) / NS_PER_S + 1;
    return wait > ENV_SHUTDOWN_S ? (int)wait : ENV_SHUTDOWN_S;
}

/* The paths to Python's files from pchrun: as installed, as built, and in a wheel's folder of
 * programs. An installer may keep the wheel's files in its cache and link to them. */
static const char *const places[] = {PCHRUN_TO_PYTHON, PCHRUN_TO_BUILT_PYTHON,
                                     PCHRUN_TO_CACHED_PYTHON, NULL};

/* Programs print the path, so resolve symbolic links and ".." in it. */
static bool find_folder(char ret[PATH_MAX], struct err *err)
{
    char path[PATH_MAX];
    if (!program_file_near(places, path, sizeof path))
        return err_set(err, ERR_SYSTEM, 0,
                       "--instrument needs %.300s; it is not there, is not readable, or belongs "
                       "to another user; install pchrun as a whole",
                       path[0] ? path : places[0]);
    if (!realpath(path, ret))
        return err_set(err, ERR_SYSTEM, errno, "--instrument needs %.300s", path);
    *strrchr(ret, '/') = '\0';
    return !strchr(ret, ':') ||
           err_set(err, ERR_SYSTEM, 0,
                   "--instrument cannot name %.300s to Python, since a colon ends a path in "
                   "PYTHONPATH; install pchrun elsewhere",
                   ret);
}

char *env_python_path(const char *inherited, struct err *err)
{
    char folder[PATH_MAX];
    char *ret = NULL;
    if (!find_folder(folder, err))
        return NULL;
    bool has_more = inherited && inherited[0];
    /* An empty entry would mean the current directory. */
    if (asprintf(&ret, "%s%s%s", folder, has_more ? ":" : "", has_more ? inherited : "") >= 0)
        return ret;
    err_set(err, ERR_SYSTEM, ENOMEM, "cannot start");
    return NULL;
}
