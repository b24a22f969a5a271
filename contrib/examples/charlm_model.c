/* SPDX-License-Identifier: Apache-2.0
 *
 * charlm_model: the example's model and its arithmetic.
 *
 * All sums are made in one fixed order, without -ffast-math: one binary on one kind of processor
 * gives the same bits in every run. It owns nothing and cannot fail.
 */
#include "charlm.h"

#include <math.h>

#define PARAMS (sizeof(struct weights) / sizeof(float))
/* Adam */
#define RATE  0.005
#define BETA1 0.9
#define BETA2 0.999

uint64_t random_next(uint64_t *rng)
{
    uint64_t z = *rng += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

void model_init(struct weights *weights)
{
    uint64_t rng = 0;
    float *w = (float *)weights;
    for (size_t i = 0; i < PARAMS; i++)
        w[i] = ((float)(random_next(&rng) >> 40) * 0x1p-24f - 0.5f) * 0.2f;
}

void model_add(struct gradient *sum, const struct weights *w, const uint8_t *letters)
{
    struct weights *g = &sum->weights;
    float cells[HIDDEN], odds[LETTERS] = {0}, top = -INFINITY, total = 0;
    for (int j = 0; j < HIDDEN; j++) {
        float in = 0;
        for (int i = 0; i < CONTEXT; i++)
            in += w->inner[i][letters[i]][j];
        cells[j] = tanhf(in);
        for (int k = 0; k < LETTERS; k++)
            odds[k] += cells[j] * w->outer[j][k];
    }
    for (int k = 0; k < LETTERS; k++)
        top = fmaxf(top, odds[k]);
    for (int k = 0; k < LETTERS; k++)
        total += odds[k] = expf(odds[k] - top);
    for (int k = 0; k < LETTERS; k++)
        odds[k] /= total;

    /* The backward pass: the gradient of the cross entropy. */
    sum->loss -= logf(fmaxf(odds[letters[CONTEXT]], 1e-30f));
    odds[letters[CONTEXT]] -= 1;
    for (int j = 0; j < HIDDEN; j++) {
        float down = 0;
        for (int k = 0; k < LETTERS; k++) {
            down += w->outer[j][k] * odds[k];
            g->outer[j][k] += cells[j] * odds[k];
        }
        for (int i = 0; i < CONTEXT; i++)
            g->inner[i][letters[i]][j] += down * (1 - cells[j] * cells[j]);
    }
}

void model_update(struct state *state, const struct gradient *sum, float samples)
{
    double n = (double)state->step + 1;
    float rate = (float)(RATE * sqrt(1 - pow(BETA2, n)) / (1 - pow(BETA1, n)));
    const float *gradient = (const float *)&sum->weights;
    float *w = (float *)&state->weights, *m = (float *)&state->mean, *v = (float *)&state->variance;
    for (size_t i = 0; i < PARAMS; i++) {
        float g = gradient[i] / samples;
        m[i] += (float)(1 - BETA1) * (g - m[i]);
        v[i] += (float)(1 - BETA2) * (g * g - v[i]);
        w[i] -= rate * m[i] / (sqrtf(v[i]) + 1e-8f);
    }
}
