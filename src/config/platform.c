/* SPDX-License-Identifier: Apache-2.0
 * See platform.h.
 */
#include "config/platform.h"

#include "base/fd.h"
#include "base/str.h"

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
    [PRESET_AUTO] = "auto",         [PRESET_NONE] = "none",
    [PRESET_SLURM] = "slurm",       [PRESET_KUBERNETES] = "kubernetes",
    [PRESET_KUBEFLOW] = "kubeflow", [PRESET_SGE] = "sge",
    [PRESET_GCE] = "gce",           [PRESET_GCE_GPU] = "gce-gpu",
    [PRESET_GCE_SPOT] = "gce-spot", [PRESET_TENSORFLOW_GCE] = "tensorflow-gce",
    [PRESET_AWS] = "aws",           [PRESET_AZURE] = "azure",
    [PRESET_ALIBABA] = "alibaba",   [PRESET_TENCENT] = "tencent",
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
    const char *file, *pattern; /* for fnmatch(3): this file must match, too; NULL: none */
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
                       " is not; whether this is a Spot VM cannot be told, so it may be one");
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
