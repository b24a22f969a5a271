/* SPDX-License-Identifier: Apache-2.0
 * See sources.h.
 */
#include "watch/sources.h"

const struct source *const sources[] = {
    &source_gce,   &source_aws,  &source_azure,      &source_alibaba, &source_tencent,
    &source_slurm, &source_file, &source_kubernetes, &source_pod,     NULL,
};
