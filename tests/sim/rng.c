/* SPDX-License-Identifier: Apache-2.0
 * The random numbers of a schedule: the same seed gives the same numbers on every machine. See
 * sim.h.
 */
#include "sim.h"

uint64_t rng_next(struct rng *rng)
{
    uint64_t z = (rng->state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint64_t rng_below(struct rng *rng, uint64_t n)
{
    return n ? rng_next(rng) % n : 0;
}

bool rng_chance(struct rng *rng, unsigned per_mille)
{
    return rng_below(rng, 1000) < per_mille;
}

int64_t rng_time(struct rng *rng, int64_t from, int64_t to)
{
    return from + (int64_t)rng_below(rng, (uint64_t)(to - from) + 1);
}
