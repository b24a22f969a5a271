/* SPDX-License-Identifier: Apache-2.0
 * See sources.h.
 */
#include "watch/sources.h"

#include "base/str.h"

const struct source *const sources[] = {
    &source_gce,   &source_aws,  &source_azure,      &source_alibaba, &source_tencent,
    &source_slurm, &source_file, &source_kubernetes, &source_pod,     NULL,
};

const struct source *source_find(const char *name, struct err *err)
{
    const struct source *nearest = NULL;
    unsigned best = str_near(name) + 1;
    for (const struct source *const *source = sources; *source; source++) {
        unsigned distance = str_distance(name, (*source)->name);
        if (distance == 0)
            return *source;
        if (distance < best) {
            best = distance;
            nearest = *source;
        }
    }
    if (nearest)
        err_set(err, ERR_USAGE, 0, "unknown source \"%.80s\"; the nearest is \"%s\"", name,
                nearest->name);
    else
        err_set(err, ERR_USAGE, 0,
                "unknown source \"%.80s\"; pchrun-watch --list shows all that there are", name);
    return NULL;
}
