/* SPDX-License-Identifier: Apache-2.0
 * See stride.h.
 */
#include "core/common/stride.h"

struct stride stride_make(uint64_t first_step, uint64_t period)
{
    if (period == 0)
        period = 1;
    return (struct stride){.offset = first_step % period, .period = period};
}

static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

bool stride_join(struct stride *a, struct stride b)
{
    if (a->period > STRIDE_MAX || b.period > STRIDE_MAX)
        return a->period == b.period && a->offset == b.offset;
    uint64_t common = gcd(a->period, b.period);
    uint64_t far = a->offset > b.offset ? a->offset - b.offset : b.offset - a->offset;
    uint64_t period = a->period / common * b.period;
    if (far % common != 0 || period > STRIDE_MAX)
        return false;
    /* The first common step is a step of the longer stride; at most period / longer are tried. */
    struct stride longer = a->period > b.period ? *a : b;
    struct stride shorter = a->period > b.period ? b : *a;
    uint64_t at = longer.offset;
    while (at % shorter.period != shorter.offset)
        at += longer.period;
    /* No period is 0 (stride_make). NOLINTNEXTLINE(clang-analyzer-core.DivideZero) */
    *a = (struct stride){.offset = at % period, .period = period};
    return true;
}

uint64_t stride_up(struct stride s, uint64_t step)
{
    uint64_t past = step % s.period;
    return step + (s.offset + s.period - past) % s.period;
}
