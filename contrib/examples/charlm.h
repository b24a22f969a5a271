/* SPDX-License-Identifier: Apache-2.0
 *
 * charlm.h: what the example's files share: the model and its checkpoints (charlm_model.c) and the
 * sum over the ranks (charlm_net.c). The program itself is charlm.c. It uses pch.h and the C
 * library and nothing else of this project, as a program of yours would.
 *
 * A function that can fail returns false and says why in a struct why.
 */
#ifndef CHARLM_H
#define CHARLM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MUST_CHECK __attribute__((warn_unused_result))

struct why {
    char text[1000];
};
/* Fills *why in and returns false; an errno other than 0 adds its text. */
bool why_set(struct why *why, int sys_errno, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* FNV-1a, 64 bits: begin with FNV_START, or go on from an earlier value. */
#define FNV_START UINT64_C(0xcbf29ce484222325)
uint64_t fnv64(uint64_t hash, const void *data, size_t len);

/* --- random numbers: splitmix64. The state is one word, so it fits into a checkpoint. --- */

struct rng {
    uint64_t state;
};
/* A stream of its own for each (seed, a, b). */
struct rng rng_for(uint64_t seed, uint64_t a, uint64_t b);
uint64_t rng_next(struct rng *rng);
/* In [0, n), n > 0. */
uint64_t rng_below(struct rng *rng, uint64_t n);
/* In [0, 1). */
float rng_unit(struct rng *rng);

/* --- model: letters -> embedding -> tanh layer -> next letter, trained by Adam --- */

struct model_sizes {
    uint32_t vocab, context, embed, hidden;
};

struct model {
    struct model_sizes sizes;
    size_t params;
    /* Each has `params` values; gradient has one more, the loss, so that one sum carries both. */
    float *weights, *gradient, *mean, *variance;
    float *work; /* the activations of one sample */
};

/* Weights from the seed, the same on every rank. model_fini() frees. */
MUST_CHECK bool model_init(struct model *model, const struct model_sizes *sizes, uint64_t seed,
                           struct why *why);
void model_fini(struct model *model);
/* Sets the gradient and the loss to 0: before the first sample of a batch. */
void model_begin(struct model *model);
/* Adds one sample's gradient and loss: `next` follows the sizes.context letters at `letters`. The
 * dropout is drawn from rng. */
void model_add(struct model *model, const uint8_t *letters, uint8_t next, struct rng *rng);
/* Step number `step` (from 1) of Adam with the gradient divided by `samples`. Returns the mean
 * loss. */
float model_update(struct model *model, uint64_t step, float rate, float samples);
/* Draws the letter that follows. */
uint8_t model_draw(struct model *model, const uint8_t *letters, struct rng *rng);

/* --- checkpoint: the whole state of one rank, in one file --- */

/* All that is not in the model. */
struct checkpoint {
    uint64_t step;
    uint32_t rank, world;
    uint64_t seed, text; /* the text's digest */
    struct rng rng;
};

size_t checkpoint_size(const struct model *model);
/* Copies the state into checkpoint_size() bytes; the training may go on while they are written. */
void checkpoint_encode(const struct model *model, const struct checkpoint *state, void *bytes);
/* Durable when it returns: the file is there whole, or not at all. Any thread. */
MUST_CHECK bool checkpoint_write(const char *path, const void *bytes, size_t len, struct why *why);
/* Reads the state into the model and state->rng. The other fields of *state say what the file must
 * be; a file that is damaged or is something else is refused, and nothing is changed. */
MUST_CHECK bool checkpoint_read(const char *path, struct model *model, struct checkpoint *state,
                                struct why *why);

/* --- net: sums over the ranks, a star around rank 0 --- */

struct net {
    int rank, world;
    int *links;      /* rank 0: one per rank, -1 for itself; others: links[0] leads to rank 0 */
    float *incoming; /* rank 0: what one rank has sent */
    size_t longest;  /* the longest sum */
};

struct net_options {
    int rank, world;
    const char *root; /* ADDR:PORT: rank 0 listens there, the others connect */
    int timeout_s;    /* for all to have joined */
    size_t longest;   /* the longest sum */
    uint64_t token;   /* must be equal on all ranks: settings, step, weights */
};

/* Joins all ranks; at once where there is one. net_fini() closes, also after a failure. */
MUST_CHECK bool net_init(struct net *net, const struct net_options *options, struct why *why);
void net_fini(struct net *net);
/* Replaces n values on every rank by their sums, added in the order of the ranks: the result is the
 * same to the bit on every rank and in every run. */
MUST_CHECK bool net_sum(struct net *net, float *values, size_t n, struct why *why);
/* *ret_same: does every rank have the same word? */
MUST_CHECK bool net_compare(struct net *net, uint64_t word, bool *ret_same, struct why *why);

#endif
