/* SPDX-License-Identifier: Apache-2.0
 * See presets.h.
 *
 * To add a preset: its number in config.h, its name and its row here; if the machine shows it, also
 * a line in `schedulers` or `vendors`. A grace is the least time that the platform promises, minus
 * the time to end. Without such a promise the row has no grace.
 */
#include "config/presets.h"

#include "base/fd.h"
#include "base/str.h"
#include "config/noticelist.h"
#include "config/options.h"
#include "config/values.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DMI        "/sys/class/dmi/id/"
#define VENDOR     DMI "sys_vendor"
#define PRODUCT    DMI "product_name"
#define CHASSIS    DMI "chassis_asset_tag"
#define BIOS       DMI "bios_version"
#define GPU_DEVICE "/dev/nvidia0"

enum { DMI_TEXT_MAX = 65, PATH_SIZE = 512 };

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

/* --- the scheduler --- */

static bool has_variable(char **env, const char *name)
{
    const char *value = str_variable(env, name);
    return value && *value;
}

/* Slurm and Grid Engine may run inside Kubernetes, never around it, so they come first. Every login
 * on a Grid Engine cluster has SGE_ROOT, and other programs also set JOB_ID. */
static const struct {
    enum preset preset;
    const char *variable, *other; /* other: must also be set; NULL: none */
} schedulers[] = {
    {PRESET_SLURM, "SLURM_JOB_ID", NULL},
    {PRESET_SGE, "SGE_ROOT", "JOB_ID"},
    {PRESET_KUBERNETES, "KUBERNETES_SERVICE_HOST", NULL},
};

void platform_scheduler(char **env, struct platform *ret)
{
    *ret = (struct platform){.preset = PRESET_NONE};
    for (size_t i = 0; i < ARRAY_LEN(schedulers); i++) {
        const char *name = schedulers[i].variable, *other = schedulers[i].other;
        if (!has_variable(env, name) || (other && !has_variable(env, other)))
            continue;
        ret->preset = schedulers[i].preset;
        snprintf(ret->why, sizeof ret->why, other ? "%s and %s are set" : "%s is set", name, other);
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(schedulers); i++)
        str_addf(ret->why, sizeof ret->why, "%s%s%s%s", i > 0 ? ", " : "", schedulers[i].variable,
                 schedulers[i].other ? " with " : "",
                 schedulers[i].other ? schedulers[i].other : "");
    str_addf(ret->why, sizeof ret->why, ": none is set");
}

/* --- the cloud --- */

/* How the firmware of each cloud identifies itself. */
static const struct vendor {
    const char *name;
    enum preset preset;
    const char *file, *pattern; /* the text of `file` must match, too (fnmatch(3)); NULL: no file */
} vendors[] = {
    /* The vendor alone is not enough: a Chromebook has the same one. */
    {"Google", PRESET_GCE_SPOT, PRODUCT, "Google?( Compute Engine)"},
    {"Amazon EC2", PRESET_AWS},
    /* Older instance types use Xen, some with GPUs; other clouds use Xen, too. */
    {"Xen", PRESET_AWS, BIOS, "*.amazon*"},
    /* Hyper-V elsewhere has the same vendor; only Azure has this tag. */
    {"Microsoft Corporation", PRESET_AZURE, CHASSIS, "7783-7084-3265-9085-8269-3286-77"},
    {"Alibaba Cloud", PRESET_ALIBABA},
    {"Tencent Cloud", PRESET_TENCENT},
};

/* Reads the line of a firmware file, without surrounding spaces; "": no such file. */
static void platform_read_line(const char *root, const char *path, char text[DMI_TEXT_MAX])
{
    char whole[PATH_SIZE];
    snprintf(whole, sizeof whole, "%s%s", root, path);
    (void)fd_read_line(whole, text, DMI_TEXT_MAX);
    for (char *p = str_one_line(text); *p; p++)
        if (*p > '~' || *p < ' ')
            *p = '?';
}

/* The firmware does not show whether a VM is a Spot VM; the shorter grace suits both. */
static void look_for_gpu(const char *root, struct platform *ret)
{
    char whole[PATH_SIZE];
    snprintf(whole, sizeof whole, "%s%s", root, GPU_DEVICE);
    bool has_gpu = access(whole, F_OK) == 0;
    ret->preset = has_gpu ? PRESET_GCE_GPU : PRESET_GCE_SPOT;
    str_addf(ret->why, sizeof ret->why,
             has_gpu ? ", and " GPU_DEVICE " is there"
                     : ", and " GPU_DEVICE
                       " is not; nothing shows whether this is a Spot VM, so it may be one");
}

void platform_cloud(const char *root, struct platform *ret)
{
    const char *file = VENDOR;
    char text[DMI_TEXT_MAX];
    *ret = (struct platform){.preset = PRESET_NONE};
    platform_read_line(root, VENDOR, text);
    if (!text[0]) {
        snprintf(ret->why, sizeof ret->why, "%s cannot be read, or is empty", VENDOR);
        return;
    }
    size_t i = 0;
    while (i < ARRAY_LEN(vendors) && !str_is(text, vendors[i].name))
        i++;
    const struct vendor *vendor = i < ARRAY_LEN(vendors) ? &vendors[i] : NULL;
    if (vendor && vendor->file)
        platform_read_line(root, file = vendor->file, text);
    if (vendor && (!vendor->pattern || fnmatch(vendor->pattern, text, FNM_EXTMATCH) == 0))
        ret->preset = vendor->preset;
    snprintf(ret->why, sizeof ret->why, "%s is %s", file, text);
    if (ret->preset == PRESET_GCE_SPOT)
        look_for_gpu(root, ret);
}

/* --- the table --- */

/* clang-format off */
#define IN_GKE                                                                                     \
    "on a Spot node of GKE a pod has 15 s: set grace to 12s there; in some clusters a pod gets "   \
    "no answer from the VM's metadata server (workload identity replaces it), but it always gets " \
    "SIGTERM"
#define RESTART_CODES(code)                                                                        \
    {"exit.preempted", code}, {"exit.preempted_unsaved", code}, {"exit.node_lost", code},          \
    {"exit.hang", code}, {"exit.unhealthy", code}
/* clang-format on */

const struct preset_row presets[PRESET__COUNT] = {
    [PRESET_SLURM] = {.settings = {{"grace", "25s"}, {"signals", "USR1=preempt:55s"}},
                      .source = CONFIG_NOTICE_SLURM},
    [PRESET_KUBEFLOW] = {.settings = {RESTART_CODES("143")}},
    [PRESET_SGE] = {.settings = {{"signals", "USR1=checkpoint,USR2=preempt:55s"},
                                 RESTART_CODES("99")}},
    [PRESET_GCE] = {.settings = {{"grace", "55s"}}, .source = CONFIG_NOTICE_GCE},
    [PRESET_GCE_GPU] = {.settings = {{"grace", "25s"}},
                        .source = CONFIG_NOTICE_GCE,
                        .in_pod = IN_GKE},
    [PRESET_GCE_SPOT] = {.settings = {{"grace", "25s"}},
                         .source = CONFIG_NOTICE_GCE,
                         .in_pod = IN_GKE},
    [PRESET_TENSORFLOW_GCE] = {.settings = {{"grace", "25s"}, RESTART_CODES("143")},
                               .source = CONFIG_NOTICE_GCE},
    [PRESET_AWS] =
        {.source = CONFIG_NOTICE_AWS,
         .in_pod = "a pod that is not in the host's network gets an answer from the instance's "
                   "metadata service only where its hop limit is 2; SIGTERM does not depend on it"},
    [PRESET_AZURE] = {.source = CONFIG_NOTICE_AZURE},
    [PRESET_ALIBABA] = {.source = CONFIG_NOTICE_ALIBABA},
    [PRESET_TENCENT] = {.source = CONFIG_NOTICE_TENCENT},
    [PRESET_UNRELIABLE] = {.settings = {{"restart.max", "3"},
                                        {"checkpoint.every", "auto"},
                                        {"cluster.join_timeout", "1h"}}},
};

/* --- in a configuration --- */

static bool presets_fill_in(struct config *config, const struct preset_setting *setting,
                            const char *origin, struct err *err)
{
    const struct option *option = option_by_key(setting->key);
    struct config_signal given[CONFIG_SIGNALS];
    if (option->type != OPTION_SIGNALS && origin_from(config, option->key) != FROM_DEFAULT)
        return true;
    memcpy(given, config->signals, sizeof given);
    bool ok = origin_set(config, option, FROM_PRESET, origin, err) &&
              value_from_text(option, setting->text, config, err);
    for (int number = 0; number < CONFIG_SIGNALS; number++)
        if (given[number].is_given)
            config->signals[number] = given[number];
    return ok;
}

static bool presets_add(struct config *config, enum preset preset, const char *why, struct err *err)
{
    char origin[PLATFORM_WHY_MAX + OPTION_NAME_MAX];
    snprintf(origin, sizeof origin, "preset %s, %s", preset_names[preset], why);
    for (const struct preset_setting *at = presets[preset].settings; at->key; at++)
        if (!presets_fill_in(config, at, origin, err))
            return err_wrap(err, "%s of preset %s", at->key, preset_names[preset]);
    return true;
}

#define UNRELIABLE (1U << PRESET_UNRELIABLE)

static bool platform_is_auto(const struct config *config)
{
    return (config->preset & ~UNRELIABLE & ~(1U << PRESET_AUTO)) == 0;
}

static bool find_platform(const struct config *config, char **env, struct platform *ret,
                          struct err *err)
{
    unsigned platforms = config->preset & ~UNRELIABLE;
    if (platforms & (platforms - 1))
        return err_set(err, ERR_USAGE, 0,
                       "preset, set by the %s, names two platforms; only unreliable may be beside "
                       "one",
                       origin_text(config, "preset"));
    *ret = (struct platform){.preset = PRESET_AUTO};
    while (platforms >> ret->preset > 1)
        ret->preset++;
    if (platform_is_auto(config))
        platform_scheduler(env, ret);
    else
        str_copy(ret->why, sizeof ret->why, origin_text(config, "preset"));
    return true;
}

bool presets_apply(struct config *config, char **env, struct err *err)
{
    struct platform found;
    char named[PLATFORM_WHY_MAX];
    if (!find_platform(config, env, &found, err))
        return false;
    config->platform.preset = found.preset;
    snprintf(config->platform.why, sizeof config->platform.why, "%s %.240s",
             platform_is_auto(config) ? "detected:" : "named by", found.why);
    snprintf(named, sizeof named, "named by %.240s", origin_text(config, "preset"));
    return presets_add(config, found.preset, config->platform.why, err) &&
           (!(config->preset & UNRELIABLE) || presets_add(config, PRESET_UNRELIABLE, named, err));
}

bool config_is_guess(const struct config *config, int number)
{
    bool has_own = config->signals[number].is_given && config->signals[number].grace_ns >= 0;
    return !has_own && !origin_is_given(config, "grace");
}

/* --- "auto" in "notices" --- */

/* Lists the sources of the preset that applies and, if it was detected, those of the cloud. The
 * list ends with CONFIG_NOTICE_AUTO. */
static void find_sources(const struct config *config, const char *root, struct platform *cloud,
                         enum config_notice_kind kinds[3])
{
    size_t n = 0;
    memset(kinds, 0, 3 * sizeof *kinds);
    *cloud = (struct platform){.preset = PRESET_NONE};
    if (platform_is_auto(config))
        platform_cloud(root, cloud);
    kinds[n] = presets[config->platform.preset].source;
    n += kinds[n] != CONFIG_NOTICE_AUTO;
    kinds[n] = presets[cloud->preset].source;
}

bool presets_settle_notices(struct config *config, const char *root, struct err *err)
{
    enum config_notice_kind kinds[3];
    struct platform cloud;
    if (!noticelist_has(config, CONFIG_NOTICE_AUTO))
        return true;
    find_sources(config, root, &cloud, kinds);
    return noticelist_settle(config, kinds, err);
}

/* --- --print-config --- */

void presets_show(const struct config *config, struct writer *w)
{
    bool is_auto = platform_is_auto(config);
    enum config_notice_kind kinds[3];
    struct platform cloud;
    char why[PLATFORM_WHY_MAX + 32];
    find_sources(config, "", &cloud, kinds);
    snprintf(why, sizeof why, "%s%s", config->platform.why,
             is_auto ? "" : ", so pchrun did not detect it");
    writer_object(w, "$platform");
    writer_text(w, "preset", preset_names[config->platform.preset]);
    writer_text(w, "why", why);
    if (is_auto) {
        bool is_pod = config->platform.preset == PRESET_KUBERNETES;
        const char *note = is_pod ? presets[cloud.preset].in_pod : NULL;
        writer_text(w, "cloud", cloud.preset == PRESET_NONE ? NULL : preset_names[cloud.preset]);
        writer_text(w, "cloud_why", cloud.why);
        if (note)
            writer_text(w, "note", note);
    }
    writer_list(w, "notices");
    for (size_t i = 0; kinds[i] != CONFIG_NOTICE_AUTO; i++)
        writer_text(w, NULL, notice_kind_names[kinds[i]]);
    writer_end(w);
    writer_end(w);
}
