/* SPDX-License-Identifier: Apache-2.0
 * See options.h.
 *
 * To add an option: a field in config.h, a row in options_*.inc, and a text in pchrun.json(5).
 * Everything else (flag, variable, file, help, schema) follows from the row.
 */
#include "config/options.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "config/config.h"
#include "discover/discover.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define HOUR     (3600 * NS_PER_S)
#define DAY      (24 * HOUR)
#define PATH_LEN 4095

/* Each macro begins a row. An option's field in struct config has the name of its key; the field of
 * a duration has _ns at its end. */
#define FIELD(f)       .offset = offsetof(struct config, f)
#define NAMED(f)       .key = #f, FIELD(f)
#define BOOL(f, value) NAMED(f), .type = OPTION_BOOL, .fallback = (value)
#define INT(f, value, least, most) \
    NAMED(f), .type = OPTION_INT, .fallback = (value), .min = (least), .max = (most)
#define DURATION(f, value, least, most)                                                     \
    .key = #f, FIELD(f##_ns), .type = OPTION_DURATION, .fallback = (value), .min = (least), \
    .max = (most)
#define CHOICE(f, value, words) \
    NAMED(f), .type = OPTION_CHOICE, .fallback = (value), .choices = (words)
#define PATH(f, value, what)                                                                  \
    NAMED(f), .type = OPTION_PATH, .is_nullable = true, .fallback = (value), .max = PATH_LEN, \
              .metavar = (what)
#define TEMPLATE(f, value)                                                                        \
    NAMED(f), .type = OPTION_TEMPLATE, .is_nullable = true, .fallback = (value), .max = PATH_LEN, \
              .metavar = "FILE"
#define COMMAND(f) NAMED(f), .type = OPTION_COMMAND, .is_nullable = true
#define ADDRESS(f)                                                            \
    NAMED(f), .type = OPTION_TEXT, .is_nullable = true, .min = 1, .max = 300, \
              .metavar = "HOST[:PORT]"
#define EXIT_CODE(name, code)                                                             \
    .key = "exit." #name, .type = OPTION_INT, .is_binding = true, FIELD(exit.codes.name), \
    .fallback = (code), .min = 1, .max = 255, .metavar = "CODE"

static const char *const save_modes[] = {
    [SAVE_ATTACH] = "attach", [SAVE_SIGNAL] = "signal", [SAVE_FORWARD] = "forward", NULL};
static const char *const cpus_names[] = {
    [CONFIG_CPUS_NONE] = "none", [CONFIG_CPUS_SPREAD] = "spread", NULL};
static const char *const cgroup_names[] = {
    [CONFIG_CGROUP_AUTO] = "auto", [CONFIG_CGROUP_OFF] = "off", NULL};
static const char *const leftovers_names[] = {
    [LEFTOVERS_KILL] = "kill", [LEFTOVERS_LEAVE] = "leave", NULL};
static const char *const shrink_names[] = {
    [CONFIG_SHRINK_REFUSE] = "refuse", [CONFIG_SHRINK_ALLOW] = "allow", NULL};
static const char *const watchdog_modes[] = {
    [WATCHDOG_OFF] = "off", [WATCHDOG_LOG] = "log", [WATCHDOG_ON] = "on", NULL};

const char *const preset_names[] = {
    [PRESET_AUTO] = "auto",
    [PRESET_NONE] = "none",
    [PRESET_SLURM] = "slurm",
    [PRESET_KUBERNETES] = "kubernetes",
    [PRESET_KUBEFLOW] = "kubeflow",
    [PRESET_SGE] = "sge",
    [PRESET_GCE] = "gce",
    [PRESET_GCE_GPU] = "gce-gpu",
    [PRESET_GCE_SPOT] = "gce-spot",
    [PRESET_TENSORFLOW_GCE] = "tensorflow-gce",
    [PRESET_AWS] = "aws",
    [PRESET_AZURE] = "azure",
    [PRESET_ALIBABA] = "alibaba",
    [PRESET_TENCENT] = "tencent",
    [PRESET_UNRELIABLE] = "unreliable",
    [PRESET__COUNT] = NULL,
};

/* The options in the order of --help and the manual. */
/* clang-format off */
const struct option options[] = {
#include "config/options_job.inc"
#include "config/options_progress.inc"
#include "config/options_end.inc"
};
/* clang-format on */
const size_t options_count = ARRAY_LEN(options);

const struct option_group option_groups[] = {
    {"", "Job"},
    {"cluster", "Cluster"},
    {"procs", "Processes"},
    {"checkpoint", "Checkpoints"},
    {"record", "Record"},
    {"save", "Saving"},
    {"restart", "Restarts in place"},
    {"watchdog", "Hangs"},
    {"stop", "Stopping"},
    {"exit", "Exit codes"},
    {"events", "Events"},
    {"metrics", "Metrics"},
    {"log", "Log"},
    {"logs", "Output of the commands"},
};
const size_t option_groups_count = ARRAY_LEN(option_groups);

/* ---- lookup ---- */

const struct option_group *option_group(const struct option *option)
{
    size_t len = strcspn(option->key, "."), i = option->key[len] ? option_groups_count - 1 : 0;
    while (i > 0 && (strlen(option_groups[i].name) != len ||
                     !str_starts(option->key, option_groups[i].name)))
        i--;
    return &option_groups[i];
}

char *option_variable(const char *key, char text[OPTION_NAME_MAX])
{
    snprintf(text, OPTION_NAME_MAX, "PCHRUN_%s", key);
    for (char *p = text; *p; p++)
        *p = (char)(*p == '.' || *p == '-' ? '_' : toupper((unsigned char)*p));
    return text;
}

const struct option *option_by_key(const char *key)
{
    for (size_t i = 0; i < options_count; i++)
        if (str_is(options[i].key, key))
            return &options[i];
    return NULL;
}

const char *option_of_torchrun(const char *name)
{
    static const struct {
        const char *name, *here;
    } list[] = {
        {"max-restarts", "torchrun's --max-restarts is --restart-max here"},
        {"rdzv-endpoint", "torchrun's --rdzv-endpoint is --cluster-chief here"},
        {"master-addr", "torchrun's --master-addr is --cluster-chief here"},
        {"master-port", "pchrun -n chooses MASTER_PORT; leave the flag out"},
        {"rdzv-backend", "pchrun needs no rendezvous; leave the flag out"},
        {"rdzv-id", "torchrun's --rdzv-id is --job here"},
        {"standalone", "one node is the default; leave the flag out"},
    };
    for (size_t i = 0; i < ARRAY_LEN(list); i++)
        if (str_is(list[i].name, name))
            return list[i].here;
    return NULL;
}
