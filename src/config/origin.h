/* SPDX-License-Identifier: Apache-2.0
 *
 * origin: the origin of each option's value. Sources are applied from the weakest to the strongest,
 * each through origin_set(), so the last one wins. Discovery (sources.h) and the preset
 * (presets.h) come last, and only replace defaults. Main thread.
 */
#pragma once

#include "config/config.h"
#include "config/options.h"

/* Weakest first. */
enum origin_from {
    FROM_DEFAULT,
    FROM_PRESET,
    FROM_DISCOVERY,
    FROM_FILE,
    FROM_ENVIRONMENT,
    FROM_FLAG
};

struct config_origin {
    enum origin_from from;
    char *text; /* "flag --grace", "environment PCHRUN_GRACE", "file run7.json"; NULL: default */
};

/* Call before a source sets the option. Empties a list if another source had set it. Signals of
 * several sources are merged, so the names of all these sources are kept. */
MUST_CHECK bool origin_set(struct config *config, const struct option *option,
                           enum origin_from from, const char *text, struct err *err);
enum origin_from origin_from(const struct config *config, const char *key);
const char *origin_text(const struct config *config, const char *key);
bool origin_is_given(const struct config *config, const char *key); /* not the default */
