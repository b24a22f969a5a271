/* SPDX-License-Identifier: Apache-2.0
 *
 * sources: the table of sources; each has its own file. Constant.
 */
#ifndef PCHRUN_WATCH_SOURCES_H
#define PCHRUN_WATCH_SOURCES_H

#include "watch/watch.h"

extern const struct source source_gce, source_aws, source_azure, source_alibaba, source_tencent,
    source_slurm, source_file, source_kubernetes, source_pod;

/* Ends with NULL. */
extern const struct source *const sources[];

#endif
