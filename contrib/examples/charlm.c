/* SPDX-License-Identifier: Apache-2.0
 *
 * charlm: a small data-parallel character language model, trained on a text file; the example of a
 * program that pchrun can preempt. The functions train(), save() and resume() do that.
 *
 *     charlm                                            one process, no pchrun
 *     pchrun -n 4 --checkpoint-dir ckpt -- charlm --dir ckpt
 *
 * Each rank draws its own samples, the gradients are summed over the ranks, and each rank makes the
 * same update. All state is in the checkpoints. So a preempted and resumed run ends with the same
 * weights, to the bit, as an uninterrupted run. Any error ends the program with a line on standard
 * error and exit status 1 (2: wrong options).
 */
#include "charlm.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_SIZE (PATH_MAX + 50)

static uint8_t text[16 << 20]; /* the text's beginning, as numbers below LETTERS */
static size_t text_len;
static struct state state;
static struct gradient gradient; /* of the last step, summed over the ranks */
static char dir[PATH_MAX];       /* of the checkpoints; absolute */
static int dir_fd;
static bool has_failed; /* the last save */

/* --- save and resume --- */

static const char *path_of(char path[PATH_SIZE], long step)
{
    snprintf(path, PATH_SIZE, "%s/step-%08ld.rank-%ld-of-%ld", dir, step, opt.rank, opt.world);
    return path;
}

/* At the end of a step. If the save fails, the program reports that to pchrun and trains on. */
static enum pch_action save(void)
{
    char path[PATH_SIZE], why[PATH_SIZE + 100];
    path_of(path, state.step);
    usleep((useconds_t)opt.save_time_ms * 1000);
    has_failed = !checkpoint_write(&state, dir_fd, path);
    if (!has_failed) {
        fprintf(stderr, "charlm[%ld]: saved step %ld\n", opt.rank, state.step);
        return pch_saved(job, state.step, path);
    }
    snprintf(why, sizeof why, "cannot write checkpoint %s: %m", path);
    fprintf(stderr, "charlm[%ld]: %s\n", opt.rank, why);
    pch_save_failed(job, state.step, why);
    return PCH_CONTINUE;
}

/* Loads the last commit, if pchrun has one. The loaded state must be of that step. */
static void resume(void)
{
    char own[PATH_SIZE];
    const char *path = pch_resume_path(job);
    long step = pch_supervised(job) ? (long)pch_resume_step(job) : opt.resume;
    if (step == 0)
        return;
    path = path ? path : path_of(own, step);
    checkpoint_read(&state, path);
    if (state.step != step)
        die("checkpoint %s is of step %ld, and the job resumes at step %ld", path, state.step,
            step);
}

/* --- training --- */

/* Returns -1, or the rank that is lost. */
static long train_step(void)
{
    memset(&gradient, 0, sizeof gradient);
    for (long i = 0; i < BATCH; i++)
        model_add(&gradient, &state.weights, text + random_next(&state.rng) % (text_len - CONTEXT));
    long lost = net_sum(&gradient);
    if (lost >= 0)
        return lost;
    model_update(&state, &gradient, (float)(BATCH * opt.world));
    state.step++;
    usleep((useconds_t)(opt.step_time_ms + opt.skew_ms * opt.rank) * 1000);
    return -1;
}

static bool is_save_due(void)
{
    return state.step == opt.steps || (opt.save_every && state.step % opt.save_every == 0);
}

/* The training loop. It calls pch_step after each step, and saves or leaves as the result says. It
 * reports its own saves in the same way. Returns false if it leaves before the last step. */
static bool train(void)
{
    enum pch_action action = PCH_CONTINUE;
    while (state.step < opt.steps && action != PCH_EXIT) {
        long lost = train_step();
        if (lost >= 0) {
            /* If time was too short to agree on a step, another rank may have ended first. */
            if (pch_notice(job, NULL, 0) > 0)
                return false;
            die("lost rank %ld, or the connection to it", lost);
        }
        action = pch_step(job, state.step);
        if (action == PCH_SAVE || (action == PCH_CONTINUE && is_save_due()))
            action = save();
        if (opt.rank == 0 && (state.step % opt.log_every == 0 || state.step == opt.steps))
            printf("step %ld loss %.4f\n", state.step, gradient.loss / (double)(BATCH * opt.world));
    }
    return action != PCH_EXIT;
}

/* --- start and end --- */

static long env_number(const char *name, const char *other, long min, long max, long otherwise)
{
    const char *value = getenv(name) ? getenv(name) : getenv(other);
    char *end;
    long n = value ? strtol(value, &end, 10) : otherwise;
    if (value && (!value[0] || *end || n < min || n > max))
        die("%s (or %s) is %s: not a number from %ld to %ld", name, other, value, min, max);
    return n;
}

/* The rank of this process, from the environment that pchrun or another launcher has set. */
static void take_place(void)
{
    opt.world = env_number("PCH_WORLD_SIZE", "WORLD_SIZE", 1, RANKS_MAX, 1);
    opt.rank = env_number("PCH_RANK", "RANK", 0, opt.world - 1, 0);
}

static void read_text(void)
{
    FILE *file = fopen(opt.text, "rbe");
    if (file)
        text_len = fread(text, 1, sizeof text, file);
    if (!file || ferror(file))
        die("cannot read the text %s (--text): %m", opt.text);
    fclose(file);
    if (text_len <= CONTEXT)
        die("the text %s is too short: it needs more than %d letters", opt.text, CONTEXT);
    state.text = digest(text, text_len);
    for (size_t i = 0; i < text_len; i++)
        text[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] - ' ' : LETTERS - 1;
}

static void start(void)
{
    struct pch_options attach = PCH_OPTIONS_INIT;
    attach.rank = (int)opt.rank;
    attach.world_size = (int)opt.world;
    attach.last_step = opt.steps;
    job = pch_open(&attach);

    read_text();
    mkdir(opt.dir, 0777);
    dir_fd = open(opt.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd < 0 || !realpath(opt.dir, dir))
        die("cannot make or open the checkpoint directory %s (--dir): %m", opt.dir);
    state.rank = opt.rank;
    state.world = opt.world;
    state.rng = 1 + opt.rank;
    model_init(&state.weights);
    resume();
    net_join(digest(&state.text, offsetof(struct state, rank) - offsetof(struct state, text)));
}

int main(int argc, char **argv)
{
    options_parse(argc, argv);
    take_place();
    setvbuf(stdout, NULL, _IOLBF, 0); /* so that a line is seen at once through a pipe */
    start();
    if (opt.rank == 0)
        printf("charlm: %ld ranks, %zu letters of text, from step %ld to %ld\n", opt.world,
               text_len, state.step, opt.steps);
    bool is_finished = train();
    if (is_finished && has_failed)
        die("trained to the end, but the result could not be saved");
    if (opt.rank == 0 && is_finished)
        printf("digest %016" PRIx64 "\n", digest(&state.weights, sizeof state.weights));
    else if (opt.rank == 0)
        printf("charlm: leaving after step %ld, as told\n", state.step);
    if (is_finished)
        pch_done(job);
    pch_close(job);
    return 0;
}
