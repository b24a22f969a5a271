/* SPDX-License-Identifier: Apache-2.0
 *
 * presets: values that replace the defaults on one platform: a table of option texts.
 *
 * A preset sets only what the user has not set, option by option and signal by signal. So each of
 * its values can be overridden alone. The option "preset" names one, or it is detected from the
 * environment and a few files. No packet is sent, so whether this is a Spot VM stays unknown, and
 * the more careful preset applies. Two presets may apply: that of Slurm, and that of the cloud on
 * which Slurm runs. "unreliable" is no platform, and is added to any. An unreadable file counts as
 * missing. Main thread.
 */
#pragma once

#include "config/config.h"
#include "json/writer.h"

enum { PRESET_SETTINGS_MAX = 6 };

struct preset_setting {
    const char *key, *text; /* written as after a flag */
};
struct preset_row {
    struct preset_setting settings[PRESET_SETTINGS_MAX + 1]; /* ends with a key that is NULL */
    enum config_notice_kind source; /* what "auto" in "notices" means; CONFIG_NOTICE_AUTO: none */
    const char *in_pod;             /* a warning about this cloud's notices in a pod; NULL: none */
};
extern const struct preset_row presets[PRESET__COUNT];

/* Call after flags, environment and file. Stores the detected platform in `config`. */
MUST_CHECK bool presets_apply(struct config *config, char **env, struct err *err);

/* Replaces "auto" in "notices" by the sources of the named preset, or of the detected scheduler and
 * cloud. It may read files: call it after the commands have started. `root` as in
 * platform_cloud(). */
MUST_CHECK bool presets_settle_notices(struct config *config, const char *root, struct err *err);

/* Writes the member "$platform": the preset and the evidence. Reads firmware files. */
void presets_show(const struct config *config, struct writer *w);

/* Looks only at variables. If two schedulers match, the inner one wins. */
void platform_scheduler(char **env, struct platform *ret);
/* Looks at the kernel's firmware files and for a GPU's device. Outside of clouds this reads one
 * file. `root` is put before each path, for tests; normally "". */
void platform_cloud(const char *root, struct platform *ret);
