/* SPDX-License-Identifier: Apache-2.0
 *
 * sources: all that can be watched; each is a file of its own. Constant.
 */
#ifndef PCHRUN_WATCH_SOURCES_H
#define PCHRUN_WATCH_SOURCES_H

#include "watch/watch.h"

extern const struct source source_gce, source_aws, source_azure, source_alibaba, source_tencent,
    source_slurm, source_file, source_kubernetes, source_pod;

/* All of them, up to NULL. */
extern const struct source *const sources[];

/* NULL with *err, which names the nearest: there is none of that name. */
MUST_CHECK const struct source *source_find(const char *name, struct err *err);

#endif
