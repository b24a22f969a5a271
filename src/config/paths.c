/* SPDX-License-Identifier: Apache-2.0
 * See paths.h.
 */
#include "config/paths.h"

#include "base/str.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool paths_state_dir(const struct config *config, char **ret, struct err *err)
{
    char *dir = NULL;
    if (config->state_dir)
        dir = strdup(config->state_dir);
    else if (config->checkpoint.dir && asprintf(&dir, "%s/.pchrun", config->checkpoint.dir) < 0)
        dir = NULL;
    if (!dir && (config->state_dir || config->checkpoint.dir))
        return err_set(err, ERR_SYSTEM, ENOMEM, "cannot start");
    *ret = dir;
    return true;
}

bool paths_expand(const struct config *config, const char *template, const char *state_dir,
                  char **ret, struct err *err)
{
    static const char dir_name[] = "{state_dir}", rank_name[] = "{node_rank}";
    char path[4096] = "";
    *ret = NULL;
    if (!template || (!state_dir && strstr(template, dir_name)))
        return true;
    bool fits = true;
    for (const char *p = template; *p && fits;) {
        if (str_starts(p, dir_name)) {
            fits = str_addf(path, sizeof path, "%s", state_dir);
            p += sizeof dir_name - 1;
        } else if (str_starts(p, rank_name)) {
            fits = str_addf(path, sizeof path, "%d", config->cluster.node_rank);
            p += sizeof rank_name - 1;
        } else {
            size_t plain = 1 + strcspn(p + 1, "{");
            fits = str_addf(path, sizeof path, "%.*s", (int)plain, p);
            p += plain;
        }
    }
    if (!fits)
        return err_set(err, ERR_USAGE, ENAMETOOLONG, "the path '%s'", template);
    *ret = strdup(path);
    return *ret || err_set(err, ERR_SYSTEM, ENOMEM, "cannot start");
}
