/* SPDX-License-Identifier: Apache-2.0
 * A notice that came before the first step: is there time to start, and to train? See
 * chief_parts.h.
 *
 * A deadline that leaves more than `grace` is a plan, not an end. The job starts and trains up to
 * it. A notice that leaves less ends a job that has nothing to save yet.
 */
#include "core/chief/chief_parts.h"

#include "base/clock.h"
#include "core/common/grace.h"

int64_t chief_near_at(const struct chief *chief)
{
    if (!chief->notice.is_live)
        return CLOCK_NEVER;
    if (!chief_uses_time(chief))
        return chief->notice.at;
    return grace_near_at(chief->notice.deadline, chief->notice.lead, chief->params->grace_ns);
}

bool chief_notice_is_near(const struct chief *chief)
{
    bool is_ending = chief_is_deciding(chief) && chief->gen.wants_to_end;
    return chief->notice.is_live && (is_ending || chief->out->now >= chief_near_at(chief));
}

/* Before a save was measured, a quarter of the time is kept for it, at most `grace`. */
static int64_t last_first_step(const struct chief *chief)
{
    int64_t quarter = (chief->notice.deadline - chief->notice.at) / 4;
    if (chief->save_ns)
        return chief->notice.final_at;
    return chief_abort_at(chief) - clock_min(quarter, chief->params->grace_ns);
}

int64_t chief_first_step_until(const struct chief *chief)
{
    bool leaves_time = chief->notice.deadline - chief->notice.at > chief->params->grace_ns;
    if (!chief->notice.is_live || any_is(chief, FACT_STEPPED) ||
        chief->params->save_mode != SAVE_ATTACH)
        return CLOCK_NEVER;
    if (!leaves_time || !chief_uses_time(chief))
        return chief->notice.at;
    return last_first_step(chief);
}

bool chief_awaits_first_step(const struct chief *chief)
{
    int64_t until = chief_first_step_until(chief);
    return until != CLOCK_NEVER && chief->out->now < until;
}
