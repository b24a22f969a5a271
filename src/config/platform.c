/* SPDX-License-Identifier: Apache-2.0
 * See platform.h.
 */
#include "config/platform.h"

#include "base/fd.h"
#include "base/str.h"

#include <errno.h>
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
    size_t len = strlen(name);
    for (; *env; env++)
        if (strncmp(*env, name, len) == 0 && (*env)[len] == '=' && (*env)[len + 1])
            return true;
    return false;
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

struct machine {
    const char *root;
    struct platform *found;
};

static const char *platform_below(const struct machine *machine, const char *path,
                                  char whole[PATH_SIZE])
{
    snprintf(whole, PATH_SIZE, "%s%s", machine->root, path);
    return whole;
}

/* One line of a firmware file, without surrounding spaces; "": none. */
static void platform_read_line(const struct machine *machine, const char *path,
                               char text[DMI_TEXT_MAX])
{
    char whole[PATH_SIZE], line[DMI_TEXT_MAX];
    (void)fd_read_text(platform_below(machine, path, whole), line, sizeof line);
    line[strcspn(line, "\n")] = '\0';
    const char *begin = line + strspn(line, " ");
    size_t len = strlen(begin);
    while (len > 0 && begin[len - 1] == ' ')
        len--;
    snprintf(text, DMI_TEXT_MAX, "%.*s", (int)len, begin);
    for (char *p = text; *p; p++)
        if (*p < ' ' || *p > '~')
            *p = '?';
}

static void platform_conclude(const struct machine *machine, enum preset preset, const char *path,
                              const char *text)
{
    machine->found->preset = preset;
    snprintf(machine->found->why, sizeof machine->found->why, "%s is %s", path, text);
}

/* The firmware does not show whether a VM is a Spot VM; the shorter grace suits both. */
static void judge_google(const struct machine *machine)
{
    char text[DMI_TEXT_MAX], whole[PATH_SIZE];
    platform_read_line(machine, PRODUCT, text);
    if (!str_is(text, "Google Compute Engine") && !str_is(text, "Google")) {
        platform_conclude(machine, PRESET_NONE, PRODUCT, text); /* for example a Chromebook */
        return;
    }
    bool has_gpu = access(platform_below(machine, GPU_DEVICE, whole), F_OK) == 0;
    platform_conclude(machine, has_gpu ? PRESET_GCE_GPU : PRESET_GCE_SPOT, PRODUCT, text);
    str_addf(machine->found->why, sizeof machine->found->why,
             has_gpu ? ", and " GPU_DEVICE " is there"
                     : ", and " GPU_DEVICE
                       " is not; whether this is a Spot VM cannot be told, so it may be one");
}

/* Older instance types use Xen, some with GPUs. So do other clouds. */
static void judge_xen(const struct machine *machine)
{
    char text[DMI_TEXT_MAX];
    platform_read_line(machine, BIOS, text);
    bool is_amazon = strstr(text, ".amazon");
    platform_conclude(machine, is_amazon ? PRESET_AWS : PRESET_NONE, BIOS, text);
}

/* Hyper-V has the same vendor; only Azure has this tag. */
static void judge_microsoft(const struct machine *machine)
{
    char text[DMI_TEXT_MAX];
    platform_read_line(machine, CHASSIS, text);
    bool is_azure = str_is(text, "7783-7084-3265-9085-8269-3286-77");
    platform_conclude(machine, is_azure ? PRESET_AZURE : PRESET_NONE, CHASSIS, text);
}

static const struct {
    const char *vendor;
    enum preset preset;
    void (*judge)(const struct machine *machine); /* NULL: the vendor tells it all */
} vendors[] = {
    {"Google", .judge = judge_google}, {"Amazon EC2", PRESET_AWS},
    {"Xen", .judge = judge_xen},       {"Microsoft Corporation", .judge = judge_microsoft},
    {"Alibaba Cloud", PRESET_ALIBABA}, {"Tencent Cloud", PRESET_TENCENT},
};

void platform_cloud(const char *root, struct platform *ret)
{
    struct machine machine = {.root = root, .found = ret};
    char vendor[DMI_TEXT_MAX];
    *ret = (struct platform){.preset = PRESET_NONE};
    platform_read_line(&machine, VENDOR, vendor);
    size_t i = 0;
    while (i < ARRAY_LEN(vendors) && !str_is(vendor, vendors[i].vendor))
        i++;
    if (i < ARRAY_LEN(vendors) && vendors[i].judge)
        vendors[i].judge(&machine);
    else if (vendor[0])
        platform_conclude(&machine, i < ARRAY_LEN(vendors) ? vendors[i].preset : PRESET_NONE,
                          VENDOR, vendor);
    else
        snprintf(ret->why, sizeof ret->why, "%s cannot be read, or is empty", VENDOR);
}
