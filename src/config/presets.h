/* SPDX-License-Identifier: Apache-2.0
 *
 * presets: values that replace the defaults on one platform: a table of option texts.
 *
 * A preset sets only what the user has not set, option by option and signal by signal. So each of
 * its values can be overridden alone. The option "preset" names one, or platform.h detects it. Main
 * thread.
 */
#pragma once

#include "config/config.h"
#include "config/platform.h"
#include "json/writer.h"

enum { PRESET_SETTINGS_MAX = 6 };

struct preset_setting {
    const char *key, *text; /* written as after a flag */
};
struct preset_row {
    const char *title;
    const char *manual;                                      /* mdoc, whole sentences */
    struct preset_setting settings[PRESET_SETTINGS_MAX + 1]; /* ends with a key that is NULL */
    enum config_notice_kind source; /* what "auto" in "notices" means; CONFIG_NOTICE_AUTO: none */
};
extern const struct preset_row presets[PRESET__COUNT];
extern const char presets_manual[]; /* about all presets; mdoc */

/* Call after flags, environment and file. Stores the detected platform in `config`. */
MUST_CHECK bool presets_apply(struct config *config, char **env, struct err *err);

/* Replaces "auto" in "notices" by the sources of the named preset, or of the detected scheduler and
 * cloud. It may read files: call it after the commands have started. `root` as in
 * platform_cloud(). */
MUST_CHECK bool presets_settle_notices(struct config *config, const char *root, struct err *err);

/* Writes the member "$platform": the preset and the evidence. Reads firmware files. */
void presets_show(const struct config *config, struct writer *w);
