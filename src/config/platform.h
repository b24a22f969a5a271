/* SPDX-License-Identifier: Apache-2.0
 *
 * platform: detects the scheduler and the cloud from the environment and a few files. It sends no
 * packet, so whether this is a Spot VM stays unknown, and the more careful preset applies. Both may
 * apply: Slurm on a cloud's machines.
 *
 * Cannot fail: an unreadable file counts as missing. Any thread.
 */
#pragma once

/* The presets, in the order of the manual; see presets.h. */
enum preset {
    PRESET_AUTO,
    PRESET_NONE,
    PRESET_SLURM,
    PRESET_KUBERNETES,
    PRESET_KUBEFLOW,
    PRESET_SGE,
    PRESET_GCE,
    PRESET_GCE_GPU,
    PRESET_GCE_SPOT,
    PRESET_TENSORFLOW_GCE,
    PRESET_AWS,
    PRESET_AZURE,
    PRESET_ALIBABA,
    PRESET_TENCENT,
    PRESET__COUNT
};

/* Ends with NULL. */
extern const char *const preset_names[];

#define PLATFORM_WHY_MAX 256

struct platform {
    enum preset preset;         /* PRESET_NONE: nothing was found */
    char why[PLATFORM_WHY_MAX]; /* the evidence, or what was searched */
};

/* Looks only at variables. If two schedulers match, the inner one wins. */
void platform_scheduler(char **env, struct platform *ret);
/* Looks at the kernel's firmware files and for a GPU's device. Outside of clouds this reads one
 * file. `root` is put before each path, for tests; normally "". */
void platform_cloud(const char *root, struct platform *ret);
