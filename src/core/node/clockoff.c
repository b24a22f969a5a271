/* SPDX-License-Identifier: Apache-2.0
 * See clockoff.h.
 */
#include "core/node/clockoff.h"

#include <stddef.h>

/* Two clocks drift apart by less than 1/DRIFT: quartz is better, and NTP corrects most clocks. */
#define DRIFT 10000

/* No kernel clock shows more, and no sum of two such times overflows. */
#define TIME_MAX (INT64_MAX / 4)

static int64_t error_at(const struct clockoff_sample *sample, int64_t now)
{
    return sample->error + (now - sample->at) / DRIFT;
}

static const struct clockoff_sample *best(const struct clockoff *off, int64_t now)
{
    const struct clockoff_sample *best = NULL;
    for (int i = 0; i < off->n; i++)
        if (!best || error_at(&off->samples[i], now) < error_at(best, now))
            best = &off->samples[i];
    return best;
}

static bool contradicts(const struct clockoff_sample *a, const struct clockoff_sample *b)
{
    int64_t between = a->offset > b->offset ? a->offset - b->offset : b->offset - a->offset;
    return between > a->error + error_at(b, a->at);
}

void clockoff_take(struct clockoff *off, int64_t sent, int64_t answered, int64_t theirs)
{
    if (theirs < 0 || theirs > TIME_MAX || answered < sent)
        return;
    int64_t half = (answered - sent) / 2;
    /* One more, because the division rounds down. */
    struct clockoff_sample sample = {
        .at = answered, .offset = theirs - (sent + half), .error = half + 1};
    const struct clockoff_sample *old = best(off, answered);
    if (old && contradicts(&sample, old))
        off->n = off->next = 0;
    off->samples[off->next] = sample;
    off->next = (off->next + 1) % CLOCKOFF_SAMPLES;
    off->n += off->n < CLOCKOFF_SAMPLES;
}

bool clockoff_theirs(const struct clockoff *off, int64_t now, int64_t ours, int64_t *ret_theirs,
                     int64_t *ret_error)
{
    const struct clockoff_sample *sample = best(off, now);
    if (!sample)
        return false;
    *ret_theirs = ours + sample->offset;
    *ret_error = error_at(sample, now);
    return true;
}
