/* SPDX-License-Identifier: Apache-2.0
 *
 * charlm: a small data-parallel character language model, trained on a text file; the example of a
 * program that pchrun can preempt. See train() for what that takes.
 *
 *     charlm                                            one process, no pchrun
 *     pchrun -n 4 --checkpoint-dir ckpt -- charlm --dir ckpt
 *
 * Each rank draws its own samples, the gradients are summed over the ranks, and each rank makes the
 * same update. All state is in the checkpoints, so a run that was preempted and started again ends
 * with the same weights, to the bit, as one that was not. Any error ends the program with a line on
 * standard error and exit status 1 (2: wrong options).
 */
#include "charlm.h"

#include <pch.h>

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define EMBED         12
#define SAMPLE_LENGTH 240
#define TEXT_MAX      (256L * 1024 * 1024)
#define DIR_LEN_MAX   (PATH_MAX - 100) /* leaves room for a checkpoint's name */

/* --- options: one table drives the parser and --help --- */

struct options {
    const char *text, *dir, *root;
    uint64_t steps, save_every, resume, seed, hidden, batch, context, log_every;
    uint64_t step_time_ms, skew_ms, join_timeout_s;
    double rate;
    bool async;
};

static const struct options defaults = {
    .text = "/usr/share/common-licenses/GPL-3",
    .dir = "charlm-checkpoints",
    .root = "127.0.0.1:14300",
    .steps = 400,
    .seed = 1,
    .hidden = 96,
    .batch = 16,
    .context = 12,
    .log_every = 20,
    .join_timeout_s = 60,
    .rate = 0.01,
};

enum kind { STRING, WHOLE, REAL, FLAG };

struct row {
    const char *name, *value, *help;
    enum kind kind;
    size_t offset;
    double min, max;
};

#define AT(field) offsetof(struct options, field)
static const struct row rows[] = {
    {"text", "FILE", "the text to learn", STRING, AT(text), 0, 0},
    {"steps", "N", "train to this step", WHOLE, AT(steps), 1, 1e12},
    {"dir", "DIR", "where the checkpoints go", STRING, AT(dir), 0, 0},
    {"save-every", "N", "save every N steps, 0: only at the end", WHOLE, AT(save_every), 0, 1e12},
    {"async", NULL, "save in the background", FLAG, AT(async), 0, 0},
    {"resume", "STEP", "without pchrun: go on from this step's checkpoint", WHOLE, AT(resume), 0,
     1e12},
    {"seed", "N", "of all random numbers", WHOLE, AT(seed), 0, 9e15},
    {"hidden", "N", "cells of the hidden layer", WHOLE, AT(hidden), 1, 4096},
    {"context", "N", "letters that the next one is told from", WHOLE, AT(context), 1, 256},
    {"batch", "N", "samples of a step on each rank", WHOLE, AT(batch), 1, 65536},
    {"lr", "X", "learning rate", REAL, AT(rate), 0, 1},
    {"root", "ADDR:PORT", "where rank 0 listens for the others", STRING, AT(root), 0, 0},
    {"join-timeout", "S", "seconds for all ranks to be there", WHOLE, AT(join_timeout_s), 1, 86400},
    {"step-time", "MS", "sleep so long in each step, to make a demonstration last", WHOLE,
     AT(step_time_ms), 0, 60000},
    {"skew", "MS", "rank r sleeps r times as long in addition", WHOLE, AT(skew_ms), 0, 60000},
    {"log-every", "N", "steps between two lines of progress", WHOLE, AT(log_every), 1, 1e12},
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

static void print_default(const struct row *row)
{
    const void *at = (const char *)&defaults + row->offset;
    switch (row->kind) {
    case STRING:
        printf(" (%s)", *(const char *const *)at);
        break;
    case WHOLE:
        printf(" (%" PRIu64 ")", *(const uint64_t *)at);
        break;
    case REAL:
        printf(" (%g)", *(const double *)at);
        break;
    case FLAG:
        break;
    }
}

static void print_help(void)
{
    puts("usage: charlm [options]\n"
         "Trains a character language model on a text, alone or as one of several ranks.\n");
    for (size_t i = 0; i < ROWS; i++) {
        char left[40];
        snprintf(left, sizeof(left), "--%s %s", rows[i].name, rows[i].value ? rows[i].value : "");
        printf("  %-20s  %s", left, rows[i].help);
        print_default(&rows[i]);
        putchar('\n');
    }
    puts("\nRank and number of ranks: PCH_RANK and PCH_WORLD_SIZE, as pchrun sets them, else RANK "
         "and\n"
         "WORLD_SIZE, else one rank. Under pchrun the training resumes from the last commit.");
}

/* A number within the row's bounds, nothing before or behind it. */
static bool parse_value(const struct row *row, const char *text, void *at)
{
    char *end;
    errno = 0;
    if (row->kind == STRING) {
        *(const char **)at = text;
        return text[0] != '\0';
    }
    double real = strtod(text, &end);
    bool ok = end != text && !*end && !errno && real >= row->min && real <= row->max;
    if (!ok || row->kind == REAL) {
        *(double *)at = real;
        return ok;
    }
    uint64_t whole = strtoull(text, &end, 10);
    *(uint64_t *)at = whole;
    return text[0] >= '0' && text[0] <= '9' && !*end;
}

enum parsed { PARSED_RUN, PARSED_HELP, PARSED_BAD };

static enum parsed parse_options(int argc, char **argv, struct options *options)
{
    struct option longs[ROWS + 2] = {[ROWS] = {"help", no_argument, NULL, 'h'}};
    for (size_t i = 0; i < ROWS; i++)
        longs[i] = (struct option){
            rows[i].name, rows[i].kind == FLAG ? no_argument : required_argument, NULL, 256};
    *options = defaults;
    int index, c;
    while ((c = getopt_long(argc, argv, "h", longs, &index)) != -1) {
        if (c == 'h') {
            print_help();
            return PARSED_HELP;
        }
        if (c != 256)
            return PARSED_BAD;
        void *at = (char *)options + rows[index].offset;
        if (rows[index].kind == FLAG) {
            *(bool *)at = true;
        } else if (!parse_value(&rows[index], optarg, at)) {
            fprintf(stderr, "charlm: --%s %s: wanted is %s\n", rows[index].name, optarg,
                    rows[index].value);
            return PARSED_BAD;
        }
    }
    if (optind < argc)
        fprintf(stderr, "charlm: %s: charlm takes options only\n", argv[optind]);
    return optind < argc ? PARSED_BAD : PARSED_RUN;
}

/* --- the text, as numbers from 0 for the letters that occur in it --- */

struct text {
    uint8_t *letters;
    size_t len;
    uint32_t vocab;
    uint8_t shown[256]; /* number to byte */
    uint64_t digest;
};

static bool text_read(struct text *text, const char *path, struct why *why)
{
    FILE *file = fopen(path, "rbe");
    if (!file)
        return why_set(why, errno, "cannot read the text %s (--text)", path);
    struct stat st;
    size_t size = fstat(fileno(file), &st) == 0 && st.st_size > 0 ? (size_t)st.st_size : 0;
    if (size <= TEXT_MAX)
        text->letters = malloc(size + 1);
    if (text->letters)
        text->len = fread(text->letters, 1, size, file);
    int failed = ferror(file) ? errno : 0;
    fclose(file);
    if (!text->letters)
        return why_set(why, 0, "the text %s is too long (--text)", path);
    return !failed || why_set(why, failed, "cannot read the text %s (--text)", path);
}

static bool text_load(struct text *text, const struct options *options, struct why *why)
{
    if (!text_read(text, options->text, why))
        return false;
    if (text->len <= options->context)
        return why_set(why, 0, "the text %s has %zu letters, a context of %" PRIu64 " needs more",
                       options->text, text->len, options->context);
    text->digest = fnv64(FNV_START, text->letters, text->len);
    bool occurs[256] = {false};
    uint8_t number[256] = {0};
    for (size_t i = 0; i < text->len; i++)
        occurs[text->letters[i]] = true;
    for (unsigned byte = 0; byte < 256; byte++)
        if (occurs[byte]) {
            number[byte] = (uint8_t)text->vocab;
            text->shown[text->vocab++] = (uint8_t)byte;
        }
    for (size_t i = 0; i < text->len; i++)
        text->letters[i] = number[text->letters[i]];
    return true;
}

/* --- the trainer --- */

struct saver {
    pthread_t thread;
    bool is_running; /* the thread is to be joined */
    bool failed;     /* the last save */
    uint64_t step;
    char path[PATH_MAX];
    char *bytes; /* what is being written */
    size_t size;
};

struct trainer {
    const struct options *options;
    int rank, world;
    char dir[PATH_MAX]; /* absolute */
    pch_t *job;
    struct text text;
    struct model model;
    struct net net;
    struct rng rng;  /* of the dropout: a stream of this rank's own */
    uint64_t step;   /* finished */
    bool is_leaving; /* pchrun told us to */
    struct saver saver;
    float loss; /* summed since the last line of progress */
    uint64_t logged_step;
    double logged_at;
};

static double now_s(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static void sleep_ms(uint64_t ms)
{
    struct timespec left = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};
    while (ms > 0 && clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR) {
    }
}

static void log_progress(struct trainer *t)
{
    if (t->step % t->options->log_every != 0 && t->step != t->options->steps)
        return;
    double now = now_s();
    double steps = (double)(t->step - t->logged_step);
    if (t->rank == 0)
        printf("step %" PRIu64 " loss %.4f %.1f steps/s\n", t->step, (double)t->loss / steps,
               steps / (now - t->logged_at));
    t->loss = 0;
    t->logged_step = t->step;
    t->logged_at = now;
}

/* The samples depend on the step and the rank alone; the dropout on all that this rank has drawn.
 */
static bool train_step(struct trainer *t, struct why *why)
{
    const struct options *o = t->options;
    struct rng samples = rng_for(o->seed, t->step, (uint64_t)t->rank);
    model_begin(&t->model);
    for (uint64_t i = 0; i < o->batch; i++) {
        const uint8_t *at = t->text.letters + rng_below(&samples, t->text.len - o->context);
        model_add(&t->model, at, at[o->context], &t->rng);
    }
    if (!net_sum(&t->net, t->model.gradient, t->model.params + 1, why))
        return false;
    float count = (float)(o->batch * (uint64_t)t->world);
    t->loss += model_update(&t->model, t->step + 1, (float)o->rate, count);
    sleep_ms(o->step_time_ms + o->skew_ms * (uint64_t)t->rank);
    return true;
}

static void path_of_step(const struct trainer *t, uint64_t step, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%.*s/step-%08" PRIu64 ".rank-%d-of-%d", DIR_LEN_MAX, t->dir, step,
             t->rank, t->world);
}

/* Writes what the saver holds. On the training thread, or in the background. */
static bool write_checkpoint(struct trainer *t)
{
    struct saver *s = &t->saver;
    struct why why = {0};
    double began = now_s();
    s->failed = !checkpoint_write(s->path, s->bytes, s->size, &why);
    if (s->failed) {
        fprintf(stderr, "charlm[%d]: %s\n", t->rank, why.text);
        pch_save_failed(t->job, s->step, why.text);
        return false;
    }
    fprintf(stderr, "charlm[%d]: saved step %" PRIu64 " in %.0f ms\n", t->rank, s->step,
            (now_s() - began) * 1e3);
    return true;
}

static void *save_in_background(void *arg)
{
    struct trainer *t = arg;
    if (write_checkpoint(t))
        pch_durable(t->job, t->saver.step, t->saver.path);
    return NULL;
}

static void wait_for_save(struct trainer *t)
{
    if (t->saver.is_running)
        pthread_join(t->saver.thread, NULL);
    t->saver.is_running = false;
}

static enum pch_action save(struct trainer *t)
{
    struct saver *s = &t->saver;
    wait_for_save(t);
    s->step = t->step;
    path_of_step(t, t->step, s->path);
    struct checkpoint state = {.step = t->step,
                               .rank = (uint32_t)t->rank,
                               .world = (uint32_t)t->world,
                               .seed = t->options->seed,
                               .text = t->text.digest,
                               .rng = t->rng};
    checkpoint_encode(&t->model, &state, s->bytes);
    if (t->options->async && pthread_create(&s->thread, NULL, save_in_background, t) == 0) {
        s->is_running = true;
        return PCH_CONTINUE;
    }
    return write_checkpoint(t) ? pch_saved(t->job, s->step, s->path) : PCH_CONTINUE;
}

static bool is_save_due(const struct trainer *t)
{
    uint64_t every = t->options->save_every;
    return t->step == t->options->steps || (every > 0 && t->step % every == 0);
}

/* The training loop. What pchrun asks of it: pch_step after each step, and to save or leave when it
 * says so. A save of the program's own is reported the same way. */
static bool train(struct trainer *t, struct why *why)
{
    enum pch_action action = PCH_CONTINUE;
    while (t->step < t->options->steps && action != PCH_EXIT) {
        if (!train_step(t, why)) {
            /* Where time was too short to agree on a step, another rank may have left first. */
            t->is_leaving = pch_notice(t->job, NULL, 0) > 0;
            return t->is_leaving;
        }
        action = pch_step(t->job, ++t->step);
        if (action == PCH_SAVE || (action == PCH_CONTINUE && is_save_due(t)))
            action = save(t);
        log_progress(t);
    }
    t->is_leaving = action == PCH_EXIT;
    wait_for_save(t);
    return true;
}

/* --- start and end --- */

static bool read_number(const char *name, int min, int *ret, struct why *why)
{
    const char *text = getenv(name);
    char *end;
    long n = strtol(text, &end, 10);
    if (end == text || *end || n < min || n > 65536)
        return why_set(why, 0, "%s=%s: not a number from %d to 65536", name, text, min);
    *ret = (int)n;
    return true;
}

static bool find_place(struct trainer *t, struct why *why)
{
    static const char *const names[][2] = {{"PCH_RANK", "PCH_WORLD_SIZE"}, {"RANK", "WORLD_SIZE"}};
    t->world = 1;
    for (size_t i = 0; i < 2; i++) {
        if (!getenv(names[i][0]) || !getenv(names[i][1]))
            continue;
        if (!read_number(names[i][1], 1, &t->world, why) ||
            !read_number(names[i][0], 0, &t->rank, why))
            return false;
        return t->rank < t->world || why_set(why, 0, "%s=%d, and there are only %d ranks",
                                             names[i][0], t->rank, t->world);
    }
    return true;
}

static bool find_dir(struct trainer *t, struct why *why)
{
    const char *dir = t->options->dir;
    if ((mkdir(dir, 0777) != 0 && errno != EEXIST) || !realpath(dir, t->dir))
        return why_set(why, errno, "cannot make the checkpoint directory %s (--dir)", dir);
    if (strlen(t->dir) > DIR_LEN_MAX)
        return why_set(why, ENAMETOOLONG, "no room for names in %s (--dir)", t->dir);
    return true;
}

static bool resume(struct trainer *t, struct why *why)
{
    t->step = pch_resume_step(t->job);
    if (t->options->resume && pch_supervised(t->job))
        return why_set(why, 0, "--resume is pchrun's to say: leave it out under pchrun");
    if (t->options->resume)
        t->step = t->options->resume;
    if (t->step == 0)
        return true;
    char path[PATH_MAX];
    path_of_step(t, t->step, path);
    const char *committed = pch_resume_path(t->job);
    struct checkpoint state = {.step = t->step,
                               .rank = (uint32_t)t->rank,
                               .world = (uint32_t)t->world,
                               .seed = t->options->seed,
                               .text = t->text.digest};
    if (!checkpoint_read(committed ? committed : path, &t->model, &state, why))
        return false;
    t->rng = state.rng;
    return true;
}

/* Equal on all ranks if they can train together. */
static uint64_t token(const struct trainer *t)
{
    const struct options *o = t->options;
    const uint64_t words[] = {t->step,  o->steps,   o->seed,       o->hidden,
                              o->batch, o->context, t->text.digest};
    uint64_t hash = fnv64(FNV_START, words, sizeof(words));
    hash = fnv64(hash, &o->rate, sizeof(o->rate));
    return fnv64(hash, t->model.weights, t->model.params * sizeof(float));
}

static bool start(struct trainer *t, struct why *why)
{
    const struct options *o = t->options;
    if (!find_place(t, why))
        return false;
    struct pch_options attach = PCH_OPTIONS_INIT;
    attach.rank = t->rank;
    attach.world_size = t->world;
    attach.last_step = o->steps;
    t->job = pch_open(&attach);
    if (!text_load(&t->text, o, why) || !find_dir(t, why))
        return false;
    struct model_sizes sizes = {t->text.vocab, (uint32_t)o->context, EMBED, (uint32_t)o->hidden};
    if (!model_init(&t->model, &sizes, o->seed, why))
        return false;
    t->rng = rng_for(o->seed, UINT64_MAX, 1 + (uint64_t)t->rank);
    t->saver.size = checkpoint_size(&t->model);
    t->saver.bytes = malloc(t->saver.size);
    if (!t->saver.bytes)
        return why_set(why, 0, "no memory for a checkpoint of %zu bytes", t->saver.size);
    if (!resume(t, why))
        return false;
    struct net_options net = {.rank = t->rank,
                              .world = t->world,
                              .root = o->root,
                              .timeout_s = (int)o->join_timeout_s,
                              .longest = t->model.params + 1,
                              .token = token(t)};
    if (!net_init(&t->net, &net, why))
        return false;
    if (t->rank == 0)
        printf("charlm: %d ranks, %zu weights, %zu letters of text, from step %" PRIu64
               " to %" PRIu64 "\n",
               t->world, t->model.params, t->text.len, t->step, o->steps);
    t->logged_step = t->step;
    t->logged_at = now_s();
    return true;
}

static void print_sample(struct trainer *t)
{
    uint8_t letters[256 + SAMPLE_LENGTH];
    size_t context = t->options->context;
    struct rng rng = rng_for(t->options->seed, UINT64_MAX, UINT64_MAX);
    memcpy(letters, t->text.letters, context);
    puts("a sample:");
    for (size_t i = 0; i < SAMPLE_LENGTH; i++) {
        letters[context + i] = model_draw(&t->model, letters + i, &rng);
        putchar(t->text.shown[letters[context + i]]);
    }
    putchar('\n');
}

/* After the last step. */
static bool finish(struct trainer *t, struct why *why)
{
    bool same;
    uint64_t digest = fnv64(FNV_START, t->model.weights, t->model.params * sizeof(float));
    if (t->saver.failed)
        return why_set(why, 0, "trained to the end, but the result could not be saved");
    if (!net_compare(&t->net, digest, &same, why))
        return false;
    if (!same)
        return why_set(why, 0, "the ranks have ended with different weights");
    if (t->rank == 0) {
        print_sample(t);
        printf("digest %016" PRIx64 "\n", digest);
    }
    pch_done(t->job);
    return true;
}

static void stop(struct trainer *t)
{
    wait_for_save(t);
    net_fini(&t->net);
    model_fini(&t->model);
    free(t->text.letters);
    free(t->saver.bytes);
    if (t->job)
        pch_close(t->job);
}

int main(int argc, char **argv)
{
    struct options options;
    enum parsed parsed = parse_options(argc, argv, &options);
    if (parsed != PARSED_RUN)
        return parsed == PARSED_HELP ? 0 : 2;
    setvbuf(stdout, NULL, _IOLBF, 0); /* so that a line is seen at once through a pipe */

    struct trainer t = {.options = &options};
    struct why why = {0};
    bool ok = start(&t, &why) && train(&t, &why) && (t.is_leaving || finish(&t, &why));
    if (!ok) {
        fprintf(stderr, "charlm[%d]: %s\n", t.rank, why.text);
        if (t.job)
            pch_error(t.job, 1, why.text);
    } else if (t.is_leaving && t.rank == 0) {
        printf("charlm: leaving after step %" PRIu64 ", as told\n", t.step);
    }
    stop(&t);
    return ok ? 0 : 1;
}
