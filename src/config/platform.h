/* SPDX-License-Identifier: Apache-2.0
 *
 * platform: which scheduler and which cloud this is, told from what lies here: the environment and
 * a few files. No packet is sent, so what only a query could tell (is it a Spot VM?) stays unknown,
 * and the more careful preset is taken. Both may hold at once: Slurm on a cloud's machines.
 *
 * Cannot fail: what cannot be read is not there. Any thread.
 */
#ifndef PCHRUN_CONFIG_PLATFORM_H
#define PCHRUN_CONFIG_PLATFORM_H

/* The presets, in the order in which the manual has them; see presets.h. */
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
    char why[PLATFORM_WHY_MAX]; /* the evidence, or what was looked at in vain */
};

/* By variables alone; where two schedulers have set theirs, the one that is nearer to the job. */
void platform_scheduler(char **env, struct platform *ret);
/* By the files that the kernel shows of the firmware, one of them on a machine of no cloud, and by
 * a GPU's device. `root` stands before their paths: "" for this machine's. */
void platform_cloud(const char *root, struct platform *ret);

#endif
