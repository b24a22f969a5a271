/* SPDX-License-Identifier: Apache-2.0
 * See procs.h.
 */
#include "run/procs.h"

void procs_read_steps(struct loop *loop)
{
    /* No slot is taken, and the core does not look at free ones. */
    static const uint64_t none[CORE_SLOTS_MAX];
    loop_post(loop, &(struct event){.type = EV_STEPS, .steps = {.by_slot = none}});
}
