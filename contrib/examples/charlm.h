/* SPDX-License-Identifier: Apache-2.0
 *
 * charlm.h: shared by the example's files. Read charlm.c, the program, first. Only it and
 * charlm_die.c, which reports an error, call libpch. The other files are the parts of any training,
 * in small: a model (charlm_model.c), its checkpoints (charlm_checkpoint.c), a sum over the ranks
 * (charlm_net.c), and options (charlm_options.c). They use only the C library, and none of them
 * calls charlm.c.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pch.h>

#define LETTERS   96 /* the printable characters of ASCII, and one that stands for any other byte */
#define CONTEXT   8  /* letters from which the next one is predicted */
#define HIDDEN    64
#define BATCH     16 /* samples of a step on each rank */
#define RANKS_MAX 1024

struct options {
    long rank, world;
    const char *text, *dir, *root, *port;
    long steps, save_every, resume, log_every, step_time_ms, save_time_ms, skew_ms, join_timeout_s;
};
extern struct options opt;
/* Fills opt, but for rank and world. Ends the program after --help (0) and on wrong options (2). */
void options_parse(int argc, char **argv);

extern pch_t *job; /* NULL: not opened yet */
/* Says so on standard error and to pchrun, and ends the program with 1. */
_Noreturn void die(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* --- model: each letter of the context adds its row to the cells of a tanh layer; from the cells
 * come the odds of the next letter --- */

struct weights {
    float inner[CONTEXT][LETTERS][HIDDEN];
    float outer[HIDDEN][LETTERS];
};

struct gradient {
    struct weights weights;
    float loss; /* so that one sum over the ranks carries both */
};

/* All that a rank needs to go on, in one block: a checkpoint is this block. */
struct state {
    uint64_t magic, digest; /* of all that follows; both are set when it is written */
    /* The same on every rank: */
    uint64_t text; /* the digest of the learnt text */
    long world;
    long step;                              /* finished */
    struct weights weights, mean, variance; /* the last two are Adam's */
    /* This rank's own: */
    long rank;
    uint64_t rng;
};

/* Splitmix64; the state is one word. */
uint64_t random_next(uint64_t *rng);
/* The same values every time. */
void model_init(struct weights *weights);
/* Adds one sample: CONTEXT letters, and the letter after them, which is to be predicted. */
void model_add(struct gradient *sum, const struct weights *weights, const uint8_t *letters);
/* One step of Adam with the mean over the given number of samples. */
void model_update(struct state *state, const struct gradient *sum, float samples);

/* --- checkpoint --- */

/* FNV-1a. */
uint64_t digest(const void *data, size_t len);
/* True: it is on disk, in the directory open at dir_fd. False: errno says why. After a crash at any
 * time the file is complete or absent. */
bool checkpoint_write(struct state *state, int dir_fd, const char *path);
/* Replaces *state. Ends the program if the file is damaged, or if its text, rank or world is
 * another. */
void checkpoint_read(struct state *state, const char *path);

/* --- net: sums over the ranks --- */

/* Rank 0 listens at opt.root, the others connect. `token` is equal on ranks that fit. */
void net_join(uint64_t token);
/* Gives every rank the same sum, equal in every bit. Returns -1, or the rank that is lost. */
long net_sum(struct gradient *values);
