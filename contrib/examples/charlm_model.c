/* SPDX-License-Identifier: Apache-2.0
 *
 * charlm_model: the example's model, its arithmetic and its checkpoints.
 *
 * The last `context` letters, each embedded as `embed` numbers, go through one tanh layer of
 * `hidden` cells with dropout to one logit per letter; the loss is the cross entropy of the next
 * letter. All sums are made in one fixed order, without -ffast-math, so that one binary on one kind
 * of processor gives the same bits in every run. A struct model owns its memory. One thread at a
 * time.
 *
 * A checkpoint is a header, the weights, and Adam's two moments, as the machine has them in memory.
 * The header carries a digest over all of it.
 */
#include "charlm.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DROPOUT 0.1f
/* Adam */
#define BETA1   0.9
#define BETA2   0.999
#define EPSILON 1e-8f

bool why_set(struct why *why, int sys_errno, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(why->text, sizeof(why->text), fmt, args);
    va_end(args);
    size_t used = strlen(why->text);
    if (sys_errno)
        snprintf(why->text + used, sizeof(why->text) - used, ": %s", strerror(sys_errno));
    return false;
}

uint64_t fnv64(uint64_t hash, const void *data, size_t len)
{
    for (const uint8_t *p = data; len > 0; p++, len--)
        hash = (hash ^ *p) * UINT64_C(0x100000001b3);
    return hash;
}

uint64_t rng_next(struct rng *rng)
{
    uint64_t z = rng->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

struct rng rng_for(uint64_t seed, uint64_t a, uint64_t b)
{
    struct rng rng = {seed};
    rng.state = rng_next(&rng) ^ a;
    rng.state = rng_next(&rng) ^ b;
    return (struct rng){rng_next(&rng)};
}

uint64_t rng_below(struct rng *rng, uint64_t n)
{
    return rng_next(rng) % n; /* the bias is n / 2^64 */
}

float rng_unit(struct rng *rng)
{
    return (float)(rng_next(rng) >> 40) * 0x1p-24f;
}

/* Where each part lies in a vector of parameters (the weights, or the gradient). */
struct parts {
    float *embed;  /* [vocab][embed] */
    float *inner;  /* [context * embed][hidden] */
    float *bias;   /* [hidden] */
    float *outer;  /* [hidden][vocab] */
    float *offset; /* [vocab] */
};

static struct parts parts_of(const struct model_sizes *s, float *vector)
{
    struct parts p = {.embed = vector};
    p.inner = p.embed + (size_t)s->vocab * s->embed;
    p.bias = p.inner + (size_t)s->context * s->embed * s->hidden;
    p.outer = p.bias + s->hidden;
    p.offset = p.outer + (size_t)s->hidden * s->vocab;
    return p;
}

/* The activations of one sample. */
struct work {
    float *input;        /* [context * embed] */
    float *cells, *keep; /* [hidden]: after tanh, and what dropout multiplies it by */
    float *down;         /* [hidden]: the gradient before the tanh */
    float *out;          /* [vocab]: logits, then probabilities, then their gradient */
};

static struct work work_of(const struct model *model)
{
    const struct model_sizes *s = &model->sizes;
    struct work w = {.input = model->work};
    w.cells = w.input + (size_t)s->context * s->embed;
    w.keep = w.cells + s->hidden;
    w.down = w.keep + s->hidden;
    w.out = w.down + s->hidden;
    return w;
}

static void fill_random(float *values, size_t n, float scale, struct rng *rng)
{
    for (size_t i = 0; i < n; i++)
        values[i] = (2 * rng_unit(rng) - 1) * scale;
}

bool model_init(struct model *model, const struct model_sizes *sizes, uint64_t seed,
                struct why *why)
{
    const struct model_sizes *s = sizes;
    size_t width = (size_t)s->context * s->embed;
    *model = (struct model){.sizes = *s};
    model->params =
        (size_t)s->vocab * s->embed + (width + 1) * s->hidden + ((size_t)s->hidden + 1) * s->vocab;
    model->weights = calloc(4 * model->params + 1, sizeof(float));
    model->work = calloc(width + 3 * (size_t)s->hidden + s->vocab, sizeof(float));
    if (!model->weights || !model->work) {
        model_fini(model);
        return why_set(why, 0, "no memory for a model of %zu weights", model->params);
    }
    /* One behind the other: a checkpoint has the first three. */
    model->mean = model->weights + model->params;
    model->variance = model->mean + model->params;
    model->gradient = model->variance + model->params;

    struct rng rng = rng_for(seed, UINT64_MAX, 0); /* no step and rank have this stream */
    struct parts p = parts_of(s, model->weights);
    fill_random(p.embed, (size_t)s->vocab * s->embed, 0.5f, &rng);
    fill_random(p.inner, width * s->hidden, sqrtf(3.0f / (float)width), &rng);
    fill_random(p.outer, (size_t)s->hidden * s->vocab, sqrtf(3.0f / (float)s->hidden), &rng);
    return true;
}

void model_fini(struct model *model)
{
    free(model->weights);
    free(model->work);
    *model = (struct model){0};
}

/* sum += factor * values */
static void add_scaled(float *sum, const float *values, float factor, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sum[i] += factor * values[i];
}

/* Four sums side by side: four times as fast as one, and as fixed in order. */
static float dot(const float *a, const float *b, size_t n)
{
    float sum[4] = {0};
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (size_t k = 0; k < 4; k++)
            sum[k] += a[i + k] * b[i + k];
    for (; i < n; i++)
        sum[0] += a[i] * b[i];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* Logits to probabilities. */
static void softmax(float *values, size_t n)
{
    float top = values[0], sum = 0;
    for (size_t i = 1; i < n; i++)
        top = fmaxf(top, values[i]);
    for (size_t i = 0; i < n; i++)
        sum += values[i] = expf(values[i] - top);
    for (size_t i = 0; i < n; i++)
        values[i] /= sum;
}

/* Leaves the probability of each letter in w->out. Without an rng there is no dropout. */
static void forward(const struct model *model, const struct work *w, const uint8_t *letters,
                    struct rng *rng)
{
    const struct model_sizes *s = &model->sizes;
    struct parts p = parts_of(s, model->weights);
    size_t width = (size_t)s->context * s->embed;
    for (size_t i = 0; i < s->context; i++)
        memcpy(w->input + i * s->embed, p.embed + letters[i] * s->embed, s->embed * sizeof(float));
    memcpy(w->cells, p.bias, s->hidden * sizeof(float));
    for (size_t i = 0; i < width; i++)
        add_scaled(w->cells, p.inner + i * s->hidden, w->input[i], s->hidden);
    memcpy(w->out, p.offset, s->vocab * sizeof(float));
    for (size_t j = 0; j < s->hidden; j++) {
        w->keep[j] = !rng ? 1.0f : rng_unit(rng) < DROPOUT ? 0.0f : 1.0f / (1.0f - DROPOUT);
        w->cells[j] = tanhf(w->cells[j]);
        add_scaled(w->out, p.outer + j * s->vocab, w->cells[j] * w->keep[j], s->vocab);
    }
    softmax(w->out, s->vocab);
}

/* From the gradient of the logits in w->out back to every parameter. */
static void backward(struct model *model, const struct work *w, const uint8_t *letters)
{
    const struct model_sizes *s = &model->sizes;
    struct parts p = parts_of(s, model->weights), g = parts_of(s, model->gradient);
    add_scaled(g.offset, w->out, 1, s->vocab);
    for (size_t j = 0; j < s->hidden; j++) {
        float cell = w->cells[j], keep = w->keep[j];
        add_scaled(g.outer + j * s->vocab, w->out, cell * keep, s->vocab);
        w->down[j] = dot(p.outer + j * s->vocab, w->out, s->vocab) * keep * (1 - cell * cell);
    }
    add_scaled(g.bias, w->down, 1, s->hidden);
    for (size_t i = 0; i < (size_t)s->context * s->embed; i++) {
        add_scaled(g.inner + i * s->hidden, w->down, w->input[i], s->hidden);
        g.embed[letters[i / s->embed] * s->embed + i % s->embed] +=
            dot(p.inner + i * s->hidden, w->down, s->hidden);
    }
}

void model_begin(struct model *model)
{
    memset(model->gradient, 0, (model->params + 1) * sizeof(float));
}

void model_add(struct model *model, const uint8_t *letters, uint8_t next, struct rng *rng)
{
    struct work w = work_of(model);
    forward(model, &w, letters, rng);
    model->gradient[model->params] -= logf(fmaxf(w.out[next], 1e-30f));
    w.out[next] -= 1;
    backward(model, &w, letters);
}

float model_update(struct model *model, uint64_t step, float rate, float samples)
{
    float correct1 = (float)(1 / (1 - pow(BETA1, (double)step)));
    float correct2 = (float)(1 / (1 - pow(BETA2, (double)step)));
    for (size_t i = 0; i < model->params; i++) {
        float g = model->gradient[i] / samples;
        model->mean[i] = (float)BETA1 * model->mean[i] + (float)(1 - BETA1) * g;
        model->variance[i] = (float)BETA2 * model->variance[i] + (float)(1 - BETA2) * g * g;
        model->weights[i] -=
            rate * model->mean[i] * correct1 / (sqrtf(model->variance[i] * correct2) + EPSILON);
    }
    return model->gradient[model->params] / samples;
}

uint8_t model_draw(struct model *model, const uint8_t *letters, struct rng *rng)
{
    struct work w = work_of(model);
    forward(model, &w, letters, NULL);
    float left = rng_unit(rng);
    uint8_t letter = 0;
    while (letter + 1u < model->sizes.vocab && left >= w.out[letter])
        left -= w.out[letter++];
    return letter;
}

/* --- checkpoints --- */

#define CHECKPOINT_MAGIC   UINT64_C(0x54504b434d4c4843) /* "CHLMCKPT" */
#define CHECKPOINT_VERSION 1
#define CHECKPOINT_MAX     INT64_C(0x7fffffff) /* bytes */

struct header {
    uint64_t magic; /* tells the byte order, too */
    uint32_t version, header_bytes;
    struct model_sizes sizes;
    uint64_t params;
    struct checkpoint state;
    uint64_t digest; /* over the header, with 0 in this place, and all that follows */
};

/* What follows the header: weights, mean and variance. */
static size_t payload_size(const struct model *model)
{
    return 3 * model->params * sizeof(float);
}

size_t checkpoint_size(const struct model *model)
{
    return sizeof(struct header) + payload_size(model);
}

static uint64_t digest_of(struct header header, const void *payload, size_t len)
{
    header.digest = 0;
    return fnv64(fnv64(FNV_START, &header, sizeof(header)), payload, len);
}

void checkpoint_encode(const struct model *model, const struct checkpoint *state, void *bytes)
{
    struct header header = {.magic = CHECKPOINT_MAGIC,
                            .version = CHECKPOINT_VERSION,
                            .header_bytes = sizeof(header),
                            .sizes = model->sizes,
                            .params = model->params,
                            .state = *state};
    header.digest = digest_of(header, model->weights, payload_size(model));
    memcpy(bytes, &header, sizeof(header));
    memcpy((char *)bytes + sizeof(header), model->weights, payload_size(model));
}

static bool write_and_sync(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, bytes, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        bytes += n;
        len -= (size_t)n;
    }
    return fsync(fd) == 0;
}

/* A rename is durable when its directory is. */
static bool sync_directory_of(const char *path)
{
    char dir[PATH_MAX];
    snprintf(dir, sizeof(dir), "%s", path);
    char *slash = strrchr(dir, '/');
    if (slash)
        slash[slash == dir] = '\0';
    int fd = open(slash ? dir : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool ok = fd >= 0 && fsync(fd) == 0;
    int failed = errno;
    if (fd >= 0)
        close(fd);
    errno = failed;
    return ok;
}

bool checkpoint_write(const char *path, const void *bytes, size_t len, struct why *why)
{
    char temp[PATH_MAX];
    if (snprintf(temp, sizeof(temp), "%s.tmp", path) >= (int)sizeof(temp))
        return why_set(why, ENAMETOOLONG, "cannot write checkpoint %s", path);
    int fd = open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return why_set(why, errno, "cannot write checkpoint %s", temp);
    bool ok = write_and_sync(fd, bytes, len);
    int failed = errno;
    if (close(fd) != 0 && ok) {
        ok = false;
        failed = errno;
    }
    if (!ok) {
        unlink(temp);
        return why_set(why, failed, "cannot write checkpoint %s", temp);
    }
    if (rename(temp, path) == 0 && sync_directory_of(path))
        return true;
    why_set(why, errno, "cannot put checkpoint %s in place", path);
    unlink(temp);
    return false;
}

/* The whole file in memory, which the caller frees; NULL with *why. */
static char *read_file(const char *path, size_t *ret_len, struct why *why)
{
    FILE *file = fopen(path, "rbe");
    struct stat st;
    if (!file || fstat(fileno(file), &st) != 0) {
        why_set(why, errno, "cannot read checkpoint %s", path);
        if (file)
            fclose(file);
        return NULL;
    }
    char *bytes = NULL;
    if (!S_ISREG(st.st_mode) || st.st_size > CHECKPOINT_MAX)
        why_set(why, 0, "checkpoint %s is not a file of a plausible size", path);
    else if (!(bytes = malloc((size_t)st.st_size + 1)))
        why_set(why, 0, "no memory to read checkpoint %s", path);
    if (bytes)
        *ret_len = fread(bytes, 1, (size_t)st.st_size, file);
    if (bytes && ferror(file)) {
        why_set(why, errno, "cannot read checkpoint %s", path);
        free(bytes);
        bytes = NULL;
    }
    fclose(file);
    return bytes;
}

/* Is it one of ours, and whole? */
static bool check_whole(const char *path, const struct header *h, size_t len, struct why *why)
{
    if (len < sizeof(*h))
        return why_set(why, 0, "checkpoint %s is damaged: it has only %zu bytes", path, len);
    if (h->magic != CHECKPOINT_MAGIC)
        return why_set(
            why, 0, "%s is damaged, or is no checkpoint of charlm on this kind of machine", path);
    if (h->version != CHECKPOINT_VERSION || h->header_bytes != sizeof(*h))
        return why_set(why, 0,
                       "checkpoint %s is damaged, or of another version: %" PRIu32 ", not %d", path,
                       h->version, CHECKPOINT_VERSION);
    size_t payload = len - sizeof(*h);
    if (payload % (3 * sizeof(float)) != 0 || payload / (3 * sizeof(float)) != h->params)
        return why_set(
            why, 0, "checkpoint %s is damaged: it has %zu bytes, not those of %" PRIu64 " weights",
            path, len, h->params);
    if (digest_of(*h, h + 1, payload) != h->digest)
        return why_set(why, 0, "checkpoint %s is damaged: its contents do not match their digest",
                       path);
    return true;
}

/* Is it the one that is wanted? */
static bool check_wanted(const char *path, const struct header *h, const struct model *model,
                         const struct checkpoint *want, struct why *why)
{
    const struct model_sizes *has = &h->sizes, *need = &model->sizes;
    const struct checkpoint *got = &h->state;
    if (got->step != want->step)
        return why_set(why, 0, "checkpoint %s is of step %" PRIu64 ", not %" PRIu64, path,
                       got->step, want->step);
    if (got->world != want->world || got->rank != want->rank)
        return why_set(why, 0,
                       "checkpoint %s is of rank %" PRIu32 " of %" PRIu32 ", this is rank %" PRIu32
                       " of %" PRIu32,
                       path, got->rank, got->world, want->rank, want->world);
    if (got->seed != want->seed)
        return why_set(why, 0, "checkpoint %s is of --seed %" PRIu64 ", not %" PRIu64, path,
                       got->seed, want->seed);
    if (memcmp(has, need, sizeof(*has)) != 0 || h->params != model->params)
        return why_set(why, 0,
                       "checkpoint %s is of another model: %" PRIu32 " letters, context %" PRIu32
                       ", hidden %" PRIu32 ", and this is %" PRIu32 ", %" PRIu32 ", %" PRIu32,
                       path, has->vocab, has->context, has->hidden, need->vocab, need->context,
                       need->hidden);
    if (got->text != want->text)
        return why_set(why, 0, "checkpoint %s was trained on another --text", path);
    return true;
}

bool checkpoint_read(const char *path, struct model *model, struct checkpoint *state,
                     struct why *why)
{
    size_t len = 0;
    char *bytes = read_file(path, &len, why);
    if (!bytes)
        return false;
    const struct header *h = (const struct header *)bytes; /* malloc() aligns it */
    bool ok = check_whole(path, h, len, why) && check_wanted(path, h, model, state, why);
    if (ok) {
        memcpy(model->weights, h + 1, payload_size(model));
        state->rng = h->state.rng;
    }
    free(bytes);
    return ok;
}
