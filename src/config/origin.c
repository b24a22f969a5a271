/* SPDX-License-Identifier: Apache-2.0
 * See origin.h.
 */
#include "config/origin.h"

#include "config/values.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

bool origin_set(struct config *config, const struct option *option, enum origin_from from,
                const char *text, struct err *err)
{
    struct config_origin *origin = &config->origins[option - options];
    bool is_merged = option->type == OPTION_SIGNALS && origin->from != from;
    char *whole;
    if (asprintf(&whole, "%s%s%s", is_merged ? origin_text(config, option->key) : "",
                 is_merged ? ", " : "", text) < 0)
        return err_set(err, ERR_SYSTEM, ENOMEM, "cannot read the configuration");
    bool grows = option->type == OPTION_LIST || option->type == OPTION_CODES ||
                 option->type == OPTION_NOTICES;
    if (grows && origin->from != from)
        value_clear(option, config);
    free(origin->text);
    *origin = (struct config_origin){.from = from, .text = whole};
    return true;
}

enum origin_from origin_from(const struct config *config, const char *key)
{
    return config->origins[option_by_key(key) - options].from;
}

const char *origin_text(const struct config *config, const char *key)
{
    const char *text = config->origins[option_by_key(key) - options].text;
    return text ? text : "default";
}

bool origin_is_given(const struct config *config, const char *key)
{
    return origin_from(config, key) != FROM_DEFAULT;
}
