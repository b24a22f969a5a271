/* SPDX-License-Identifier: Apache-2.0
 * See sources.h.
 */
#include "base/str.h"
#include "config/origin.h"
#include "config/sources.h"
#include "config/values.h"

#include <stdio.h>
#include <string.h>

#define PREFIX      "PCHRUN_"
#define CONFIG_FILE "PCHRUN_CONFIG="

static bool apply_variable(const char *name, const char *text, struct config *config,
                           struct err *err)
{
    const struct option *option = option_by_variable(name);
    if (!option)
        return option_unknown_variable(name, err);
    /* The environment has no order, so two names of one option are an error. */
    if (origin_from(config, option->key) == FROM_ENVIRONMENT)
        return err_set(err, ERR_USAGE, 0, "%s: %s is set already by the %s; keep one of the two",
                       name, option->key, origin_text(config, option->key));
    char where[2 * OPTION_NAME_MAX + 16];
    snprintf(where, sizeof where, "environment %s", name);
    if (!origin_set(config, option, FROM_ENVIRONMENT, where, err))
        return false;
    if (!value_from_text(option, text, NULL, config, err))
        return err_wrap(err, "%s", name);
    return true;
}

bool env_apply(char **env, struct config *config, struct err *err)
{
    for (; *env; env++) {
        const char *equals = strchr(*env, '=');
        if (!equals || !str_starts(*env, PREFIX) || str_starts(*env, CONFIG_FILE))
            continue;
        char name[2 * OPTION_NAME_MAX]; /* a name that is cut is still too long to be known */
        snprintf(name, sizeof name, "%.*s", (int)(equals - *env), *env);
        if (!apply_variable(name, equals + 1, config, err))
            return false;
    }
    return true;
}
