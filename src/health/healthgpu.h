/* SPDX-License-Identifier: Apache-2.0
 *
 * healthgpu: the built-in health check of NVIDIA's GPUs (health.gpu), by NVML and by the Xids in
 * the kernel log. For a helper: NVML waits in the driver for a GPU that does not answer.
 *
 * Against the node count a GPU that is lost, or fewer GPUs than before; a GPU for which the driver
 * wants a reset or more; memory that cannot be repaired, or that is in use until a reset; Xids of
 * healthxid.h. A hot GPU is only told, and all else with which a job can train. So is what is found
 * at a GPU that CUDA_VISIBLE_DEVICES does not have.
 */
#pragma once

#include "health/healthline.h"

#include <stdbool.h>

/* One check leaves this to the next. Zeroed: there was no check. */
struct healthgpu_past {
    long long lines; /* the number of the first line of the kernel log that it did not see; 0: it
                        saw none */
    unsigned gpus;   /* how many the job could use */
};

/* HEALTH_SKIPPED: this machine has no NVML, or no driver. HEALTH_GOOD: the text has what is only
 * told; "": nothing. */
struct healthgpu_answer {
    struct health_answer health;
    struct healthgpu_past past;
};

/* May block for ever, and keeps the library. */
void healthgpu_ask(const struct healthgpu_past *past, struct healthgpu_answer *ret);
/* helper_fn: `arg` is a struct healthgpu_past. Writes one struct healthgpu_answer. */
void healthgpu_check(const void *arg, int answer);
