/* SPDX-License-Identifier: Apache-2.0
 * See record.h.
 */
#include "run/record.h"

#include "base/err.h"

#include <inttypes.h>

static void answer(struct loop *loop, enum event_type type, const char *state_dir, uint64_t step)
{
    struct err err = {0};
    if (state_dir)
        err_set(&err, ERR_SYSTEM, 0,
                "step %" PRIu64 " cannot be recorded in '%s': no process has said what it saved",
                step, state_dir);
    loop_post(loop, &(struct event){.type = type,
                                    .written = {.step = step, .err = state_dir ? &err : NULL}});
}

void record_prepare(struct loop *loop, const char *state_dir, uint64_t step)
{
    answer(loop, EV_PREPARED, state_dir, step);
}

void record_commit(struct loop *loop, const char *state_dir, uint64_t step)
{
    answer(loop, EV_COMMITTED, state_dir, step);
}
