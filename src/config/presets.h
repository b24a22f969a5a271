/* SPDX-License-Identifier: Apache-2.0
 *
 * presets: what pchrun takes instead of its defaults on one platform: a table of option texts.
 *
 * A preset fills in what nobody has set, option by option, and signal by signal; so each of its
 * values can be overridden alone. One is named by the option "preset", or found (platform.h).
 * Main thread.
 */
#ifndef PCHRUN_CONFIG_PRESETS_H
#define PCHRUN_CONFIG_PRESETS_H

#include "config/config.h"
#include "config/platform.h"
#include "json/writer.h"

enum { PRESET_SETTINGS_MAX = 6, PRESET_SOURCES_MAX = 1 };

struct preset_setting {
    const char *key, *text; /* as a flag would have it */
};
struct preset_row {
    const char *title;
    const char *manual;                                      /* mdoc, whole sentences */
    struct preset_setting settings[PRESET_SETTINGS_MAX + 1]; /* ends with a key that is NULL */
    /* What "auto" in "notices" stands for; ends with CONFIG_NOTICE_AUTO. */
    enum config_notice_kind sources[PRESET_SOURCES_MAX + 1];
};
extern const struct preset_row presets[PRESET__COUNT];
extern const char presets_manual[]; /* what is to be said of all; mdoc */

/* After flags, environment and file. Notes in `config` what was found. */
MUST_CHECK bool presets_apply(struct config *config, char **env, struct err *err);

/* Puts what "auto" in "notices" stands for into its place: the sources of the preset that is named,
 * or of the scheduler and the cloud that are found. It may read files, which the commands' start
 * does not wait for: call it after that. `root` is as of platform_cloud(). */
MUST_CHECK bool presets_settle_notices(struct config *config, const char *root, struct err *err);

/* The member "$platform": which preset is in force, and the evidence. Reads the firmware's files.
 */
void presets_show(const struct config *config, struct writer *w);

#endif
